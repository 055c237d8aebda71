//! Draws plots as the contents of an SVG element.

mod colours;
mod plane;

use plotters::coord::Shift;
use plotters::prelude::*;

use colours::{CLASSES, GRID, INK, LINES, hex};

pub(crate) use colours::style;
pub use plane::{Cell, Mark, Plane, Shown};

/// The width and height of every plot.
pub const SIZE: (u32, u32) = (760, 380);

/// The most lines one plot may have.
pub const MOST_LINES: usize = LINES.len();

/// The most classes of cells one plot may have.
pub const MOST_CLASSES: usize = CLASSES.len();

/// A plot.
pub struct Plot {
    /// The caption.
    pub title: String,
    /// A description of the picture for readers who cannot see it.
    pub description: String,
    /// The horizontal axis, from left to right.
    pub x: Axis,
    /// The vertical axis, from bottom to top.
    pub y: Axis,
    /// The contents between the axes.
    pub shape: Shape,
}

/// An axis from one value to another, with a title that names the unit.
pub struct Axis {
    /// The quantity, with its unit.
    pub title: String,
    /// The first value.
    pub from: f64,
    /// The last value, above the first.
    pub to: f64,
    /// The names of 0, 1, 2 …, or empty to show numbers.
    pub names: Vec<String>,
}

/// The contents of a plot: lines, bars, or a plane.
pub enum Shape {
    /// Lines, at most [`MOST_LINES`]; more are not drawn.
    Lines(Vec<Line>),
    /// One horizontal bar of the given length for each name of the y axis.
    Bars(Vec<f64>),
    /// Cells of a few classes, with lines and marks over them.
    Plane(Plane),
}

/// A line through its points, broken where a point is missing.
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The points, or `None` for a break.
    pub points: Vec<Option<(f64, f64)>>,
}

impl Axis {
    /// Makes an axis of numbers.
    pub fn new(title: impl Into<String>, from: f64, to: f64) -> Self {
        // An axis without length cannot be drawn.
        let to = if to > from { to } else { from + 1.0 };
        Self { title: title.into(), from, to, names: Vec::new() }
    }

    /// Makes an axis of names at 0, 1, 2 ….
    pub fn of_names(title: impl Into<String>, names: Vec<String>) -> Self {
        let last = names.len().saturating_sub(1) as f64;
        Self { names, ..Self::new(title, 0.0, last) }
    }

    fn label(&self, value: f64) -> String {
        if self.names.is_empty() {
            let text = format!("{value:.6}");
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        let near = value.round();
        let at = ((value - near).abs() < 1e-6 && near >= 0.0).then_some(near as usize);
        at.and_then(|at| self.names.get(at)).cloned().unwrap_or_default()
    }

    fn labels(&self) -> usize {
        if self.names.is_empty() { 11 } else { self.names.len() }
    }
}

/// Returns the SVG between `<svg>` and `</svg>`.
pub fn draw(plot: &Plot) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        // Writing to memory cannot fail, and the axes have a length.
        draw_on(&area, plot).and_then(|()| area.present()).expect("memory takes it");
    }
    // The page writes the element itself, with a title and a description inside.
    let inside = svg.split_once('>').map_or("", |(_, rest)| rest).trim();
    inside.strip_suffix("</svg>").unwrap_or(inside).trim().to_owned()
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_on<'a>(area: &DrawingArea<SVGBackend<'a>, Shift>, plot: &Plot) -> Drawn<'a> {
    let bars = matches!(plot.shape, Shape::Bars(_));
    // Bars extend around their position, and their names need room.
    let beside = if bars { 0.6 } else { 0.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(if bars { 250 } else { 74 })
        .build_cartesian_2d(plot.x.from..plot.x.to, plot.y.from - beside..plot.y.to + beside)?;
    // Cells go under the grid, everything else over it.
    if let Shape::Plane(plane) = &plot.shape {
        plane::draw_cells(&mut chart, plane)?;
    }
    let text = ("sans-serif", 16).into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(&plot.x.title)
        .y_desc(if bars { "" } else { &plot.y.title })
        .x_labels(plot.x.labels())
        .y_labels(plot.y.labels())
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_desc_style(text.clone())
        .label_style(text);
    let (x_label, y_label) = (|x: &f64| plot.x.label(*x), |y: &f64| plot.y.label(*y));
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label).draw()?;
    let lines = match &plot.shape {
        Shape::Lines(lines) => lines.as_slice(),
        Shape::Plane(plane) => &plane.lines,
        Shape::Bars(lengths) => {
            let (colour, ..) = LINES[0];
            chart.draw_series(lengths.iter().enumerate().map(|(at, &length)| {
                let at = at as f64;
                Rectangle::new([(0.0, at - 0.35), (length, at + 0.35)], colour.filled())
            }))?;
            &[]
        }
    };
    for (line, (colour, ..)) in lines.iter().zip(LINES) {
        for stretch in line.points.split(Option::is_none).filter(|points| !points.is_empty()) {
            let points = stretch.iter().copied().flatten();
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
    }
    if let Shape::Plane(plane) = &plot.shape {
        plane::draw_marks(&mut chart, plane)?;
    }
    Ok(())
}

/// One entry of a legend.
pub(crate) enum Key<'a> {
    /// A line, with the colour that stands for it in [`draw`].
    Line(&'a str, String),
    /// A class of cells, with its colour.
    Class(&'a str, String),
    /// A mark.
    Mark(&'static str, Shown),
}

fn of_lines(lines: &[Line]) -> Vec<Key<'_>> {
    let keys = lines.iter().zip(LINES);
    keys.map(|(line, (colour, ..))| Key::Line(line.name.as_str(), hex(colour))).collect()
}

/// Returns the entries of the plot's legend.
pub(crate) fn legend(plot: &Plot) -> Vec<Key<'_>> {
    match &plot.shape {
        Shape::Lines(lines) => of_lines(lines),
        Shape::Bars(_) => Vec::new(),
        Shape::Plane(plane) => {
            let classes = plane.classes.iter().zip(CLASSES);
            let mut keys: Vec<Key<'_>> =
                classes.map(|(name, (colour, _))| Key::Class(name.as_str(), hex(colour))).collect();
            keys.extend(of_lines(&plane.lines));
            for (name, shown) in &plane.shown {
                keys.push(Key::Mark(name, *shown));
            }
            keys
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(names: usize, shape: Shape) -> Plot {
        let names = (0..names).map(|at| format!("name {at}.")).collect();
        Plot {
            title: "title".into(),
            description: "description".into(),
            x: Axis::new("length", 0.0, 2.5),
            y: Axis::of_names("", names),
            shape,
        }
    }

    #[test]
    fn every_bar_has_its_name() {
        for count in 1..=30 {
            let svg = draw(&plot(count, Shape::Bars(vec![1.5; count])));
            for at in 0..count {
                assert_eq!(svg.matches(&format!("\nname {at}.\n")).count(), 1, "{at} of {count}");
            }
            assert_eq!(svg.matches(&format!("fill=\"{}\"", hex(LINES[0].0))).count(), count);
        }
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_point() {
        let points = [Some((0.0, 0.0)), Some((1.0, 0.5)), None, Some((2.0, 0.0)), Some((2.5, 1.0))];
        let line = |name: &str| Line { name: name.into(), points: points.into() };
        let svg = draw(&plot(2, Shape::Lines(vec![line("a"), line("b")])));
        for (colour, ..) in &LINES[..2] {
            assert_eq!(svg.matches(&format!("stroke=\"{}\"", hex(*colour))).count(), 2);
        }
        assert!(!svg.contains("<svg") && !svg.contains("</svg>"));
    }

    #[test]
    fn an_axis_without_length_is_drawn_all_the_same() {
        let axis = Axis::new("x", 3.0, 3.0);
        assert!(axis.to > axis.from);
        assert_eq!((axis.label(0.25), axis.label(10.0)), ("0.25".into(), "10".into()));
    }

    #[test]
    fn a_plane_shows_its_cells_lines_and_marks() {
        let cell = |x: f64, class| Cell { from: (x, 0.0), to: (x + 1.0, 1.0), class };
        let mark = |x, shown| Mark { at: (x, 0.5), shown, name: format!("m{x}") };
        let plane = Plane {
            classes: vec!["good".into(), "bad".into()],
            cells: vec![cell(0.0, 0), cell(1.0, 1), cell(1.5, 1)],
            lines: vec![Line {
                name: "edge".into(),
                points: vec![Some((0.0, 0.0)), Some((2.0, 2.0))],
            }],
            shown: vec![("works", Shown::Disc)],
            marks: vec![
                mark(0.5, Shown::Disc),
                mark(1.0, Shown::Triangle),
                mark(1.5, Shown::Cross),
            ],
        };
        let plot = plot(3, Shape::Plane(plane));
        let svg = draw(&plot);
        assert_eq!(svg.matches(&format!("fill=\"{}\"", hex(CLASSES[0].0))).count(), 1);
        assert_eq!(svg.matches(&format!("fill=\"{}\"", hex(CLASSES[1].0))).count(), 2);
        for name in ["\nm0.5\n", "\nm1\n", "\nm1.5\n"] {
            assert_eq!(svg.matches(name).count(), 1, "{name}");
        }
        assert_eq!(legend(&plot).len(), 4);
    }
}
