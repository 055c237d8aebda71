//! The kernel's limits on real-time threads: throttling, group budgets, fair
//! servers, and the bounds on periods.

use std::fs;

use punctual_model::host::DeadlineLimits;
use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};

use crate::cgroup::Hierarchy;
use crate::procfs;

/// The host-wide cap on real-time classes (kernel.sched_rt_{runtime,period}_us, sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// `sched_rt_runtime_us = -1`: real-time threads may take everything.
    Off,
    /// At most `budget` in every `period` of each CPU; a zero budget means no real-time at all.
    Capped {
        /// The budget, of each CPU.
        budget: Service,
        /// The period.
        period: Duration,
    },
}

/// Returns the host's cap; `None` if the kernel does not report it as two numbers.
pub fn throttling() -> Option<Throttling> {
    parse_throttling(
        &procfs::trimmed("/proc/sys/kernel/sched_rt_runtime_us")?,
        &procfs::trimmed("/proc/sys/kernel/sched_rt_period_us")?,
    )
}

/// Parses the two sysctls of the cap, each a number of microseconds; a budget of -1 means no cap.
pub fn parse_throttling(runtime_us: &str, period_us: &str) -> Option<Throttling> {
    let period = micros(period_us)?;
    match runtime_us.trim().parse::<i64>().ok()? {
        -1 => Some(Throttling::Off),
        _ => Some(Throttling::Capped {
            budget: Service::from_nanos(micros(runtime_us)?),
            period: Duration::from_nanos(period),
        }),
    }
}

/// Returns true if the kernel ends the budgets of SCHED_DEADLINE threads with a timer of their own
/// (HRTICK_DL among the scheduler's features) instead of at its next tick. Returns `None` if it
/// cannot be read: debugfs is not mounted, this user may not read it, or the kernel was built
/// without CONFIG_SCHED_HRTICK.
pub fn ends_budgets_on_time() -> Option<bool> {
    parse_hrtick(&procfs::trimmed("/sys/kernel/debug/sched/features")?)
}

/// Finds HRTICK_DL among the scheduler's features. Each is a word, prefixed with NO_ if it is off.
pub fn parse_hrtick(features: &str) -> Option<bool> {
    features.split_whitespace().find_map(|word| match word {
        "HRTICK_DL" => Some(true),
        "NO_HRTICK_DL" => Some(false),
        _ => None,
    })
}

/// Parses a number of microseconds into nanoseconds.
fn micros(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok()?.checked_mul(1_000)
}

/// The real-time budget of this process's control group, under CONFIG_RT_GROUP_SCHED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtGroup {
    /// The directory of the group's files.
    pub path: String,
    /// Its cpu.rt_runtime_us: zero, the default of a new group, forbids SCHED_FIFO and SCHED_RR.
    pub budget: Service,
    /// Its cpu.rt_period_us.
    pub period: Duration,
}

/// Returns this process's group in the v1 hierarchy of the `cpu` controller. Returns `None` if that
/// is not mounted, or its groups have no real-time budget: then CONFIG_RT_GROUP_SCHED is off,
/// disabled at boot, or without effect.
pub fn rt_group() -> Option<RtGroup> {
    let path = Hierarchy::v1("cpu")?.group_of(std::process::id().cast_signed())?;
    let micros_in = |name| micros(&procfs::trimmed(path.join(name))?);
    Some(RtGroup {
        budget: Service::from_nanos(micros_in("cpu.rt_runtime_us")?),
        period: Duration::from_nanos(micros_in("cpu.rt_period_us")?),
        path: path.to_string_lossy().into_owned(),
    })
}

/// The reservation that one CPU keeps for ordinary threads when real-time threads would take
/// everything (Linux 6.12 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairServer {
    /// The CPU's number.
    pub cpu: usize,
    /// The reservation; `None` if it is switched off (a budget of zero).
    pub reservation: Option<Reservation>,
}

/// Returns the fair server of each CPU, from /sys/kernel/debug/sched/fair_server; empty without
/// debugfs, without the right to read it, or before Linux 6.12.
pub fn fair_servers() -> Vec<FairServer> {
    let Ok(entries) = fs::read_dir("/sys/kernel/debug/sched/fair_server") else {
        return Vec::new();
    };
    let server = |entry: fs::DirEntry| {
        let cpu = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
        let budget = Service::from_nanos(procfs::number(entry.path().join("runtime"))?);
        let period = Duration::from_nanos(procfs::number(entry.path().join("period"))?);
        Some(FairServer { cpu, reservation: Reservation::new(budget, period).ok() })
    };
    let mut servers: Vec<_> = entries.flatten().filter_map(server).collect();
    servers.sort_by_key(|server| server.cpu);
    servers
}

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
            procfs::number::<u32>(format!("/proc/sys/kernel/{name}"))
                .map_or(default, |micros| Duration::from_micros(micros.into()))
        };
        Self {
            shortest_period: micros("sched_deadline_period_min_us", Self::DEFAULT.shortest_period),
            longest_period: micros("sched_deadline_period_max_us", Self::DEFAULT.longest_period),
        }
    }
}

/// Returns the kernel's limits on reservations, with defaults for those it does not report. If the
/// fair servers differ by CPU, the largest counts, because a reservation may run on any CPU.
pub fn deadline_limits() -> DeadlineLimits {
    let default = DeadlineLimits::DEFAULT;
    let (rt_runtime, rt_period) = match throttling() {
        None => (default.rt_runtime, default.rt_period),
        Some(Throttling::Off) => (None, default.rt_period),
        Some(Throttling::Capped { budget, period }) => (Some(budget.at_full_speed()), period),
    };
    let servers = fair_servers();
    let largest = servers
        .iter()
        .filter_map(|server| server.reservation)
        .max_by_key(|reservation| reservation.utilisation_ppm());
    let (fair_runtime, fair_period) = match largest {
        Some(server) => (server.budget().at_full_speed(), server.period()),
        None if servers.is_empty() => (default.fair_runtime, default.fair_period),
        None => (Duration::ZERO, default.fair_period),
    };
    let periods = KernelLimits::read();
    DeadlineLimits {
        rt_runtime,
        rt_period,
        fair_runtime,
        fair_period,
        shortest_period: periods.shortest_period,
        longest_period: periods.longest_period,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_is_a_budget_or_off() {
        let capped = Throttling::Capped {
            budget: Service::from_millis(950),
            period: Duration::from_secs(1),
        };
        assert_eq!(parse_throttling("950000\n", "1000000\n"), Some(capped));
        assert_eq!(parse_throttling("-1", "1000000"), Some(Throttling::Off));
        for (runtime, period) in [
            ("", "1000000"),
            ("950000", ""),
            ("-2", "1"),
            ("x", "1"),
            ("1", "99999999999999999999"),
        ] {
            assert_eq!(parse_throttling(runtime, period), None, "{runtime} of {period}");
        }
    }

    #[test]
    fn budgets_end_on_time_only_where_the_feature_is_on() {
        let features = |dl| format!("GENTLE_FAIR_SLEEPERS HRTICK {dl} NO_DOUBLE_TICK\n");
        assert_eq!(parse_hrtick(&features("HRTICK_DL")), Some(true));
        assert_eq!(parse_hrtick(&features("NO_HRTICK_DL")), Some(false));
        assert_eq!(parse_hrtick(&features("")), None, "HRTICK alone is the fair class's");
    }
}
