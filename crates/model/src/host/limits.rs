//! The limits on reservations that the administrator of a host sets.

use crate::time::Duration;

/// A Linux host's limits on reservations (`SCHED_DEADLINE`; sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineLimits {
    /// `sched_rt_runtime_us`; `None` (the kernel's −1): bandwidth is not limited.
    pub rt_runtime: Option<Duration>,
    /// `sched_rt_period_us`.
    pub rt_period: Duration,
    /// The budget of the fair server of each CPU; zero if it is off.
    pub fair_runtime: Duration,
    /// The period of the fair server.
    pub fair_period: Duration,
    /// `sched_deadline_period_min_us`.
    pub shortest_period: Duration,
    /// `sched_deadline_period_max_us`.
    pub longest_period: Duration,
}

impl DeadlineLimits {
    /// The kernel's values at boot, since Linux 6.12.
    pub const DEFAULT: Self = Self {
        rt_runtime: Some(Duration::from_millis(950)),
        rt_period: Duration::from_millis(1_000),
        fair_runtime: Duration::from_millis(50),
        fair_period: Duration::from_millis(1_000),
        shortest_period: Duration::from_micros(100),
        longest_period: Duration::from_micros(1 << 22),
    };

    /// Returns the part of each CPU that is left for reservations, in parts per million. Without a
    /// limit it is all but the fair server's part.
    pub fn reservable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(ppm(self.fair_runtime, self.fair_period))
    }

    /// Returns the most that the slots of a timetable may take of each CPU together, in parts per
    /// million. It is a little less than real-time throttling allows, because throttling would also
    /// stop the dispatcher.
    pub fn timetable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(Self::KEPT_BESIDE_TIMETABLES_PPM)
    }

    /// The part of real-time throttling's allowance that a timetable keeps for ordinary work.
    pub const KEPT_BESIDE_TIMETABLES_PPM: u64 = 20_000;

    /// Returns the part of each CPU that real-time throttling allows.
    fn real_time_ppm(&self) -> u64 {
        self.rt_runtime.map_or(1_000_000, |budget| ppm(budget, self.rt_period))
    }
}

/// Returns `budget / period` in parts per million, rounded down; at most 1,000,000.
fn ppm(budget: Duration, period: Duration) -> u64 {
    let whole = u128::from(budget.as_nanos()) * 1_000_000;
    let share = whole.checked_div(period.as_nanos().into()).unwrap_or(0);
    u64::try_from(share).map_or(1_000_000, |ppm| ppm.min(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_leaves_ninety_percent() {
        assert_eq!(DeadlineLimits::DEFAULT.reservable_ppm(), 900_000);
        let lifted = DeadlineLimits { rt_runtime: None, ..DeadlineLimits::DEFAULT };
        assert_eq!(lifted.reservable_ppm(), 950_000);
        let none = DeadlineLimits { rt_runtime: Some(Duration::ZERO), ..DeadlineLimits::DEFAULT };
        assert_eq!(none.reservable_ppm(), 0);
    }
}
