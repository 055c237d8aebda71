//! The section on our own modems.

use punctual_model::{Duration, Service};
use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Line, Plot, Shape};
use punctual_sweep::sheet::{Sheet, Value};

use crate::map::own::{DEVICES, Least, Named, Own};

/// Returns the section.
pub fn section(own: &Own) -> Section {
    Section {
        title: "The same for our own modems".into(),
        about: vec![
            "What each needs was measured on one machine, two virtual CPUs: a V.22bis line with its \
             far end and the line itself in docs/demo.md, an FSK line in a hard interrupt. \
             The bank serves 209 lines one after the other; there the latch forgets a line's batch. \
             Soft DSL is the study's figure for G.lite: a quarter of a CPU, every 4 ms; its ring is \
             taken to be 512 samples and a batch 100."
                .into(),
            "One line needs next to nothing, so all that counts is how long it can be kept waiting: \
             the latch Y - X under the period, the ring until 512 samples are there. A bank needs \
             both a share and a short gap, as the study's modem did; its last line is begun only \
             when all others are done, so its latch asks for more than the study's."
                .into(),
        ],
        summary: summary(own),
        plots: DEVICES.iter().zip(&own.found).map(|(named, found)| plot(named, found)).collect(),
        parts: vec![Part { title: "All periods".into(), plots: Vec::new(), sheet: own.sheet() }],
    }
}

fn summary(own: &Own) -> Sheet {
    let longest = |curve: &[Least], most: u64| {
        let fits = curve.iter().filter(|least| {
            let period = least.period.as_nanos();
            least.simulated.is_some_and(|x| x.as_nanos().saturating_mul(1_000_000) <= most * period)
        });
        Value::Time(fits.map(|least| least.period.as_nanos()).max())
    };
    let row = |(named, [latch, ring]): (&Named, &[Vec<Least>; 2])| {
        let need = u128::from(named.device.work_a_period().as_nanos()) * 1_000_000;
        let need = need.div_ceil(u128::from(named.device.period.as_nanos())) as u64;
        let mut row = vec![Value::Text(named.name.into()), Value::Share(Some(need))];
        for curve in [latch, ring] {
            // A quarter of a CPU, or the device's need and a tenth.
            let most = (need + need / 10).max(250_000);
            row.push(longest(curve, most));
        }
        row
    };
    Sheet {
        name: "own-modems-summary",
        columns: &[
            ("device", "device"),
            ("need_ppm", "need"),
            ("latch_longest_ns", "latch: longest Y tried at a quarter of a CPU"),
            ("ring_longest_ns", "ring: the same"),
        ],
        rows: DEVICES.iter().zip(&own.found).map(row).collect(),
    }
}

fn plot(named: &Named, [latch, ring]: &[Vec<Least>; 2]) -> Plot {
    let line = |name: &str, curve: &[Least], of: fn(&Least) -> Option<Service>| Line {
        name: name.into(),
        points: curve
            .iter()
            .map(|least| Some((millis(least.period), millis(of(least)?.at_full_speed()))))
            .collect(),
    };
    let lines = vec![
        line("latch, simulated", latch, |least| least.simulated),
        line("latch, proven", latch, |least| least.proven),
        line("ring, simulated", ring, |least| least.simulated),
        line("ring, proven", ring, |least| least.proven),
    ];
    let ends = || latch.iter().map(|least| millis(least.period));
    let heights = || lines.iter().flat_map(|line| line.points.iter().flatten()).map(|(_, y)| *y);
    let (first, last) = (ends().fold(f64::MAX, f64::min), ends().fold(0.0, f64::max));
    Plot {
        title: format!("Least budget X against period Y: {}", named.name),
        description: format!(
            "The least sufficient budget X in milliseconds for periods Y from {first} to {last} ms, \
             by simulation and by proof, for a card that is a latch and one with a ring. A line ends \
             where even the whole CPU is not enough."
        ),
        x: Axis::new("period Y, ms", first, last),
        y: Axis::new("budget X, ms", 0.0, heights().fold(0.0, f64::max) * 1.05),
        shape: Shape::Lines(lines),
    }
}

/// Converts to milliseconds, for drawing only.
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
