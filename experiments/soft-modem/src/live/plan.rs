//! The call that every context serves: its phases, and the amount of work at an interrupt.

use punctual_model::{Duration, Service};
use serde::{Deserialize, Serialize};

/// The planned cost of an interrupt in a phase, on an idle host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// One pass of the core.
    Once,
    /// The core's work repeated up to this cost.
    Of(Service),
}

/// A phase of the study's call (soft modem study, §4, §6.2.1): its length there, and the period of
/// the card's interrupts.
struct Shape {
    name: &'static str,
    seconds: u64,
    period: Duration,
    work: Work,
}

/// The phases with the numbers of samples that the study names, at our 8 kHz instead of its 7.2:
/// 2.5 ms and 12.5 ms as there; once connected 11.25 or 13.125 ms, here one after the other. The
/// work is the typical 1.8 ms, and for a second the repeatable worst of 3.3 ms (§6.2.2); while
/// dialling it is half the typical, because the study does not say. The study's trace lasted 28 s.
const SHAPES: [Shape; 6] = [
    Shape {
        name: "ring detection",
        seconds: 2,
        period: Duration::from_micros(2_500),
        work: Work::Once,
    },
    Shape {
        name: "dialling",
        seconds: 9,
        period: Duration::from_micros(12_500),
        work: Work::Of(Service::from_micros(920)),
    },
    Shape {
        name: "training",
        seconds: 6,
        period: Duration::from_micros(12_500),
        work: Work::Of(Service::from_micros(1_840)),
    },
    Shape {
        name: "training, worst",
        seconds: 1,
        period: Duration::from_micros(12_500),
        work: Work::Of(Service::from_micros(3_300)),
    },
    Shape {
        name: "connected, 13.125 ms",
        seconds: 5,
        period: Duration::from_micros(13_125),
        work: Work::Of(Service::from_micros(1_840)),
    },
    Shape {
        name: "connected, 11.25 ms",
        seconds: 5,
        period: Duration::from_micros(11_250),
        work: Work::Of(Service::from_micros(1_840)),
    },
];

/// Samples of 12.5 ms, the unit of a phase's work.
const SAMPLES: u64 = 100;

/// A phase as it is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its beginning, from the start of the call.
    pub begins_ns: u64,
    /// The time from one interrupt to the next.
    pub period_ns: u64,
    /// The number of times that the core does its work: the declared multiplier.
    pub passes: u32,
}

impl Phase {
    /// Returns the time from one interrupt to the next.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }
}

/// A call of a given length for a core of a given speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    phases: Vec<Phase>,
    length: Duration,
}

impl Plan {
    /// Plans a call that lasts `length`, on a core that takes `pass` for 100 samples each way on
    /// all lines.
    pub fn new(length: Duration, pass: Service) -> Self {
        let whole: u64 = SHAPES.iter().map(|shape| shape.seconds).sum();
        let mut begins = 0;
        let phases = SHAPES.iter().map(|shape| {
            let samples = shape.period.as_nanos() * SAMPLES / 12_500_000;
            let passes = match shape.work {
                Work::Once => 1,
                Work::Of(target) => {
                    let once = (pass.as_nanos() * samples / SAMPLES).max(1);
                    (target.as_nanos() + once / 2) / once
                }
            };
            let phase = Phase {
                name: shape.name.to_owned(),
                begins_ns: begins,
                period_ns: shape.period.as_nanos(),
                passes: u32::try_from(passes.max(1)).unwrap_or(u32::MAX),
            };
            begins += length.as_nanos() * shape.seconds / whole;
            phase
        });
        Self { phases: phases.collect(), length }
    }

    /// Returns the phases in order; the first begins at the start.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Returns the length of the call.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Returns the index of the phase at a time since the start.
    pub fn at(&self, since_start: Duration) -> usize {
        let begun = |phase: &&Phase| phase.begins_ns <= since_start.as_nanos();
        self.phases.iter().take_while(begun).count().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_one_another_and_cost_what_they_are_to_cost() {
        let plan = Plan::new(Duration::from_millis(2_800), Service::from_micros(10));
        let begins: Vec<u64> = plan.phases().iter().map(|p| p.begins_ns / 1_000_000).collect();
        assert_eq!(begins, [0, 200, 1_100, 1_700, 1_800, 2_300]);
        let passes: Vec<u32> = plan.phases().iter().map(|p| p.passes).collect();
        // 10 µs for 100 samples: 105 samples take 10.5, 90 take 9.
        assert_eq!(passes, [1, 92, 184, 330, 175, 204]);
        for (millis, phase) in
            [(0, 0), (199, 0), (200, 1), (1_100, 2), (1_700, 3), (2_299, 4), (9_000, 5)]
        {
            assert_eq!(plan.at(Duration::from_millis(millis)), phase, "at {millis} ms");
        }
    }

    #[test]
    fn a_slow_core_does_its_work_once() {
        let plan = Plan::new(Duration::from_secs(1), Service::from_millis(50));
        assert!(plan.phases().iter().all(|phase| phase.passes == 1));
    }
}
