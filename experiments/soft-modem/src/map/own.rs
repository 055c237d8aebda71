//! The same question for our own modems: the least X for each Y.

use punctual_model::{Duration, Reservation, Service};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;

use super::judge::{self, Class, Served, judge, predicted};
use crate::virtual_time::driver::{Card, Device, RING};

/// A device with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name in tables.
    pub name: &'static str,
    /// The device without its card.
    pub device: Device,
}

/// Our modems as measured, and the study's future device. Measured on two virtual CPUs: a V.22bis
/// line in docs/demo.md (live, with its far end and the line itself), an FSK line in a hard
/// interrupt. G.lite is the study's figure (§8.2): 25 % of a CPU, every 4 ms.
pub const DEVICES: [Named; 4] = [
    named("one V.22bis line, 8.9 µs", 12_500_000, 8_900, 1),
    named("one FSK line, 2.3 µs", 12_500_000, 2_300, 1),
    named("bank of 209 V.22bis lines", 12_500_000, 8_900, 209),
    named("soft DSL (G.lite)", 4_000_000, 1_000_000, 1),
];

const fn named(name: &'static str, period: u64, work: u64, lines: u32) -> Named {
    let device = Device {
        period: Duration::from_nanos(period),
        batch: 100,
        piece: 100,
        work: Service::from_nanos(work),
        lines,
        card: Card::Latch,
    };
    Named { name, device }
}

/// The least X for one Y, to [`PRECISION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Y.
    pub period: Duration,
    /// The least X by simulation, confirmed by ten calls.
    pub simulated: Option<Service>,
    /// The least that the analysis proves.
    pub proven: Option<Service>,
}

/// The step of the search for X.
pub const PRECISION: Service = Service::from_micros(1);

/// Finds the least X for `device`, served at a fixed place.
pub fn least(device: &Device, period: Duration) -> Least {
    let reservation = |steps: u64| {
        let budget = (PRECISION * steps).min(period.as_full_service());
        Reservation::new(budget, period).expect("a budget of at least a step, at most the period")
    };
    let most = period.as_nanos().div_ceil(PRECISION.as_nanos());
    // Both are bisected: more processor time does not lose more samples.
    let bisect = |is_enough: &dyn Fn(Reservation) -> bool| {
        is_enough(reservation(most)).then(|| {
            let (mut low, mut high) = (0, most);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if is_enough(reservation(middle)) {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            reservation(high)
        })
    };
    let first = bisect(&|reservation| judge::first_call_is_intact(device, reservation));
    let confirmed = first.filter(|&reservation| {
        judge(device, reservation, Served::Fixed, None, 0).class() == Class::Sufficient
    });
    let proven = bisect(&|reservation| predicted(device, reservation, Served::Fixed.guarantee()));
    Least {
        period,
        simulated: confirmed.map(|found| found.budget()),
        proven: proven.map(|found| found.budget()),
    }
}

/// All devices with both cards, for each Y.
pub struct Own {
    /// Two curves for each device: latch, ring.
    pub found: Vec<[Vec<Least>; 2]>,
}

/// Searches with all threads.
pub fn search(periods: &[Duration], workers: &Workers) -> Own {
    let cards = [Card::Latch, Card::Ring(RING)];
    let tasks: Vec<(Device, Duration)> = DEVICES
        .iter()
        .flat_map(|named| cards.map(|card| Device { card, ..named.device }))
        .flat_map(|device| periods.iter().map(move |&period| (device, period)))
        .collect();
    let found = workers.map("our modems", &tasks, |(device, period)| least(device, *period));
    let curves: Vec<Vec<Least>> = found.chunks(periods.len()).map(<[Least]>::to_vec).collect();
    let pairs = curves.chunks(2).map(|pair| [pair[0].clone(), pair[1].clone()]);
    Own { found: pairs.collect() }
}

impl Own {
    /// Returns all numbers.
    pub fn sheet(&self) -> Sheet {
        let nanos = |budget: Option<Service>| Value::Time(budget.map(Service::as_nanos));
        let rows = DEVICES.iter().zip(&self.found).flat_map(|(named, [latch, ring])| {
            latch.iter().zip(ring).map(|(latch, ring)| {
                vec![
                    Value::Text(named.name.into()),
                    Value::Time(Some(latch.period.as_nanos())),
                    nanos(latch.simulated),
                    nanos(latch.proven),
                    nanos(ring.simulated),
                    nanos(ring.proven),
                ]
            })
        });
        Sheet {
            name: "own-modems",
            columns: &[
                ("device", "device"),
                ("period_ns", "Y"),
                ("latch_simulated_ns", "latch: X simulated"),
                ("latch_proven_ns", "proven"),
                ("ring_simulated_ns", "ring: X simulated"),
                ("ring_proven_ns", "proven"),
            ],
            rows: rows.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_enough_and_a_step_less_is_not() {
        for named in DEVICES {
            for card in [Card::Latch, Card::Ring(RING)] {
                let device = Device { card, ..named.device };
                let period = Duration::from_millis(7);
                let found = least(&device, period);
                let Some(simulated) = found.simulated else { panic!("{named:?}") };
                let intact = |budget| {
                    let reservation = Reservation::new(budget, period).expect("valid");
                    judge::first_call_is_intact(&device, reservation)
                };
                assert!(intact(simulated), "{named:?} {found:?}");
                if simulated > PRECISION {
                    assert!(!intact(simulated - PRECISION), "{named:?} {found:?}");
                }
                // A proven X suffices: the analysis may require more, never less.
                assert!(found.proven.is_some_and(|proven| simulated <= proven), "{found:?}");
            }
        }
    }
}
