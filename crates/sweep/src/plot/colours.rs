//! Defines the colours of plots, and the style sheet that refers to them.
//!
//! Nothing depends on colour alone: each line has its own dashes, classes of cells differ in
//! lightness, and marks in shape.

use std::fmt::Write;

use plotters::style::RGBColor;

/// The colour on a light background, the colour on a dark background, and the dashes of each line.
pub(super) const LINES: [(RGBColor, &str, &str); 8] = [
    (RGBColor(0x00, 0x5f, 0xa8), "#6cb8ff", "none"),
    (RGBColor(0xb3, 0x4a, 0x00), "#ff9d5c", "9 3"),
    (RGBColor(0x00, 0x72, 0x53), "#3fd0a4", "3 3"),
    (RGBColor(0x9c, 0x2f, 0x7d), "#f08fd2", "12 3 3 3"),
    (RGBColor(0x6b, 0x58, 0x00), "#e0c341", "6 2 2 2 2 2"),
    (RGBColor(0x4b, 0x4b, 0xb5), "#aab0ff", "15 4"),
    (RGBColor(0xa8, 0x1c, 0x2c), "#ff8f8f", "1 3"),
    (RGBColor(0x3d, 0x5a, 0x66), "#a9c7d3", "6 6"),
];

/// The classes of cells from the best to the worst: from light to dark on a light background, and
/// from dark to light on a dark one.
pub(super) const CLASSES: [(RGBColor, &str); 4] = [
    (RGBColor(0xdd, 0xef, 0xe4), "#1d4030"),
    (RGBColor(0xf0, 0xd0, 0x8a), "#8a6d1f"),
    (RGBColor(0xb9, 0x7b, 0x7b), "#c48f8f"),
    (RGBColor(0x8a, 0x8a, 0x94), "#b9b9c4"),
];

/// A placeholder for the colour of text.
pub(super) const INK: RGBColor = RGBColor(0, 0, 0);
/// A placeholder for the colour of grids.
pub(super) const GRID: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);

/// Returns the rules that map the colours of plots to the light and dark themes.
pub(crate) fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let (ink, grid) = (hex(INK), hex(GRID));
    // Writing to a string cannot fail.
    let _ = write!(
        light,
        "svg [fill=\"{ink}\"]{{fill:currentColor}}svg [stroke=\"{ink}\"]{{stroke:currentColor}}\
         svg [stroke=\"{grid}\"]{{stroke:var(--grid)}}"
    );
    for (colour, on_dark, dashes) in LINES {
        let colour = hex(colour);
        let _ = write!(light, "svg [stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}");
        let _ = write!(
            dark,
            "svg [stroke=\"{colour}\"]{{stroke:{on_dark}}}svg [fill=\"{colour}\"]{{fill:{on_dark}}}"
        );
    }
    for (colour, on_dark) in CLASSES {
        let _ = write!(dark, "svg [fill=\"{}\"]{{fill:{on_dark}}}", hex(colour));
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// Formats a colour as the SVG backend does.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
