//! A callback beside modems in interrupt context.

use punctual_sweep::sheet::{Sheet, Value};

use crate::map::judge::LENGTH;
use crate::virtual_time::device::{Card, Device};

/// Returns the start delay of a 1 ms callback at top priority while modems work in interrupt
/// context on its CPU. On another CPU, or at a priority below the callback, they do not delay it.
pub fn callbacks() -> Sheet {
    let quantile = |sorted: &[u64], percent: usize| {
        Value::Time(sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied())
    };
    let row = |(context, modems): (&str, u64)| {
        let mut late = lateness(modems);
        late.sort_unstable();
        vec![
            Value::Text(context.into()),
            Value::Count(modems as usize),
            quantile(&late, 50),
            quantile(&late, 99),
            Value::Time(late.last().copied()),
        ]
    };
    Sheet {
        name: "callbacks",
        columns: &[
            ("context", "modems run"),
            ("modems", "modems on the callback's CPU"),
            ("p50_ns", "p50"),
            ("p99_ns", "p99"),
            ("max_ns", "max"),
        ],
        rows: [
            ("in a thread below it, or reserved", 0),
            ("in interrupts of another CPU", 0),
            ("in interrupts of its CPU", 1),
            ("in interrupts of its CPU", 2),
            ("in interrupts of its CPU", 4),
        ]
        .into_iter()
        .map(row)
        .collect(),
    }
}

/// Computes the delay from release to start of each callback of a call, with `modems` served in
/// each interrupt.
fn lateness(modems: u64) -> Vec<u64> {
    let modem = Device::of_the_study(Card::Latch);
    let (period, work) = (modem.period.as_nanos(), modem.work.as_nanos() * modems);
    // Shifted from the millisecond by an amount that does not divide the period, so that all phases
    // occur.
    let releases = (0..LENGTH.as_nanos() / 1_000_000).map(|at| at * 1_000_000 + at * 317 % 500_000);
    releases.map(|release| work.saturating_sub(release % period)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_waits_for_what_is_left_of_the_interrupt() {
        for modems in [0, 1, 4] {
            let late = lateness(modems);
            let most = 1_840_000 * modems;
            assert_eq!(late.len(), 37_000);
            let max = late.iter().max().copied().expect("some");
            assert!(max <= most && max >= most - most / 50, "{modems}: {max}");
        }
    }
}
