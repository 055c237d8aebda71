//! Computes rates and gaps of received datagrams, and draws rates over time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use punctual_model::{Duration, Instant};

use crate::extent::Error;
use crate::lab::Received;

const SIZE: (u32, u32) = (900, 420);
/// The room beside the axes for their numbers.
const MARGIN: i32 = 60;

/// Returns the Mbit/s of messages, from the beginning of the first message to that of the last, or
/// 0 for less than two messages.
pub(crate) fn mbits(heard: &[Received]) -> f64 {
    let is_first = |one: &Received| one.stamp.is_some();
    let (Some(first), Some(last)) =
        (heard.iter().position(is_first), heard.iter().rposition(is_first))
    else {
        return 0.0;
    };
    let bytes: u64 = heard[first..last].iter().map(|one| u64::from(one.bytes)).sum();
    let nanos = heard[last].at.saturating_since(heard[first].at).as_nanos();
    if nanos == 0 { 0.0 } else { bytes as f64 * 8e3 / nanos as f64 }
}

/// Returns the Mbit/s in each whole window of this length between `from` and `until`.
pub(crate) fn windows(
    heard: &[Received],
    from: Instant,
    until: Instant,
    length: Duration,
) -> Vec<f64> {
    let count = until.saturating_since(from).as_nanos() / length.as_nanos().max(1);
    let mut bytes = vec![0; count as usize];
    for one in heard.iter().filter(|one| one.at >= from) {
        let at = (one.at - from).as_nanos() / length.as_nanos();
        if let Some(window) = bytes.get_mut(at as usize) {
            *window += u64::from(one.bytes);
        }
    }
    bytes.iter().map(|bytes| *bytes as f64 * 8e3 / length.as_nanos() as f64).collect()
}

/// Returns the most bytes in any window of this length, wherever it begins.
pub(crate) fn most_in(heard: &[Received], length: Duration) -> u64 {
    let (mut first, mut bytes, mut most) = (0, 0, 0);
    for one in heard {
        bytes += u64::from(one.bytes);
        while heard[first].at + length <= one.at {
            bytes -= u64::from(heard[first].bytes);
            first += 1;
        }
        most = most.max(bytes);
    }
    most
}

/// The errors of gaps, in µs.
pub(crate) struct Gaps {
    /// The standard deviation of all gaps.
    pub(crate) deviation: f64,
    /// The same without the worst hundredth: stalls of the host are not counted.
    pub(crate) inner: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) worst: f64,
}

impl Gaps {
    pub(crate) fn of(heard: &[Received], spacing: Duration) -> Self {
        let spacing = spacing.as_nanos() as f64 / 1e3;
        let gaps = heard.windows(2).map(|two| two[1].at.saturating_since(two[0].at));
        let mut off: Vec<f64> = gaps.map(|gap| gap.as_nanos() as f64 / 1e3 - spacing).collect();
        let count = off.len().max(1) as f64;
        let mean = off.iter().sum::<f64>() / count;
        let square = off.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
        off.iter_mut().for_each(|one| *one = one.abs());
        off.sort_by(f64::total_cmp);
        let kept = &off[..off.len() * 99 / 100];
        let inner = kept.iter().map(|one| one.powi(2)).sum::<f64>() / kept.len().max(1) as f64;
        let at = |part: f64| off.get((off.len() as f64 * part) as usize).copied();
        Self {
            deviation: square.sqrt(),
            inner: inner.sqrt(),
            p50: at(0.5).unwrap_or(0.0),
            p99: at(0.99).unwrap_or(0.0),
            worst: off.last().copied().unwrap_or(0.0),
        }
    }
}

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
