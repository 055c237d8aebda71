//! Checks whether idle CPUs wake up in time. A hypervisor may be late to resume a virtual CPU that
//! halts.

use punctual_linux::measure::{self, Halting, MeasureError, PRIORITY, Timers};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::time::Duration;
use serde::Serialize;

use super::check::Check;
use crate::{Message, Remedy};

const NAME: &str = "idle CPUs";

/// The length of the whole measurement.
const LENGTH: Duration = Duration::from_millis(1_200);

/// The limit above which a timer counts as late: several times the wake-up latency on a host that
/// lets its CPUs run.
const LATE: Duration = Duration::from_micros(500);

const REMEDY: &str = "boot with idle=poll, or have the host poll longer (halt_poll_ns of its kvm), where \
                      these are yours; or keep CPUs from halting while programs run: awake = true in \
                      [channels] of the broker's configuration, and the same option of a run";

/// The lateness of timers on idle CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// The scheduling class of the threads that slept.
    pub class: &'static str,
    /// The limit above which a timer counts as late.
    pub late_above_ns: u64,
    /// The counts with the host as it is.
    pub free: Counts,
    /// The counts with the CPUs kept from halting.
    pub awake: Counts,
}

/// The number of timers, and of late ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The number of timers.
    pub timers: u64,
    /// The number of late timers.
    pub late: u64,
    /// The largest lateness.
    pub worst_ns: u64,
    /// The time that the hypervisor stole meanwhile; null if it is not known.
    pub stolen_ns: Option<u64>,
}

/// The conclusion from the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Less than one timer in a hundred is late.
    InTime,
    /// Timers are late because CPUs halt.
    Halting,
    /// Timers are late, and halting makes no clear difference.
    Otherwise,
}

/// Measures for over a second. Nothing else of ours may run meanwhile.
pub(super) fn check() -> (Check, Option<Figures>) {
    let fifo = Class::Fifo { priority: PRIORITY };
    let (class, name) = match sched::try_out(fifo) {
        Ok(()) => (fifo, "SCHED_FIFO"),
        Err(_) => (Class::Other { nice: 0 }, "SCHED_OTHER"),
    };
    match measure::halting(&thread::affinity(), class, LENGTH) {
        Ok(measured) => {
            let figures = Figures::of(name, &measured);
            (figures.check(), Some(figures))
        }
        Err(why) => (unknown(&why), None),
    }
}

fn unknown(why: &MeasureError) -> Check {
    Check::unknown(NAME, "not measured", why.to_string())
}

impl Figures {
    fn of(class: &'static str, measured: &Halting) -> Self {
        let late_above_ns = LATE.as_nanos();
        let (free, awake) = (Counts::of(&measured.free), Counts::of(&measured.awake));
        Self { class, late_above_ns, free, awake }
    }

    fn check(&self) -> Check {
        let found = format!(
            "{} were over {LATE} late{}; {}{}, with CPUs kept from halting",
            self.free.of_timers(" timers"),
            self.free.rest(),
            self.awake.of_timers(""),
            self.awake.rest(),
        );
        match verdict(self.free, self.awake) {
            Verdict::InTime => Check::ok(NAME, found),
            Verdict::Halting => {
                Check::warning(NAME, found, Message::from(REMEDY).with(Remedy::KeepAwake))
            }
            Verdict::Otherwise => Check::unknown(
                NAME,
                format!("{found}: no clear difference"),
                "look for other load and steal, and ask again on a quieter host",
            ),
        }
    }
}

impl Counts {
    fn of(timers: &Timers) -> Self {
        let late = timers.late.iter().filter(|late| **late > LATE).count();
        let worst = timers.late.iter().max().copied().unwrap_or(Duration::ZERO);
        Self {
            timers: timers.late.len() as u64,
            late: late as u64,
            worst_ns: worst.as_nanos(),
            stolen_ns: timers.stolen.map(Duration::as_nanos),
        }
    }

    fn of_timers(&self, word: &str) -> String {
        format!("{} of {}{word}", self.late, self.timers)
    }

    fn rest(&self) -> String {
        // Rounded to microseconds: more digits are noise.
        let worst = Duration::from_micros(self.worst_ns / 1_000);
        match self.stolen_ns {
            Some(stolen) if stolen > 0 => {
                format!(", worst {worst}, {} stolen", Duration::from_nanos(stolen))
            }
            _ => format!(", worst {worst}"),
        }
    }
}

/// Halting is to blame if one timer in a hundred is late, if keeping the CPUs from halting leaves
/// at most a third of that, and if the difference is hardly chance. If late timers came
/// independently, the difference of the two fractions would have at most the variance p/n₁ + p/n₂,
/// with the fraction p of all that are late, and would exceed three standard deviations about once
/// in a thousand times.
fn verdict(free: Counts, awake: Counts) -> Verdict {
    if free.timers == 0 {
        return Verdict::Otherwise;
    }
    if free.late == 0 || free.late * 100 < free.timers {
        return Verdict::InTime;
    }
    let [free_late, free_timers] = [free.late, free.timers].map(u128::from);
    let [awake_late, awake_timers] = [awake.late, awake.timers].map(u128::from);
    // Both fractions are multiplied by both numbers of timers, so nothing is rounded.
    let (part, part_awake) = (free_late * awake_timers, awake_late * free_timers);
    let more = part.saturating_sub(part_awake);
    let is_third = more > 0 && part_awake * 3 <= part;
    if is_third && more * more >= 9 * free_timers * awake_timers * (free_late + awake_late) {
        Verdict::Halting
    } else {
        Verdict::Otherwise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::State;

    fn counts(late: u64, timers: u64) -> Counts {
        Counts { timers, late, worst_ns: 9_123_456, stolen_ns: Some(0) }
    }

    fn is(free: (u64, u64), awake: (u64, u64)) -> Verdict {
        verdict(counts(free.0, free.1), counts(awake.0, awake.1))
    }

    #[test]
    fn a_clear_difference_is_a_warning_with_its_numbers() {
        assert_eq!(is((41, 200), (2, 200)), Verdict::Halting);
        assert_eq!(is((9, 300), (0, 300)), Verdict::Halting);
        let (free, awake) = (counts(41, 200), counts(2, 200));
        let figures = Figures { class: "SCHED_FIFO", late_above_ns: 500_000, free, awake };
        let check = figures.check();
        assert_eq!(check.state, State::Warning);
        let found = "41 of 200 timers were over 500us late, worst 9.123ms; 2 of 200, worst 9.123ms, \
                     with CPUs kept from halting";
        assert_eq!(check.found, found);
        assert_eq!(check.remedy.expect("there is one").remedy(), Some(&Remedy::KeepAwake));
    }

    #[test]
    fn few_late_timers_are_in_time() {
        for late in 0..=2 {
            assert_eq!(is((late, 300), (0, 300)), Verdict::InTime);
        }
        // No timers at all prove nothing.
        assert_eq!(is((0, 0), (0, 0)), Verdict::Otherwise);
    }

    #[test]
    fn halting_is_not_blamed_for_chance_or_other_causes() {
        for (free, awake) in [(3, 0), (8, 0), (13, 2), (41, 14), (41, 41), (20, 90)] {
            assert_eq!(is((free, 300), (awake, 300)), Verdict::Otherwise, "{free}, {awake}");
        }
        let (free, awake) = (counts(41, 200), counts(40, 200));
        let check = Figures { class: "SCHED_FIFO", late_above_ns: 500_000, free, awake }.check();
        assert_eq!(check.state, State::Unknown);
        assert!(check.found.ends_with("no clear difference") && check.remedy.is_some());
    }

    /// On a host that stands still there may be few timers in one of the measurements, or none.
    #[test]
    fn fractions_are_compared_and_not_counts() {
        assert_eq!(is((40, 200), (4, 20)), Verdict::Otherwise);
        assert_eq!(is((40, 200), (10, 1_000)), Verdict::Halting);
        assert_eq!(is((40, 200), (0, 3)), Verdict::Otherwise);
        assert_eq!(is((40, 200), (0, 0)), Verdict::Otherwise);
    }

    #[test]
    fn a_timer_counts_when_it_is_later_than_the_limit() {
        let late = vec![LATE, LATE + Duration::from_nanos(1), Duration::from_micros(3)];
        let counts = Counts::of(&Timers { late, stolen: None });
        assert_eq!((counts.timers, counts.late, counts.worst_ns), (3, 1, 500_001));
        assert_eq!(counts.stolen_ns, None);
    }
}
