//! Checks the machine, the hypervisor below it, and whether admission knows the costs of its
//! switches.

use punctual_linux::host::{self, Machine, Virtualisation};
use punctual_linux::thread;
use punctual_model::time::Duration;
use punctual_model::units::percent;

use super::check::Check;
use crate::host::{Standing, candidates, standing};
use crate::{Message, Remedy};

/// The time for which steal is sampled.
const SAMPLE: Duration = Duration::from_millis(200);

/// The fraction of time stolen since boot above which latencies show it: 0.1 %.
const STEAL_SEEN_PPM: u64 = 1_000;

/// Returns the remedy for a missing, stale or incomplete profile.
fn measure(how: &str) -> Message {
    Message::from(how).with(Remedy::Calibrate(None))
}

/// Returns all checks.
pub(super) fn checks() -> Vec<Check> {
    let machine = host::machine();
    vec![
        preemption(&machine),
        cpus(&machine),
        virtualisation(&machine),
        steal(),
        governor(&machine),
        swap(&machine),
    ]
}

fn preemption(machine: &Machine) -> Check {
    const NAME: &str = "kernel preemption";
    let Machine { kernel_release, kernel_version, preemption, .. } = machine;
    match preemption.as_deref() {
        Some(model @ ("full" | "rt" | "lazy")) => {
            Check::ok(NAME, format!("{model} (Linux {kernel_release})"))
        }
        Some(model) => Check::warning(
            NAME,
            format!("{model} (Linux {kernel_release}): long system calls delay real-time threads"),
            "boot with preempt=full, or as root: echo full > /sys/kernel/debug/sched/preempt",
        ),
        None => Check::unknown(
            NAME,
            format!("Linux {kernel_release} {kernel_version} does not say"),
            "as root: mount -t debugfs none /sys/kernel/debug; cat /sys/kernel/debug/sched/preempt; \
             boot with preempt=full for the best",
        ),
    }
}

fn cpus(machine: &Machine) -> Check {
    const NAME: &str = "CPUs";
    let (mine, online) = (thread::affinity().len(), machine.cpus_online);
    if mine >= online {
        Check::ok(NAME, format!("{online} online, all of them ours"))
    } else {
        Check::warning(
            NAME,
            format!("{mine} of {online} online are ours: SCHED_DEADLINE needs all of its domain"),
            "start without taskset or a narrower cpuset, or make an exclusive cpuset of them",
        )
    }
}

fn virtualisation(machine: &Machine) -> Check {
    const NAME: &str = "virtualisation";
    match &machine.virtualisation {
        Virtualisation::NoneSeen => Check::ok(NAME, "none seen"),
        Virtualisation::Under(name) => Check::warning(
            NAME,
            format!("{name}: it can stop our CPUs at any time, and no promise binds it"),
            "ask for dedicated, pinned CPUs, or use the bare machine; watch the steal",
        ),
    }
}

fn steal() -> Check {
    const NAME: &str = "steal";
    let Some(steal) = host::steal_over(SAMPLE) else {
        return Check::unknown(NAME, "/proc/stat is not readable", "mount /proc");
    };
    let found = format!(
        "{} of {} ticks in {}, {} since boot",
        steal.stolen,
        steal.ticks,
        steal.over,
        percent(steal.since_boot_ppm)
    );
    if steal.stolen > 0 || steal.since_boot_ppm > STEAL_SEEN_PPM {
        Check::warning(NAME, found, "the hypervisor is overcommitted: ask for dedicated CPUs")
    } else {
        Check::ok(NAME, found)
    }
}

fn governor(machine: &Machine) -> Check {
    const NAME: &str = "frequency governor";
    let slow = machine.governors.iter().filter(|(_, governor)| governor != "performance");
    let mut names: Vec<&str> = slow.map(|(_, governor)| governor.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if machine.governors.is_empty() {
        Check::unknown(
            NAME,
            "none here: firmware or hypervisor decides",
            "choose full performance in the firmware, if it is yours",
        )
    } else if names.is_empty() {
        Check::ok(NAME, "performance on every CPU")
    } else {
        Check::warning(
            NAME,
            format!("{}: work takes longer on a slowed CPU", names.join(", ")),
            "cpupower frequency-set -g performance, or tuned-adm profile latency-performance",
        )
    }
}

fn swap(machine: &Machine) -> Check {
    const NAME: &str = "swap";
    match machine.swap_bytes {
        Some(0) => Check::ok(NAME, "none"),
        Some(bytes) => Check::warning(
            NAME,
            format!("{} MiB: memory that is not locked may have to come from disk", bytes >> 20),
            "lock memory (see above), or swapoff -a",
        ),
        None => Check::unknown(NAME, "/proc/swaps is not readable", "mount /proc"),
    }
}

/// Checks the profile that admission uses by default.
pub(super) fn profile() -> Check {
    const NAME: &str = "host profile";
    let mut stale = None;
    for path in candidates() {
        match standing(&path) {
            Standing::Absent => {}
            Standing::Unusable(why) => stale = stale.or(Some(why)),
            Standing::Holds(calibration) => {
                let (year, month, day) = calibration.run.date();
                let found =
                    format!("{}, measured on {year:04}-{month:02}-{day:02}", path.display());
                return match calibration.switching {
                    Some(charge) => {
                        let cost: Duration = charge.context_switch().at_full_speed();
                        Check::ok(NAME, format!("{found}: {cost} a switch"))
                    }
                    None => Check::warning(
                        NAME,
                        format!("{found}: switches could not be measured, and count as free"),
                        measure("measure again with the right to SCHED_FIFO"),
                    ),
                };
            }
        }
    }
    const AGAIN: &str = "measure this host, in about a minute";
    match stale {
        Some(why) => Check::warning(NAME, format!("{why}; it is not used"), measure(AGAIN)),
        None => Check::warning(NAME, "none: admission takes switches for free", measure(AGAIN)),
    }
}
