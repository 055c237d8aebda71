//! The kernel's limits on every single reservation, apart from the bandwidth that others hold.

use std::fs;

use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};

use super::SchedError;

/// The smallest budget of SCHED_DEADLINE: 2^10 ns, the granularity of the kernel's bandwidth
/// arithmetic (sched_setattr(2), EINVAL).
pub const LEAST_BUDGET: Service = Service::from_nanos(1024);

/// The bounds on periods (kernel.sched_deadline_period_{min,max}_us, since Linux 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLimits {
    /// The shortest period.
    pub shortest_period: Duration,
    /// The longest period.
    pub longest_period: Duration,
}

impl KernelLimits {
    /// The kernel's defaults: 100 µs and 2^22 µs.
    pub const DEFAULT: Self = Self {
        shortest_period: Duration::from_micros(100),
        longest_period: Duration::from_micros(1 << 22),
    };

    /// Reads this host's limits; uses the default for one that cannot be read.
    pub fn read() -> Self {
        let micros = |name: &str, default| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
            text.and_then(|text| text.trim().parse::<u32>().ok())
                .map_or(default, |micros| Duration::from_micros(micros.into()))
        };
        Self {
            shortest_period: micros("sched_deadline_period_min_us", Self::DEFAULT.shortest_period),
            longest_period: micros("sched_deadline_period_max_us", Self::DEFAULT.longest_period),
        }
    }

    /// Checks `reservation` against these limits and the smallest budget.
    pub fn check(&self, reservation: Reservation) -> Result<(), SchedError> {
        let (budget, period) = (reservation.budget(), reservation.period());
        if budget < LEAST_BUDGET {
            Err(SchedError::BudgetTooShort { budget })
        } else if period < self.shortest_period {
            Err(SchedError::PeriodTooShort { period, shortest: self.shortest_period })
        } else if period > self.longest_period {
            Err(SchedError::PeriodTooLong { period, longest: self.longest_period })
        } else {
            Ok(())
        }
    }
}

/// Returns the part of each CPU that real-time classes may have together, in parts per million
/// (kernel.sched_rt_runtime_us of sched_rt_period_us, sched(7)), or `None` if it is unlimited or
/// unreadable.
///
/// The kernel admits less to SCHED_DEADLINE if a fair server keeps 5 % for ordinary work.
pub fn bandwidth_cap() -> Option<u32> {
    let read = |path| fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let budget = u64::try_from(read("/proc/sys/kernel/sched_rt_runtime_us")?).ok()?;
    let period = u64::try_from(read("/proc/sys/kernel/sched_rt_period_us")?).ok()?;
    u32::try_from(budget.checked_mul(1_000_000)?.checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_the_kernel_is_named() {
        let check = |text: &str| KernelLimits::DEFAULT.check(text.parse().expect("well-formed"));
        assert_eq!(check("2ms/8ms"), Ok(()));
        assert_eq!(check("1024ns/100us"), Ok(()));
        assert_eq!(check("4.194304s/4.194304s"), Ok(()));
        for (text, limit) in [
            ("1023ns/1ms", "1.024us"),
            ("10us/99us", "sched_deadline_period_min_us"),
            ("1ms/5s", "sched_deadline_period_max_us"),
        ] {
            let refused = check(text).expect_err(text).to_string();
            assert!(refused.contains(limit), "{refused}");
        }
    }
}
