//! Checks the needs of containment and cleanup: groups that can be frozen, groups whose time is counted, CPUs that can be set
//! apart, timers as file descriptors, and no remains of killed processes.

use std::fs;

use punctual_linux::cgroup::Hierarchy;
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::timer::Timer;
use punctual_linux::{clock, host, shm, thread};
use punctual_model::time::Duration;

use super::check::Check;

/// Returns all checks.
pub(super) fn checks() -> [Check; 5] {
    [freezer(), group_clock(), partitions(), watchdog_timer(), left_over()]
}

/// Counts the time of a child in a group on one CPU.
fn group_clock() -> Check {
    const NAME: &str = "server";
    let cpu = thread::affinity().first().copied().unwrap_or(0);
    match GroupClock::probe(cpu) {
        Ok(()) => Check::ok(NAME, "a group's time on one CPU is counted, tried"),
        Err(refused) => {
            let found = "no server can run: soft programs have timetables, which do not know when they wake";
            Check::warning(NAME, found, refused.to_string())
        }
    }
}

/// Freezes an empty group and removes it.
fn freezer() -> Check {
    const NAME: &str = "freezer";
    let pid = std::process::id().cast_signed();
    let tried = Freezer::for_children_of(pid)
        .and_then(|freezer| freezer.freeze_and_see().map(|()| freezer.is_v1()));
    match tried {
        Ok(v1) => {
            let version = if v1 { 1 } else { 2 };
            Check::ok(NAME, format!("control groups of version {version}, tried"))
        }
        Err(refused) => {
            let found = "no group could be frozen: a program that does not stop cannot be held";
            Check::warning(NAME, found, refused.to_string())
        }
    }
}

/// Checks without trying, which would take the CPU from the programs that run on it.
fn partitions() -> Check {
    const NAME: &str = "CPU partitions";
    let hierarchy = Hierarchy::v1("cpuset").or_else(|| {
        let v2 = Hierarchy::v2()?;
        let controllers = fs::read_to_string(v2.root().join("cgroup.controllers")).ok()?;
        controllers.split_whitespace().any(|name| name == "cpuset").then_some(v2)
    });
    let Some(hierarchy) = hierarchy else {
        return Check::warning(
            NAME,
            "no cpuset controller is mounted: reservations cannot be bound to CPUs",
            "mount one: mount -t cgroup -o cpuset none /sys/fs/cgroup/cpuset",
        );
    };
    let version = if hierarchy.is_v1() { 1 } else { 2 };
    let found =
        format!("cpusets of version {version} at {}; seen, not tried", hierarchy.root().display());
    if host::is_root() {
        Check::ok(NAME, found)
    } else {
        Check::warning(NAME, found, "set CPUs apart as root: a user's cpuset cannot be exclusive")
    }
}

fn watchdog_timer() -> Check {
    const NAME: &str = "watchdog timer";
    match Timer::new() {
        Ok(timer) => {
            let at = clock::now().saturating_add(Duration::from_millis(1));
            timer.set(at);
            match timer.wait() {
                Ok(()) => Check::ok(NAME, "expires, tried"),
                Err(refused) => Check::warning(
                    NAME,
                    "cannot be read: budgets are not enforced",
                    refused.to_string(),
                ),
            }
        }
        Err(refused) => Check::warning(
            NAME,
            "refused when tried: budgets are not enforced",
            refused.to_string(),
        ),
    }
}

/// Finds shared memory of this user whose holders are all gone.
fn left_over() -> Check {
    const NAME: &str = "left over";
    let files = shm::left_over();
    if files.is_empty() {
        return Check::ok(NAME, "no shared memory of processes that ended");
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    Check::warning(
        NAME,
        format!("{} of processes that were killed", names.join(", ")),
        format!("the next to use it removes it; or: rm {}", names.join(" ")),
    )
}
