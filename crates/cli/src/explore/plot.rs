//! Plots as the inside of an SVG element.
//!
//! Every colour is one of a few that the page's style sheet knows by name ([`style`]): it replaces
//! them in dark mode and gives each line its own dashes, so that nothing hangs on colour alone.

use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

/// The width and height of every plot.
pub(super) const SIZE: (u32, u32) = (760, 380);

/// The most lines one plot may have.
pub(super) const MOST_LINES: usize = PALETTE.len();

/// On light ground, on dark ground, dashes.
const PALETTE: [(RGBColor, &str, &str); 8] = [
    (RGBColor(0x00, 0x5f, 0xa8), "#6cb8ff", "none"),
    (RGBColor(0xb3, 0x4a, 0x00), "#ff9d5c", "9 3"),
    (RGBColor(0x00, 0x72, 0x53), "#3fd0a4", "3 3"),
    (RGBColor(0x9c, 0x2f, 0x7d), "#f08fd2", "12 3 3 3"),
    (RGBColor(0x6b, 0x58, 0x00), "#e0c341", "6 2 2 2 2 2"),
    (RGBColor(0x4b, 0x4b, 0xb5), "#aab0ff", "15 4"),
    (RGBColor(0xa8, 0x1c, 0x2c), "#ff8f8f", "1 3"),
    (RGBColor(0x3d, 0x5a, 0x66), "#a9c7d3", "6 6"),
];
/// Stands for the colour of text.
const INK: RGBColor = RGBColor(0, 0, 0);
/// Stands for the colour of grids.
const GRID: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);

/// What is drawn.
pub(super) struct Plot {
    pub(super) title: String,
    /// What a reader would see, for those who cannot.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) shape: Shape,
}

/// From one value to another, with a title that names the unit.
pub(super) struct Axis {
    pub(super) title: String,
    pub(super) from: f64,
    pub(super) to: f64,
    /// Names for 0, 1, 2 …; if empty, numbers.
    pub(super) names: Vec<String>,
}

/// Lines or bars.
pub(super) enum Shape {
    /// At most [`MOST_LINES`]; more are not drawn.
    Lines(Vec<Line>),
    /// One horizontal bar for each name of the y axis, of that length.
    Bars(Vec<f64>),
}

/// A line through its points; it is broken where there is none.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<Option<(f64, f64)>>,
}

impl Axis {
    /// Of numbers.
    pub(super) fn new(title: impl Into<String>, from: f64, to: f64) -> Self {
        // An axis without length cannot be drawn.
        let to = if to > from { to } else { from + 1.0 };
        Self { title: title.into(), from, to, names: Vec::new() }
    }

    /// Of names at 0, 1, 2 ….
    pub(super) fn of_names(title: impl Into<String>, names: Vec<String>) -> Self {
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

/// What stands between `<svg>` and `</svg>`.
pub(super) fn draw(plot: &Plot) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        // Into memory, with axes that have a length: cannot fail.
        draw_on(&area, plot).and_then(|()| area.present()).expect("memory takes it");
    }
    // The page writes the element itself, with a title and a description in it.
    let inside = svg.split_once('>').map_or("", |(_, rest)| rest).trim();
    inside.strip_suffix("</svg>").unwrap_or(inside).trim().to_owned()
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_on<'a>(area: &DrawingArea<SVGBackend<'a>, Shift>, plot: &Plot) -> Drawn<'a> {
    let bars = matches!(plot.shape, Shape::Bars(_));
    // Bars stand around their position, and their names need room.
    let beside = if bars { 0.6 } else { 0.0 };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(if bars { 250 } else { 74 })
        .build_cartesian_2d(plot.x.from..plot.x.to, plot.y.from - beside..plot.y.to + beside)?;
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
    match &plot.shape {
        Shape::Lines(lines) => {
            for (line, (colour, ..)) in lines.iter().zip(PALETTE) {
                for stretch in
                    line.points.split(Option::is_none).filter(|points| !points.is_empty())
                {
                    let points = stretch.iter().copied().flatten();
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
                }
            }
        }
        Shape::Bars(lengths) => {
            let (colour, ..) = PALETTE[0];
            chart.draw_series(lengths.iter().enumerate().map(|(at, &length)| {
                let at = at as f64;
                Rectangle::new([(0.0, at - 0.35), (length, at + 0.35)], colour.filled())
            }))?;
        }
    }
    Ok(())
}

/// The names of the lines that are drawn, each with the colour that stands for it in [`draw`].
pub(super) fn legend(plot: &Plot) -> Vec<(&str, String)> {
    let Shape::Lines(lines) = &plot.shape else { return Vec::new() };
    let names = lines.iter().map(|line| line.name.as_str());
    names.zip(PALETTE.iter().map(|(colour, ..)| hex(*colour))).collect()
}

/// The rules that give the colours of [`draw`] their look in light and dark.
pub(super) fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let (ink, grid) = (hex(INK), hex(GRID));
    // Writing to a string cannot fail.
    let _ = write!(
        light,
        "svg [fill=\"{ink}\"]{{fill:currentColor}}svg [stroke=\"{ink}\"]{{stroke:currentColor}}\
         svg [stroke=\"{grid}\"]{{stroke:var(--grid)}}"
    );
    for (colour, on_dark, dashes) in PALETTE {
        let colour = hex(colour);
        let _ = write!(light, "svg [stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}");
        let _ = write!(
            dark,
            "svg [stroke=\"{colour}\"]{{stroke:{on_dark}}}svg [fill=\"{colour}\"]{{fill:{on_dark}}}"
        );
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// As the SVG backend writes it.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
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
            assert_eq!(svg.matches(&format!("fill=\"{}\"", hex(PALETTE[0].0))).count(), count);
        }
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_point() {
        let points = [Some((0.0, 0.0)), Some((1.0, 0.5)), None, Some((2.0, 0.0)), Some((2.5, 1.0))];
        let line = |name: &str| Line { name: name.into(), points: points.into() };
        let svg = draw(&plot(2, Shape::Lines(vec![line("a"), line("b")])));
        for (colour, ..) in &PALETTE[..2] {
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
}
