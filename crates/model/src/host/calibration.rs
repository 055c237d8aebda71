//! The measurements of a host's costs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{
    ArrivalCost, DeadlineLimits, HostProfile, MessageCost, Operation, Percentile, ReceiveCharge,
    Sampled, SendCharge, Spread, Under,
};
use crate::time::{Duration, Service};

/// All measurements of one host, from one run. `punctual calibrate` writes them, admission reads
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The host for which they hold.
    pub host: HostIdentity,
    /// The time and the circumstances of the run.
    pub run: Run,
    /// The charge for a switch at admission; `None`: it could not be measured.
    pub switching: Option<SwitchCharge>,
    /// The charge for sending at admission; `None`: it could not be measured.
    pub sending: Option<SendCharge>,
    /// The charge for receiving at admission; `None`: it could not be measured, and an incoming
    /// packet is charged like an outgoing one.
    pub receiving: Option<ReceiveCharge>,
    /// At most one entry per operation.
    pub figures: Vec<Figure>,
    /// The cost of a cold cache by working set, ascending.
    pub cache_refill: Vec<CacheRefill>,
    /// The sender's cost of messages, ascending by [`MessageCost::key`].
    pub messages: Vec<MessageCost>,
    /// The receiver's cost of packets, ascending by [`ArrivalCost::key`].
    pub arrivals: Vec<ArrivalCost>,
    /// The measurements that failed, with reasons.
    pub absent: Vec<Absent>,
}

/// The properties that must match for figures to hold: another processor or kernel has other costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// The processor's model, as the kernel names it.
    pub cpu_model: String,
    /// The kernel's release, from uname(2).
    pub kernel_release: String,
    /// The number of CPUs online, at least 1.
    pub cpus: u16,
}

/// The time and the circumstances of a calibration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The start in seconds since 1970-01-01 00:00 UTC, at most [`Run::LATEST`].
    pub at_unix_s: u64,
    /// The length of the run.
    pub duration: Duration,
    /// The version of the program.
    pub version: String,
    /// True for a short run with fewer samples.
    pub quick: bool,
    /// Processor time that a hypervisor took during the run, on all CPUs together; `None`: not
    /// readable.
    pub stolen: Option<Duration>,
}

/// The charge for a switch. Each job is charged two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCharge {
    /// The switch itself.
    pub switch: Service,
    /// The operation whose time [`SwitchCharge::switch`] is.
    pub by: Operation,
    /// The refill of the caches after it: the dearest of all measured sets up to the working set,
    /// because a set that fits a cache can lose more than a larger one that never fitted.
    pub cache_refill: Service,
    /// The largest working set that the charge covers, in bytes.
    pub working_set: u64,
    /// The percentile of both.
    pub percentile: Percentile,
}

/// The time of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The operation.
    pub operation: Operation,
    /// The samples.
    pub sampled: Sampled,
}

/// The extra time to touch a working set after another thread touched one of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRefill {
    /// The working set in bytes, at least 1.
    pub working_set: u64,
    /// The samples.
    pub sampled: Sampled,
}

/// A measurement that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The subject: an operation, or the refill of a working set.
    pub what: String,
    /// The reason, as a sentence.
    pub why: String,
}

impl SwitchCharge {
    /// Returns the cost of each switch: [`HostProfile::context_switch`].
    pub fn context_switch(&self) -> Service {
        self.switch.saturating_add(self.cache_refill)
    }
}

impl HostIdentity {
    /// Describes the first difference between `self`, the measured host, and the host `here`;
    /// `None` if there is none. The text continues "it is of another host: …".
    pub fn difference(&self, here: &Self) -> Option<String> {
        if self.cpu_model != here.cpu_model {
            return Some(format!(
                "its CPU is \"{}\", this one's \"{}\"",
                self.cpu_model, here.cpu_model
            ));
        }
        if self.cpus != here.cpus {
            return Some(format!("it had {} CPUs online, this one has {}", self.cpus, here.cpus));
        }
        if self.kernel_release != here.kernel_release {
            return Some(format!(
                "its kernel was {}, this one's is {}",
                self.kernel_release, here.kernel_release
            ));
        }
        None
    }
}

impl Run {
    /// The end of the year 9999.
    pub const LATEST: u64 = 253_402_300_799;

    /// Returns year, month and day (from 1) of the run, UTC, in the Gregorian calendar.
    pub fn date(&self) -> (u64, u64, u64) {
        let mut days = self.at_unix_s.min(Self::LATEST) / 86_400;
        let leap = |year: u64| {
            (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
        };
        let mut year = 1970;
        while days >= 365 + u64::from(leap(year)) {
            days -= 365 + u64::from(leap(year));
            year += 1;
        }
        let february = 28 + u64::from(leap(year));
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        (year, month, days + 1)
    }
}

impl Calibration {
    /// Returns the figure of an operation, if it was measured.
    pub fn figure(&self, operation: Operation) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.operation == operation)
    }

    /// Returns the measured refill of the smallest working set of at least `bytes`.
    pub fn refill_of(&self, bytes: u64) -> Option<&CacheRefill> {
        self.cache_refill.iter().find(|refill| refill.working_set >= bytes)
    }

    /// Returns the time by which a timetable slot must exceed its budget: from the dispatcher's
    /// timer until the slot's owner runs. `None` if the dispatcher's lateness was not measured, or
    /// not under SCHED_FIFO, which the dispatcher has.
    ///
    /// It is the sum of the 99th percentiles of [`Operation::TimerBusy`] and twice
    /// [`Operation::HandOffSameCpu`] (if it was measured), between [`Self::LEAST_SLOT_ALLOWANCE`]
    /// and [`Self::MOST_SLOT_ALLOWANCE`]. Twice, because the owner may first have to be thawed: a
    /// wake-up, and a switch to it. The thaw itself is not measured.
    pub fn slot_allowance(&self) -> Option<Service> {
        let p99 = |operation| Some(self.under_fifo(operation)?.p99().as_full_service());
        let woken = p99(Operation::TimerBusy)?;
        let handed = p99(Operation::HandOffSameCpu).unwrap_or(Service::ZERO);
        let sum = woken.saturating_add(handed).saturating_add(handed);
        Some(sum.clamp(Self::LEAST_SLOT_ALLOWANCE, Self::MOST_SLOT_ALLOWANCE))
    }

    /// Returns the wake-up latency of a thread with a timer: [`HostProfile::wake_up`]. `None` if it
    /// was not measured, or not under SCHED_FIFO.
    ///
    /// It is the dearer of [`Operation::TimerIdle`] and [`Operation::TimerBusy`], at the percentile
    /// at which switches are charged: the 99th, or the maximum for any above it.
    pub fn wake_up(&self) -> Option<Service> {
        let percentile = self.switching.map_or(Percentile::P99, |charge| charge.percentile);
        let late = |operation| {
            let spread = self.under_fifo(operation)?;
            Some(if percentile > Percentile::P99 { spread.max() } else { spread.p99() })
        };
        let late = late(Operation::TimerIdle).max(late(Operation::TimerBusy));
        late.map(|late| late.as_full_service())
    }

    fn under_fifo(&self, operation: Operation) -> Option<&Spread> {
        let figure = self.figure(operation).filter(|figure| figure.sampled.under == Under::Fifo);
        figure.map(|figure| &figure.sampled.spread)
    }

    /// The least allowance of a slot: freezing and thawing are in no figure.
    pub const LEAST_SLOT_ALLOWANCE: Service = Service::from_micros(50);

    /// The largest allowance of a slot. A longer delay is a stall of the host, and an allowance for
    /// it would be lost in every slot.
    pub const MOST_SLOT_ALLOWANCE: Service = Service::from_micros(500);

    /// Returns the host profile for admission: CPUs, costs, and the limits `deadline_limits`.
    ///
    /// Switches and wake-ups are free in it if they could not be measured;
    /// [`Calibration::switching`] then is `None`.
    pub fn profile(&self, deadline_limits: DeadlineLimits) -> HostProfile {
        HostProfile {
            reservable_ppm: deadline_limits.reservable_ppm(),
            context_switch: self.switching.map_or(Service::ZERO, |charge| charge.context_switch()),
            wake_up: self.wake_up().unwrap_or(Service::ZERO),
            slot_allowance: self.slot_allowance().unwrap_or(HostProfile::ASSUMED_SLOT_ALLOWANCE),
            send_costs: self.sending.as_ref().map(|charge| charge.costs),
            receive_costs: self.receiving.as_ref().map(|charge| charge.costs),
            deadline_limits,
            ..HostProfile::ideal(self.host.cpus)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Under;
    use super::{Sampled, *};

    /// Makes a calibration with these 99th percentiles, in microseconds.
    fn measured(p99s: &[(Operation, Under, u64)]) -> Calibration {
        let figure = |&(operation, under, p99): &(Operation, Under, u64)| {
            let spread = [1, 1, p99, 10 * p99].map(Duration::from_micros);
            let spread = Spread::new(1_000, spread).expect("ascending");
            let sampled = Sampled { under, spread, discarded: 0, stolen: Duration::ZERO };
            Figure { operation, sampled }
        };
        Calibration {
            host: HostIdentity { cpu_model: "c".into(), kernel_release: "k".into(), cpus: 1 },
            run: Run {
                at_unix_s: 0,
                duration: Duration::ZERO,
                version: "v".into(),
                quick: false,
                stolen: None,
            },
            switching: None,
            sending: None,
            receiving: None,
            figures: p99s.iter().map(figure).collect(),
            cache_refill: Vec::new(),
            messages: Vec::new(),
            arrivals: Vec::new(),
            absent: Vec::new(),
        }
    }

    #[test]
    fn a_slot_allowance_covers_the_dispatchers_lateness_within_bounds() {
        use Operation::{HandOffSameCpu, TimerBusy, TimerIdle};
        let fifo = Under::Fifo;
        let allowance = |p99s: &[_]| measured(p99s).slot_allowance();
        let micros = |n| Some(Service::from_micros(n));
        assert_eq!(allowance(&[(TimerBusy, fifo, 120), (HandOffSameCpu, fifo, 6)]), micros(132));
        assert_eq!(allowance(&[(TimerBusy, fifo, 120)]), micros(120));
        assert_eq!(allowance(&[(TimerBusy, fifo, 9), (HandOffSameCpu, fifo, 3)]), micros(50));
        assert_eq!(allowance(&[(TimerBusy, fifo, 3_000)]), micros(500));
        assert_eq!(allowance(&[(TimerBusy, Under::Other, 120)]), None, "another class");
        assert_eq!(allowance(&[(TimerIdle, fifo, 40), (HandOffSameCpu, fifo, 6)]), None);
    }

    #[test]
    fn a_thread_is_woken_as_late_as_the_dearer_of_two_timers() {
        use Operation::{TimerBusy, TimerIdle};
        let fifo = Under::Fifo;
        let micros = |n| Some(Service::from_micros(n));
        let mut host = measured(&[(TimerIdle, fifo, 40), (TimerBusy, fifo, 30)]);
        assert_eq!(host.wake_up(), micros(40));
        host.switching = Some(SwitchCharge {
            switch: Service::ZERO,
            by: Operation::ThreadSwitch,
            cache_refill: Service::ZERO,
            working_set: 0,
            percentile: Percentile::from_ppm(999_000).expect("valid"),
        });
        assert_eq!(
            host.wake_up(),
            micros(400),
            "the maximum: no percentile above the 99th is kept"
        );
        assert_eq!(host.profile(DeadlineLimits::DEFAULT).wake_up, Service::from_micros(400));
        assert_eq!(measured(&[(TimerBusy, fifo, 30)]).wake_up(), micros(30));
        assert_eq!(measured(&[(TimerBusy, Under::Other, 30)]).wake_up(), None, "another class");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |at_unix_s| {
            let (duration, version) = (Duration::ZERO, String::new());
            Run { at_unix_s, duration, version, quick: false, stolen: None }.date()
        };
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(951_782_400), (2000, 2, 29));
        assert_eq!(date(1_735_689_599), (2024, 12, 31));
        assert_eq!(date(4_107_542_400), (2100, 3, 1));
        assert_eq!(date(Run::LATEST), (9999, 12, 31));
    }
}
