//! Maps times to places in a plot and to short texts.

use std::fmt::Write;

/// Formats a time in nanoseconds to three or four digits, in the unit that fits.
pub(super) fn short(nanos: u64) -> String {
    let (unit, name) = unit_of(nanos);
    let value = nanos as f64 / unit as f64;
    let decimals = match value {
        _ if unit == 1 => 0,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {name}")
}

/// Formats an instant, in nanoseconds after the first event, as seconds to a microsecond.
pub(super) fn instant(nanos: u64) -> String {
    let text = format!("{:.6}", (nanos / 1_000) as f64 / 1e6);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats the label of a tick, in the unit of the last one, with the digits that distinguish it
/// from the next.
fn tick(nanos: u64, step: u64, last: u64) -> String {
    let (unit, name) = unit_of(last.max(step));
    let decimals = (unit / step.clamp(1, unit)).max(1).ilog10() as usize;
    // A step of 2 or 5 needs as many digits as its power of ten.
    let decimals = decimals + usize::from(unit > step && 10u64.pow(decimals as u32) * step < unit);
    format!("{:.decimals$} {name}", nanos as f64 / unit as f64)
}

fn unit_of(nanos: u64) -> (u64, &'static str) {
    match nanos {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    }
}

/// An interval of instants, drawn on places from 0 to [`WIDTH`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The first instant in nanoseconds.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The number of places of a line.
pub(super) const WIDTH: f64 = 1_000.0;

impl Line {
    /// Returns the place of this instant, or the nearer end if it is outside.
    pub(super) fn at(&self, nanos: u64) -> f64 {
        let span = self.to.saturating_sub(self.from).max(1) as f64;
        WIDTH * nanos.clamp(self.from, self.to.max(self.from)).saturating_sub(self.from) as f64
            / span
    }

    /// Returns four to eight round instants since `zero`, with their places in percent.
    pub(super) fn ticks(&self, zero: u64) -> Vec<(f64, String)> {
        let span = self.to.saturating_sub(self.from).max(1);
        let step = step(span);
        let first = self.from.saturating_sub(zero).div_ceil(step);
        (first..first.saturating_add(10))
            .map_while(|nth| nth.checked_mul(step))
            .map(|since| {
                (zero.saturating_add(since), tick(since, step, self.to.saturating_sub(zero)))
            })
            .take_while(|(at, _)| *at <= self.to)
            .map(|(at, text)| (self.at(at) * 100.0 / WIDTH, text))
            .collect()
    }
}

/// Returns 1, 2 or 5 times a power of ten, of which 4 to 8 fit into `span`.
fn step(span: u64) -> u64 {
    let rough = (span / 8).max(1);
    let unit = 10u64.pow(rough.ilog10());
    [1, 2, 5]
        .into_iter()
        .map(|n| unit * n)
        .find(|&step| step >= rough)
        .unwrap_or(unit.saturating_mul(10))
}

/// A path made of boxes. Places have one decimal.
#[derive(Debug, Default)]
pub(super) struct Boxes(pub(super) String);

impl Boxes {
    /// Adds a box, at least wide enough to be visible.
    pub(super) fn add(&mut self, x: (f64, f64), y: (u32, u32)) {
        let to = x.1.max(x.0 + 0.8);
        // Writing to a string cannot fail.
        let _ = write!(self.0, "M{:.1} {}H{:.1}V{}H{:.1}Z", x.0, y.0, to, y.1, x.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_have_a_unit_and_few_digits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_345_678, "12.3 ms"),
            (400_000_000, "400 ms"),
            (10_000_000_000, "10 s"),
        ] {
            assert_eq!(short(nanos), text);
        }
    }

    #[test]
    fn ticks_are_round_and_neither_too_few_nor_too_many() {
        for span in [1, 2, 7, 10, 99, 1_000, 123_456, 10_000_000_000, u64::MAX / 3] {
            let ticks = Line { from: 1_000, to: 1_000 + span }.ticks(1_000);
            let least = if span < 8 { 2 } else { 4 };
            assert!((least..=10).contains(&ticks.len()), "{span}: {ticks:?}");
            assert!(ticks.iter().all(|(place, _)| (0.0..=100.0).contains(place)), "{ticks:?}");
            let is_told_apart = ticks.windows(2).all(|two| two[0].1 != two[1].1);
            assert!(is_told_apart, "{ticks:?}");
        }
        let far = Line { from: 2_000_000_000, to: 2_016_000_000 }.ticks(0);
        let labels: Vec<&str> = far.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels[..3], ["2.000 s", "2.002 s", "2.004 s"]);
        let near = Line { from: 5, to: 5 + 2_500_000 }.ticks(5);
        assert_eq!((near[0].1.as_str(), near[1].1.as_str()), ("0.0 ms", "0.5 ms"));
        for (nanos, text) in [(0, "0 s"), (2_016_620_999, "2.01662 s"), (5_000_000_000, "5 s")] {
            assert_eq!(instant(nanos), text);
        }
    }
}
