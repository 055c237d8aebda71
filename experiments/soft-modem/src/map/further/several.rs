//! Several modems on one driver.

use punctual_model::{Duration, Service};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

use crate::map::own::{Least, least};
use crate::virtual_time::device::{Card, Device, RING};

/// The largest number of modems tried on one driver: seven need more than a CPU.
const MOST_MODEMS: u32 = 7;

/// The periods tried for a driver of several modems.
const PERIODS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(8)];

/// The least X for each number of modems, card and period.
pub struct Several {
    found: Vec<(u32, [[Least; 2]; 2])>,
}

impl Several {
    /// Searches with all threads.
    pub fn search(workers: &Workers) -> Self {
        let counts: Vec<u32> = (1..=MOST_MODEMS).collect();
        let found = workers.map("several modems", &counts, |&lines| {
            let of = |card, period| least(&Device { lines, ..Device::of_the_study(card) }, period);
            let cards = [Card::Latch, Card::Ring(RING)];
            (lines, cards.map(|card| PERIODS.map(|period| of(card, period))))
        });
        Self { found }
    }

    /// Returns a row for each number of modems.
    pub fn sheet(&self) -> Sheet {
        let row = |(lines, cards): &(u32, [[Least; 2]; 2])| {
            let work = Device::of_the_study(Card::Latch);
            let share = work.work.as_nanos() * u64::from(*lines) * 1_000_000;
            let mut row = vec![
                Value::Count(*lines as usize),
                Value::Share(Some(share.div_ceil(work.period.as_nanos()))),
            ];
            for found in cards.iter().flatten() {
                row.push(Value::Time(found.simulated.map(Service::as_nanos)));
                row.push(Value::Time(found.proven.map(Service::as_nanos)));
            }
            row
        };
        Sheet {
            name: "several-modems",
            columns: &[
                ("modems", "modems"),
                ("need_ppm", "need"),
                ("latch_4ms_simulated_ns", "latch, Y = 4 ms: least X"),
                ("latch_4ms_proven_ns", "proven"),
                ("latch_8ms_simulated_ns", "Y = 8 ms"),
                ("latch_8ms_proven_ns", "proven"),
                ("ring_4ms_simulated_ns", "ring, Y = 4 ms"),
                ("ring_4ms_proven_ns", "proven"),
                ("ring_8ms_simulated_ns", "Y = 8 ms"),
                ("ring_8ms_proven_ns", "proven"),
            ],
            rows: self.found.iter().map(row).collect(),
        }
    }
}
