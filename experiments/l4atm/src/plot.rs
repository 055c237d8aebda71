//! Draws rates over time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Error;

const SIZE: (u32, u32) = (900, 420);
/// The room beside the axes for their numbers.
const MARGIN: i32 = 60;

/// Draws named lines: Mbit/s at equally spaced points over `seconds`.
pub(crate) fn rates(lines: &[(String, Vec<f64>)], seconds: f64) -> Result<String, Error> {
    let mut svg = String::new();
    let failed = |why: &dyn std::fmt::Display| -> Error { format!("the picture: {why}").into() };
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(|why| failed(&why))?;
        let most = lines.iter().flat_map(|(_, rates)| rates).copied().fold(1.0, f64::max);
        let (width, height) = (SIZE.0 as i32 - MARGIN * 3, SIZE.1 as i32 - MARGIN);
        let x = |part: f64| MARGIN + (part * f64::from(width)) as i32;
        let y = |rate: f64| height - (rate / most * f64::from(height - 20)) as i32;
        let text = ("sans-serif", 13).into_font().color(&BLACK);
        let right = text.pos(Pos::new(HPos::Right, VPos::Center));
        for step in 0..=5 {
            let part = f64::from(step) / 5.0;
            let rule = vec![(x(0.0), y(most * part)), (x(1.0), y(most * part))];
            root.draw(&PathElement::new(rule, BLACK.mix(0.15))).map_err(|why| failed(&why))?;
            let label = format!("{:.0} Mbit/s", most * part);
            let at = (MARGIN - 4, y(most * part));
            root.draw(&Text::new(label, at, right.clone())).map_err(|why| failed(&why))?;
            let label = format!("{:.0} s", seconds * part);
            let at = (x(part), height + 10);
            root.draw(&Text::new(label, at, text.clone())).map_err(|why| failed(&why))?;
        }
        for (number, (name, rates)) in lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            let count = rates.len().max(1) as f64;
            let points: Vec<(i32, i32)> = rates
                .iter()
                .enumerate()
                .map(|(at, rate)| (x((at as f64 + 0.5) / count), y(*rate)))
                .collect();
            root.draw(&PathElement::new(points, color.stroke_width(2)))
                .map_err(|why| failed(&why))?;
            let at = (x(1.0) + 12, 30 + 18 * number as i32);
            let colored = ("sans-serif", 13).into_font().color(&color);
            root.draw(&Text::new(name.clone(), at, colored)).map_err(|why| failed(&why))?;
        }
        root.present().map_err(|why| failed(&why))?;
    }
    Ok(svg)
}
