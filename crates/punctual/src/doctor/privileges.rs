//! Checks the privileges of this user by trying them.

use punctual_linux::bandwidth;
use punctual_linux::host::{self, Privileges};
use punctual_linux::memory;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_model::units::percent;

use super::check::Check;

/// The highest priority; the runtime's own highest level is below.
const HIGHEST: u8 = 99;

/// A reservation that fits unless no bandwidth is left.
const SMALL_RESERVATION: &str = "1ms/100ms";

/// The fraction of a CPU below which too little bandwidth is left to be useful.
const LITTLE_PPM: u64 = 100_000;

/// The highest priority that the runtime's callbacks and threads need.
const NEEDED: u8 = 98;

/// Checks SCHED_FIFO. Also returns whether upcalls can run.
pub(super) fn fifo() -> (Check, bool) {
    const NAME: &str = "SCHED_FIFO";
    let refused = match sched::try_out(Class::Fifo { priority: HIGHEST }) {
        Ok(()) => {
            return (
                Check::ok(NAME, format!("priorities up to {HIGHEST}, tried ({})", privilege())),
                true,
            );
        }
        Err(refused) => refused,
    };
    // Without CAP_SYS_NICE, RLIMIT_RTPRIO is the highest permitted priority.
    let limit = host::privileges().rtprio.unwrap_or(0).min(u64::from(HIGHEST));
    let limited = u8::try_from(limit).ok().filter(|&priority| priority > 0);
    match limited.map(|priority| (priority, sched::try_out(Class::Fifo { priority }))) {
        Some((priority, Ok(()))) if priority >= NEEDED => {
            (Check::ok(NAME, format!("priorities up to {priority}, tried (RLIMIT_RTPRIO)")), true)
        }
        Some((priority, Ok(()))) => {
            let found =
                format!("only priorities up to {priority}, tried: upcalls use up to {NEEDED}");
            (Check::cannot(NAME, found, remedy(&refused)), false)
        }
        _ => (Check::cannot(NAME, "refused when tried", remedy(&refused)), false),
    }
}

/// Names the privilege that permits it.
fn privilege() -> String {
    let Privileges { rtprio, capabilities, .. } = host::privileges();
    if capabilities.sys_nice {
        "CAP_SYS_NICE".to_owned()
    } else {
        rtprio.map_or("no limit".to_owned(), |limit| format!("RLIMIT_RTPRIO {limit}"))
    }
}

/// Checks SCHED_DEADLINE. Also returns whether reservations can be held.
pub(super) fn deadline() -> (Check, bool) {
    const NAME: &str = "SCHED_DEADLINE";
    let Ok(reservation) = SMALL_RESERVATION.parse() else {
        return (Check::unknown(NAME, "not tried", "report this"), false);
    };
    match sched::try_out(Class::Deadline { reservation, reset_on_fork: true }) {
        Ok(()) => (Check::ok(NAME, format!("{reservation}, tried")), true),
        // The privilege is there and only bandwidth is missing; the error says what to do.
        Err(refused @ SchedError::NoBandwidth { .. }) => {
            let found = format!("permitted, but no room for {reservation}");
            (Check::warning(NAME, found, remedy(&refused)), true)
        }
        Err(refused) => (Check::cannot(NAME, "refused when tried", remedy(&refused)), false),
    }
}

/// Checks the bandwidth that is left to SCHED_DEADLINE.
pub(super) fn bandwidth() -> Check {
    const NAME: &str = "bandwidth left";
    match bandwidth::left() {
        Ok(left) => {
            let account = left.account_ppm.map_or(String::new(), |ppm| {
                format!("; the kernel's account says {} given away", percent(ppm))
            });
            let found = format!(
                "{} of a CPU on all {} together, at most {} for one thread (measured by trying){account}",
                percent(left.left_ppm),
                host::cpus_online(),
                percent(left.largest_ppm),
            );
            if left.largest_ppm < LITTLE_PPM {
                let remedy = "end other SCHED_DEADLINE threads (ps -eLo pid,cls,comm shows DLN); \
                              if there are none, the kernel's account is wrong: with cgroup v1, \
                              write 0 and then 1 to \
                              /sys/fs/cgroup/cpuset/cpuset.sched_load_balance, or reboot";
                Check::warning(NAME, found, remedy)
            } else {
                Check::ok(NAME, found)
            }
        }
        Err(refused) => Check::cannot(NAME, "could not be measured", remedy(&refused)),
    }
}

/// Checks locked memory.
pub(super) fn memory() -> Check {
    const NAME: &str = "locked memory";
    let limit = match host::privileges().memlock_bytes {
        _ if host::privileges().capabilities.ipc_lock => "no limit: CAP_IPC_LOCK".to_owned(),
        Some(bytes) => format!("RLIMIT_MEMLOCK {} KiB", bytes / 1024),
        None => "RLIMIT_MEMLOCK unlimited".to_owned(),
    };
    match memory::lock_all() {
        Ok(guard) => {
            drop(guard);
            Check::ok(NAME, format!("all of a small process, tried ({limit})"))
        }
        Err(refused) => {
            let found = format!("refused when tried ({limit}): page faults can delay a job");
            Check::warning(NAME, found, refused.to_string())
        }
    }
}

/// Checks RLIMIT_RTTIME.
pub(super) fn real_time_limit() -> Check {
    const NAME: &str = "RLIMIT_RTTIME";
    match host::privileges().rttime_us {
        None => Check::ok(NAME, "unlimited"),
        Some(us) => Check::warning(
            NAME,
            format!("a real-time thread that runs {us} us without sleeping gets SIGXCPU"),
            "add \"<user> - rttime unlimited\" to /etc/security/limits.conf and log in again, or \
             keep each job shorter",
        ),
    }
}

/// Returns the text of the refusal, which contains the remedy.
fn remedy(refused: &SchedError) -> String {
    refused.to_string()
}
