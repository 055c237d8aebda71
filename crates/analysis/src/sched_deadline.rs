//! Linux's own conditions for a `SCHED_DEADLINE` reservation of a thread.
//!
//! # The rules
//! A request of `runtime` in every `period`, by `deadline` after its start, is refused
//! - unless `1024 ns ≤ runtime ≤ deadline ≤ period`;
//! - unless the period is within `sched_deadline_period_min_us` and `…_max_us`;
//! - if the bandwidth of a root domain of m CPUs, `Σ ⌊runtime·2²⁰/period⌋`, then exceeds
//!   `m·⌊sched_rt_runtime_us·2²⁰/sched_rt_period_us⌋`. On each CPU the sum includes the fair
//!   server, which keeps real-time threads from starving all others.
//!
//! # Assumptions
//! Every CPU has the same capacity (smaller ones count for less in the kernel), and the sum
//! includes all threads of the root domain with reservations.
//!
//! # Sources
//! Linux, Documentation/scheduler/sched-deadline.rst, §4, and kernel/sched/deadline.c:
//! `__checkparam_dl` (limits), `to_ratio` and `__dl_overflow` (bandwidth), `dl_server_apply_params`
//! (fair server; since Linux 6.12). sched(7).
//!
//! # Units and answers
//! Nanoseconds and 2⁻²⁰ of a CPU, rounded as in the kernel. There is always an answer.

use punctual_model::{DeadlineLimits, Duration, Reservation, Service};
use thiserror::Error;

/// One whole CPU, in the kernel's fixed point.
const WHOLE: u64 = 1 << 20;

/// The least runtime: below it the kernel's arithmetic is too coarse.
pub const LEAST_RUNTIME: Service = Service::from_nanos(1 << 10);

/// A thread's request to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The budget.
    pub runtime: Service,
    /// The time after the start of a period by which the budget must have been given.
    pub deadline: Duration,
    /// The time between replenishments.
    pub period: Duration,
}

/// A reservation requests a deadline at the end of the period.
impl From<Reservation> for Request {
    fn from(reservation: Reservation) -> Self {
        let period = reservation.period();
        Self { runtime: reservation.budget(), deadline: period, period }
    }
}

/// The rule that a request breaks, with the numbers. Its text is a predicate to follow a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Objection {
    /// The budget is below [`LEAST_RUNTIME`].
    #[error("wants a budget of {runtime}, and the kernel gives none below {LEAST_RUNTIME}")]
    RuntimeTooShort {
        /// The requested budget.
        runtime: Service,
    },
    /// The budget does not fit before the deadline.
    #[error("wants a budget of {runtime} by a deadline of {deadline}")]
    RuntimeAboveDeadline {
        /// The requested budget.
        runtime: Service,
        /// The requested deadline.
        deadline: Duration,
    },
    /// The deadline is beyond the period.
    #[error("wants a deadline of {deadline}, beyond the period of {period}")]
    DeadlineAbovePeriod {
        /// The requested deadline.
        deadline: Duration,
        /// The requested period.
        period: Duration,
    },
    /// The period is outside the kernel's limits.
    #[error("wants a period of {period}, and the kernel takes only {shortest} to {longest}")]
    PeriodOutside {
        /// The requested period.
        period: Duration,
        /// The kernel's shortest period.
        shortest: Duration,
        /// The kernel's longest period.
        longest: Duration,
    },
    /// The request exceeds the bandwidth left in the root domain.
    #[error(
        "wants {} ppm of a CPU, and the kernel has {} ppm left",
        ppm_above(*.wanted), ppm_below(*.left)
    )]
    Bandwidth {
        /// The requested bandwidth, in 2⁻²⁰ of a CPU.
        wanted: u64,
        /// The bandwidth left, in 2⁻²⁰ of a CPU.
        left: u64,
    },
}

impl Objection {
    /// Returns by how much time `reservation` is too large, too small, or its period outside the
    /// limits, or `None` if there is no such number.
    pub(crate) fn shortfall(&self, reservation: Reservation) -> Option<Duration> {
        let nanos = match *self {
            Self::Bandwidth { wanted, left } => {
                let missing = u128::from(wanted - left);
                let excess = missing * u128::from(reservation.period().as_nanos());
                u64::try_from(excess.div_ceil(u128::from(WHOLE))).ok()?
            }
            Self::RuntimeTooShort { runtime } => LEAST_RUNTIME.as_nanos() - runtime.as_nanos(),
            Self::PeriodOutside { period, shortest, longest } => {
                let short = shortest.saturating_sub(period);
                short.max(period.saturating_sub(longest)).as_nanos()
            }
            Self::RuntimeAboveDeadline { .. } | Self::DeadlineAbovePeriod { .. } => return None,
        };
        Some(Duration::from_nanos(nanos))
    }
}

/// Returns the kernel's bandwidth of `runtime` in `period`, in 2⁻²⁰ of a CPU, rounded down.
pub fn to_ratio(period: Duration, runtime: Duration) -> u64 {
    if period.is_zero() {
        return 0;
    }
    let ratio = u128::from(runtime.as_nanos()) * u128::from(WHOLE) / u128::from(period.as_nanos());
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

/// Returns the bandwidth of a root domain of `cpus` CPUs for reservations, or `None` if there is no
/// limit.
pub fn bandwidth(limits: &DeadlineLimits, cpus: u16) -> Option<u64> {
    let of_each = to_ratio(limits.rt_period, limits.rt_runtime?);
    let fair = to_ratio(limits.fair_period, limits.fair_runtime);
    Some(of_each.saturating_sub(fair).saturating_mul(u64::from(cpus)))
}

/// The CPU shares of reservations, each rounded up to parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The number of reservations.
    pub count: u64,
    /// The sum of the shares.
    pub sum: u64,
    /// The largest share.
    pub largest: u64,
}

impl Shares {
    /// Returns these shares with one more reservation.
    pub fn with(self, reservation: Reservation) -> Self {
        let ppm = reservation.utilisation_ppm();
        Self { count: self.count + 1, sum: self.sum + ppm, largest: self.largest.max(ppm) }
    }

    /// Returns whether each reservation surely gets its budget in every period on `cpus` CPUs, if
    /// `most_ppm` parts per million of each CPU may be promised.
    ///
    /// The kernel serves the earliest deadlines first, on any of the CPUs, so a sum within all CPUs
    /// is not enough: with three reservations of 6 ms every 10 ms on two CPUs, one is served up to
    /// 12 ms after its period began. Up to as many reservations as CPUs never wait. More of them
    /// are in time if the sum is within [`Self::most`]. Then they also fit CPU by CPU, each on the
    /// first with room: if one did not fit, each of the m CPUs would hold more than `q − u`.
    ///
    /// # Sources
    /// Goossens, Funk & Baruah, Real-Time Systems 25 (2003), for sporadic tasks; Baruah, Goossens &
    /// Lipari, RTAS 2002, for constant bandwidth servers. Sufficient, not necessary.
    pub fn are_served_in_time(&self, cpus: u64, most_ppm: u64) -> bool {
        self.largest <= most_ppm && (self.count <= cpus || self.sum <= self.most(cpus, most_ppm))
    }

    /// Returns the limit for the sum of more reservations than CPUs: `m·q − (m − 1)·u`, with `u`
    /// the largest share and `q` the share of each of m CPUs that may be promised.
    pub fn most(&self, cpus: u64, most_ppm: u64) -> u64 {
        let others = cpus.saturating_sub(1).saturating_mul(self.largest);
        cpus.saturating_mul(most_ppm).saturating_sub(others)
    }
}

/// Checks that the kernel accepts the numbers of `request`, apart from its bandwidth.
pub fn check(limits: &DeadlineLimits, request: Request) -> Result<(), Objection> {
    let Request { runtime, deadline, period } = request;
    let (shortest, longest) = (limits.shortest_period, limits.longest_period);
    if runtime < LEAST_RUNTIME {
        Err(Objection::RuntimeTooShort { runtime })
    } else if runtime.at_full_speed() > deadline {
        Err(Objection::RuntimeAboveDeadline { runtime, deadline })
    } else if deadline > period {
        Err(Objection::DeadlineAbovePeriod { deadline, period })
    } else if period < shortest || period > longest {
        Err(Objection::PeriodOutside { period, shortest, longest })
    } else {
        Ok(())
    }
}

/// Checks that the kernel accepts `requests`, one after the other, in an empty root domain of
/// `cpus` CPUs. If not, returns the position of the first refused one and the reason.
pub fn admit(
    limits: &DeadlineLimits,
    cpus: u16,
    requests: impl IntoIterator<Item = Request>,
) -> Result<(), (usize, Objection)> {
    let mut left = bandwidth(limits, cpus).unwrap_or(u64::MAX);
    for (at, request) in requests.into_iter().enumerate() {
        check(limits, request).map_err(|objection| (at, objection))?;
        let wanted = to_ratio(request.period, request.runtime.at_full_speed());
        left = left.checked_sub(wanted).ok_or((at, Objection::Bandwidth { wanted, left }))?;
    }
    Ok(())
}

/// Converts a bandwidth to parts per million, rounded down.
pub(crate) fn ppm_below(bandwidth: u64) -> u128 {
    u128::from(bandwidth) * 1_000_000 / u128::from(WHOLE)
}

fn ppm_above(bandwidth: u64) -> u128 {
    (u128::from(bandwidth) * 1_000_000).div_ceil(u128::from(WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const KERNEL: DeadlineLimits = DeadlineLimits::DEFAULT;

    fn request(text: &str) -> Request {
        text.parse::<Reservation>().expect("valid").into()
    }

    /// The kernel's numbers for its defaults: 95 % and 5 % in 2⁻²⁰, each rounded down.
    #[test]
    fn ninety_percent_of_each_cpu_is_left() {
        assert_eq!(to_ratio(Duration::from_millis(1_000), Duration::from_millis(950)), 996_147);
        assert_eq!(to_ratio(Duration::from_millis(1_000), Duration::from_millis(50)), 52_428);
        assert_eq!(bandwidth(&KERNEL, 1), Some(943_719));
        assert_eq!(bandwidth(&KERNEL, 8), Some(8 * 943_719));
    }

    #[test]
    fn each_limit_is_held_at_its_edge() {
        for (good, bad) in [
            ("1024ns/100us", "1023ns/100us"),
            ("10us/100us", "10us/99999ns"),
            ("1ms/4194304us", "1ms/4194305us"),
        ] {
            assert_eq!(check(&KERNEL, request(good)), Ok(()), "{good}");
            assert!(check(&KERNEL, request(bad)).is_err(), "{bad}");
        }
        let period = Duration::from_millis(10);
        let early = Request { deadline: Duration::from_millis(1), ..request("2ms/10ms") };
        assert!(matches!(check(&KERNEL, early), Err(Objection::RuntimeAboveDeadline { .. })));
        let late = Request { deadline: period + period, ..request("2ms/10ms") };
        assert!(matches!(check(&KERNEL, late), Err(Objection::DeadlineAbovePeriod { .. })));
    }

    /// A request of one unit of 2⁻²⁰ more than is left is refused; a share that rounds to zero
    /// costs nothing.
    #[test]
    fn bandwidth_is_counted_as_the_kernel_counts() {
        let all = ["9ms/10ms"];
        let admitted = |texts: &[&str]| admit(&KERNEL, 1, texts.iter().map(|text| request(text)));
        assert_eq!(admitted(&all), Ok(()));
        // 943718.4 is rounded down, so one unit of 2⁻²⁰ is left: 2 µs of 2 s.
        assert_eq!(admitted(&["9ms/10ms", "2us/2s"]), Ok(()));
        let refused = admitted(&["9ms/10ms", "2us/2s", "2us/2s"]).expect_err("nothing is left");
        assert_eq!(refused.0, 2);
        assert_eq!(refused.1, Objection::Bandwidth { wanted: 1, left: 0 });
        assert_eq!(refused.1.to_string(), "wants 1 ppm of a CPU, and the kernel has 0 ppm left");
        let lifted = DeadlineLimits { rt_runtime: None, ..KERNEL };
        assert_eq!(admit(&lifted, 1, [request("8ms/8ms"), request("8ms/8ms")]), Ok(()));
    }
}
