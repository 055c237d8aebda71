//! Resource limits of other processes.

use punctual_linux::process::{Limit, limit_of};
use punctual_linux::procfs;
use punctual_linux::thread::Tid;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::error::GiveError;
use super::peer::Process;
use crate::ledger::OldLimits;

/// Sets a limit of `process`, soft and hard (prlimit(2)).
pub(super) fn set_limit(
    process: &Process,
    resource: Resource,
    limit: &'static str,
    (soft, hard): (u64, u64),
) -> Result<(), GiveError> {
    let pid = process.id.pid;
    let new = Rlimit { current: Some(soft), maximum: Some(hard) };
    prlimit(Pid::from_raw(pid), resource, new).map(|_| ()).map_err(|errno| GiveError::Limit {
        limit,
        pid,
        errno,
    })
}

/// Restores a limit (prlimit(2)).
pub(super) fn restore(
    pid: i32,
    resource: Resource,
    (soft, hard): (Option<u64>, Option<u64>),
) -> Result<(), Errno> {
    prlimit(Pid::from_raw(pid), resource, Rlimit { current: soft, maximum: hard }).map(|_| ())
}

/// Returns the limits of a process whose limits this process may set (prlimit(2)). The text of
/// [`limits_of`] takes the kernel twenty times as long, and a request waits for it.
pub(super) fn settable_limits_of(pid: i32) -> Option<OldLimits> {
    let process = Tid::from_raw(pid)?;
    let limit = |limit| limit_of(process, limit).ok();
    Some(OldLimits { rtprio: limit(Limit::Rtprio)?, rttime: limit(Limit::Rttime)? })
}

/// Reads the limits from /proc/PID/limits, which every user may read; prlimit(2) would need
/// privilege.
pub(super) fn limits_of(pid: i32) -> Option<OldLimits> {
    parse_limits(&procfs::text(format!("/proc/{pid}/limits")).ok()?)
}

/// Parses the text of such a file.
pub fn parse_limits(text: &str) -> Option<OldLimits> {
    let line = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = rest.split_whitespace();
        let mut number = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some((number()?, number()?))
    };
    Some(OldLimits {
        rtprio: line("Max realtime priority")?,
        rttime: line("Max realtime timeout")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let text = "Limit   Soft Limit  Hard Limit  Units\n\
                    Max realtime priority     0                    5                    \n\
                    Max realtime timeout      200000               unlimited            us\n";
        let limits = OldLimits { rtprio: (Some(0), Some(5)), rttime: (Some(200_000), None) };
        assert_eq!(parse_limits(text), Some(limits));
        assert_eq!(parse_limits("Max realtime priority 0 0"), None);
        let us = std::process::id() as i32;
        assert!(limits_of(us).is_some());
        assert_eq!(settable_limits_of(us), limits_of(us));
    }
}
