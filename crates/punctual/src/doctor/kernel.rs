//! Checks the settings of this kernel.

use punctual_linux::host::{self, Clocks, Throttling};
use punctual_linux::memfd;
use punctual_model::time::Duration;
use punctual_model::units::percent;

use super::check::Check;

/// The kernel's default for ordinary threads (prctl(2), PR_SET_TIMERSLACK).
const DEFAULT_SLACK: Duration = Duration::from_micros(50);

/// Checks high-resolution timers. Also returns whether they are there.
pub(super) fn timers() -> (Check, bool) {
    const NAME: &str = "timers";
    let clocks = host::clocks();
    if clocks.has_high_resolution_timers() {
        (Check::ok(NAME, format!("high resolution, {}", clocks.resolution)), true)
    } else {
        let found = format!("fire at scheduler ticks only, every {}", clocks.resolution);
        let remedy = "boot without highres=off and nohz=off, on a kernel with \
                      CONFIG_HIGH_RES_TIMERS and a stable clock source";
        (Check::cannot(NAME, found, remedy), false)
    }
}

/// Checks the limit on all real-time threads together.
pub(super) fn throttling() -> Check {
    const NAME: &str = "real-time throttling";
    match host::throttling() {
        Some(Throttling::Off) => Check::warning(
            NAME,
            "off: a real-time thread that never sleeps can stop the host, and nothing is admitted",
            "sysctl kernel.sched_rt_runtime_us=950000",
        ),
        Some(Throttling::Capped { budget, .. }) if budget.is_zero() => Check::warning(
            NAME,
            "real-time threads may not run at all",
            "sysctl kernel.sched_rt_runtime_us=950000",
        ),
        Some(Throttling::Capped { budget, period }) => {
            Check::ok(NAME, format!("{budget} in every {period} of each CPU"))
        }
        None => unreadable(NAME, "/proc/sys/kernel/sched_rt_runtime_us"),
    }
}

/// Checks the budget of the real-time group (RT_GROUP_SCHED).
pub(super) fn group() -> Check {
    const NAME: &str = "real-time group";
    match host::rt_group() {
        None => Check::ok(NAME, "control groups have no real-time budgets of their own"),
        Some(group) if group.budget.is_zero() => Check::warning(
            NAME,
            format!("{} has no real-time budget: SCHED_FIFO is forbidden in it", group.path),
            format!("echo 950000 > {}/cpu.rt_runtime_us (its parents first)", group.path),
        ),
        Some(group) => Check::ok(
            NAME,
            format!(
                "{}: {} in every {} (RT_GROUP_SCHED); above that SCHED_FIFO pauses",
                group.path, group.budget, group.period
            ),
        ),
    }
}

/// Checks the bandwidth that is kept for ordinary threads.
pub(super) fn fair_server() -> Check {
    const NAME: &str = "fair server";
    let servers = host::fair_servers();
    let Some(first) = servers.first() else {
        return Check::unknown(
            NAME,
            "not readable, or before Linux 6.12",
            "mount -t debugfs none /sys/kernel/debug, as root",
        );
    };
    match first.reservation {
        Some(reservation) => Check::ok(
            NAME,
            format!(
                "keeps {reservation} of each CPU ({}) for ordinary threads",
                percent(reservation.utilisation_ppm())
            ),
        ),
        None => Check::warning(
            NAME,
            "off: ordinary threads may starve under real-time load",
            "echo 50000000 > /sys/kernel/debug/sched/fair_server/cpu0/runtime (each CPU)",
        ),
    }
}

/// Checks whether SCHED_DEADLINE ends budgets on time.
pub(super) fn budgets() -> Check {
    const NAME: &str = "ends of budgets";
    match host::ends_budgets_on_time() {
        Some(true) => Check::ok(NAME, "SCHED_DEADLINE has a timer for each (HRTICK_DL)"),
        Some(false) => Check::warning(
            NAME,
            "SCHED_DEADLINE looks at its ticks only: a thread that does not stop by itself runs on to \
             the next or the one after",
            "echo HRTICK_DL > /sys/kernel/debug/sched/features; until the next boot",
        ),
        None => Check::unknown(
            NAME,
            "the kernel does not say: then SCHED_DEADLINE looks at its ticks only",
            "mount -t debugfs none /sys/kernel/debug, as root; a kernel with CONFIG_SCHED_HRTICK",
        ),
    }
}

/// Checks the clock source.
pub(super) fn clock_source() -> Check {
    const NAME: &str = "clock source";
    /// The sources that are read without a system call or an exit to the hypervisor.
    const GOOD: [&str; 6] = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "xen",
        "riscv_clocksource",
    ];
    let Clocks { source, available, .. } = host::clocks();
    match source {
        Some(source) if GOOD.contains(&source.as_str()) => Check::ok(NAME, source),
        Some(source) => Check::warning(
            NAME,
            format!("{source} is slow to read (available: {})", available.join(", ")),
            "if tsc is available: echo tsc > \
             /sys/devices/system/clocksource/clocksource0/current_clocksource; else look in dmesg \
             why the kernel distrusts it",
        ),
        None => unreadable(NAME, "/sys/devices/system/clocksource"),
    }
}

/// Checks the timer slack, by which the kernel may delay the wake-ups of ordinary threads.
pub(super) fn timer_slack() -> Check {
    const NAME: &str = "timer slack";
    let slack = host::clocks().timer_slack;
    if slack <= DEFAULT_SLACK {
        Check::ok(NAME, format!("{slack} for ordinary threads; real-time ones have none"))
    } else {
        Check::warning(
            NAME,
            format!("{slack}: ordinary threads are woken that late on purpose"),
            "start from a shell without it: the process that started this one has set PR_SET_TIMERSLACK",
        )
    }
}

/// Checks the grouping of ordinary threads by session.
pub(super) fn autogroup() -> Check {
    const NAME: &str = "autogroup";
    match host::machine().autogroup {
        Some(true) => Check::ok(
            NAME,
            "on: nice values count within a session only; real-time threads are not concerned",
        ),
        Some(false) => Check::ok(NAME, "off"),
        None => Check::ok(NAME, "not in this kernel"),
    }
}

/// Checks whether a client of the broker can have the pages of a channel's queue replaced while
/// they are in use.
pub(super) fn shared_pages() -> Check {
    const NAME: &str = "shared pages";
    match memfd::can_be_collapsed() {
        Some(false) => {
            Check::ok(NAME, "a queue's pages are not replaced by huge ones while it is used, tried")
        }
        Some(true) => Check::warning(
            NAME,
            "a client can have a queue's pages replaced by huge ones, which delays all channels",
            "echo deny > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
        None => Check::unknown(
            NAME,
            "there was no memory to try whether a queue's pages can be replaced by huge ones",
            "look at the limits on memory and on open files (ulimit -n)",
        ),
    }
}

fn unreadable(name: &'static str, path: &str) -> Check {
    Check::unknown(name, format!("{path} is not readable"), "mount /proc and /sys, or run as root")
}
