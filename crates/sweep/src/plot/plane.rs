//! Draws a plane: cells of a few classes, with lines and marks over them.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colours::{CLASSES, INK};
use super::{Drawn, Line};

/// The contents of a plane.
#[derive(Default)]
pub struct Plane {
    /// The names of the classes, the best first; at most [`super::MOST_CLASSES`].
    pub classes: Vec<String>,
    /// The cells, of any size. Later ones cover earlier ones.
    pub cells: Vec<Cell>,
    /// The lines over the cells, at most [`super::MOST_LINES`].
    pub lines: Vec<Line>,
    /// The meaning of each kind of mark that is used.
    pub shown: Vec<(&'static str, Shown)>,
    /// The marks, drawn over everything else.
    pub marks: Vec<Mark>,
}

/// A rectangle of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// One corner.
    pub from: (f64, f64),
    /// The opposite corner.
    pub to: (f64, f64),
    /// The class, as an index into [`Plane::classes`].
    pub class: usize,
}

/// A point, with a name above it or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The position.
    pub at: (f64, f64),
    /// The shape.
    pub shown: Shown,
    /// The name above the mark.
    pub name: String,
}

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A filled disc.
    Disc,
    /// A filled triangle.
    Triangle,
    /// A diagonal cross.
    Cross,
    /// A circle.
    Ring,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

pub(super) fn draw_cells<'b>(chart: &mut Chart<'_, 'b>, plane: &Plane) -> Drawn<'b> {
    let cells = plane.cells.iter().filter_map(|cell| {
        let (colour, _) = CLASSES.get(cell.class)?;
        Some(Rectangle::new([cell.from, cell.to], colour.filled()))
    });
    chart.draw_series(cells)?;
    Ok(())
}

/// Half the size of a mark, in pixels.
const RADIUS: i32 = 5;

pub(super) fn draw_marks<'b>(chart: &mut Chart<'_, 'b>, plane: &Plane) -> Drawn<'b> {
    // Centred above the mark, so that the names of neighbours do not collide.
    let above = Pos::new(HPos::Center, VPos::Bottom);
    let text = ("sans-serif", 13).into_font().color(&INK).pos(above);
    for mark in &plane.marks {
        let style = INK.stroke_width(2);
        match mark.shown {
            Shown::Disc => chart.draw_series([Circle::new(mark.at, RADIUS, INK.filled())]),
            Shown::Ring => chart.draw_series([Circle::new(mark.at, RADIUS, style)]),
            Shown::Triangle => {
                chart.draw_series([TriangleMarker::new(mark.at, RADIUS + 1, INK.filled())])
            }
            Shown::Cross => chart.draw_series([Cross::new(mark.at, RADIUS, style)]),
        }?;
        if mark.name.is_empty() {
            continue;
        }
        let named = EmptyElement::at(mark.at)
            + Text::new(mark.name.clone(), (0, -RADIUS - 2), text.clone());
        chart.draw_series([named])?;
    }
    Ok(())
}
