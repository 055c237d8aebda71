//! What the administrator of a host set for reservations.

use crate::time::Duration;

/// What the administrator of a Linux host set for reservations (`SCHED_DEADLINE`; sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineLimits {
    /// `sched_rt_runtime_us`; `None` (there: −1) lifts the limit on bandwidth.
    pub rt_runtime: Option<Duration>,
    /// `sched_rt_period_us`.
    pub rt_period: Duration,
    /// The budget of the fair server of each CPU; zero if it is off.
    pub fair_runtime: Duration,
    /// Its period.
    pub fair_period: Duration,
    /// `sched_deadline_period_min_us`.
    pub shortest_period: Duration,
    /// `sched_deadline_period_max_us`.
    pub longest_period: Duration,
}

impl DeadlineLimits {
    /// As the kernel starts, since Linux 6.12.
    pub const DEFAULT: Self = Self {
        rt_runtime: Some(Duration::from_millis(950)),
        rt_period: Duration::from_millis(1_000),
        fair_runtime: Duration::from_millis(50),
        fair_period: Duration::from_millis(1_000),
        shortest_period: Duration::from_micros(100),
        longest_period: Duration::from_micros(1 << 22),
    };

    /// What is left of each CPU for reservations, in parts per million; all of it where the limit is
    /// lifted, but for the fair server.
    pub fn reservable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(ppm(self.fair_runtime, self.fair_period))
    }

    /// The most that the slots of a timetable may take of each CPU together, in parts per million. Real-time
    /// throttling must never become due, as it would stop the dispatcher too: so a little less than it leaves.
    pub fn timetable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(Self::KEPT_BESIDE_TIMETABLES_PPM)
    }

    /// What a timetable keeps for ordinary work, of what real-time throttling leaves.
    pub const KEPT_BESIDE_TIMETABLES_PPM: u64 = 20_000;

    /// What real-time throttling leaves.
    fn real_time_ppm(&self) -> u64 {
        self.rt_runtime.map_or(1_000_000, |budget| ppm(budget, self.rt_period))
    }
}

/// In parts per million, rounded down; at most all.
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
