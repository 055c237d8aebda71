//! The rights of this process: its user, resource limits and capabilities.

use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

/// The capabilities that matter to us, of the calling thread's effective set (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// CAP_SYS_NICE: real-time classes without limit.
    pub sys_nice: bool,
    /// CAP_IPC_LOCK: locks memory without limit.
    pub ipc_lock: bool,
    /// CAP_SYS_RESOURCE: raises its own limits.
    pub sys_resource: bool,
    /// CAP_SYS_ADMIN: control groups, and much else.
    pub sys_admin: bool,
    /// CAP_BPF: may load tracing programs.
    pub bpf: bool,
    /// CAP_PERFMON: may attach them to the kernel's events.
    pub perfmon: bool,
}

/// Soft limits (getrlimit(2)) and capabilities. A limit of `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// RLIMIT_RTPRIO: the highest SCHED_FIFO priority without CAP_SYS_NICE; 0 allows none.
    pub rtprio: Option<u64>,
    /// RLIMIT_RTTIME: microseconds that a real-time thread may run without a blocking call.
    pub rttime_us: Option<u64>,
    /// RLIMIT_MEMLOCK: bytes that may be locked without CAP_IPC_LOCK.
    pub memlock_bytes: Option<u64>,
    /// The effective capabilities.
    pub capabilities: Capabilities,
}

/// Returns the privileges of the calling thread.
pub fn privileges() -> Privileges {
    let limit = |resource| getrlimit(resource).current;
    let effective = effective();
    Privileges {
        rtprio: limit(Resource::Rtprio),
        rttime_us: limit(Resource::Rttime),
        memlock_bytes: limit(Resource::Memlock),
        capabilities: Capabilities {
            sys_nice: effective.contains(CapabilitySet::SYS_NICE),
            ipc_lock: effective.contains(CapabilitySet::IPC_LOCK),
            sys_resource: effective.contains(CapabilitySet::SYS_RESOURCE),
            sys_admin: effective.contains(CapabilitySet::SYS_ADMIN),
            bpf: effective.contains(CapabilitySet::BPF),
            perfmon: effective.contains(CapabilitySet::PERFMON),
        },
    }
}

/// Returns true if the calling thread has CAP_SYS_NICE.
pub fn has_cap_sys_nice() -> bool {
    effective().contains(CapabilitySet::SYS_NICE)
}

/// Returns the effective capabilities; none if the kernel does not report them, so that nothing
/// uncertain is promised.
fn effective() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Returns true if the effective user, which the file system checks, is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_agree_with_proc() {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("mounted");
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:")).expect("always there");
        let bits = u64::from_str_radix(line.trim(), 16).expect("hexadecimal");
        assert_eq!(privileges().capabilities.sys_nice, bits >> 23 & 1 == 1);
        assert_eq!(privileges().capabilities.ipc_lock, bits >> 14 & 1 == 1);
        assert_eq!(has_cap_sys_nice(), bits >> 23 & 1 == 1);
    }
}
