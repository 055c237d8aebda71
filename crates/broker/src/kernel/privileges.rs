//! The privileges that each part of the broker needs, and dropping all others (capabilities(7)).

use std::io;
use std::path::Path;

use nix::unistd::{Uid as NixUid, User};
use punctual_runtime::level_order::GUARD;
use rustix::io::Errno;
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Uid, geteuid, getpid, getrlimit, parent_process_death_signal,
    prlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::seccomp::{Role, SeccompError, confine};

/// The user as which a broker started by root runs, if there is such a user.
const USER: &str = "punctual";

/// The ids that service managers give to services without a user of their own (systemd, "Users,
/// Groups, UIDs and GIDs on systemd Systems").
const DYNAMIC: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// A user that is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Returns the account that a broker started by root is to run as: the user `punctual`, or if
    /// there is none an id that no user has. `None` if root did not start it: then it keeps its
    /// user.
    ///
    /// # Errors
    /// If all ids are taken.
    pub fn choose() -> Result<Option<Self>, PrivilegeError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        if let Ok(Some(user)) = User::from_name(USER)
            && !user.uid.is_root()
        {
            return Ok(Some(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }));
        }
        let free = |id: &u32| matches!(User::from_uid(NixUid::from_raw(*id)), Ok(None));
        let id = DYNAMIC.into_iter().find(free).ok_or(PrivilegeError::NoAccount)?;
        Ok(Some(Self { uid: id, gid: id }))
    }

    /// Gives a file to this user.
    ///
    /// # Errors
    /// Those of chown(2).
    pub fn owns(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
    }

    /// Makes the calling thread run as this user, with its present capabilities; execve(2) can add
    /// none from here on.
    fn assume(self) -> Result<(), Errno> {
        // The kernel forgets it when the user changes (prctl(2)).
        let dies_with_parent = parent_process_death_signal()?;
        set_keep_capabilities(true)?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        set_keep_capabilities(false)?;
        set_parent_process_death_signal(dies_with_parent)
    }
}

/// The reason why the broker cannot work with its privileges.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    /// The broker can grant nothing without CAP_SYS_NICE.
    #[error(
        "the broker needs CAP_SYS_NICE to put threads of others under real-time classes: start it \
         as root, or from its systemd unit"
    )]
    NoSysNice,
    /// The configuration needs a privilege that the broker has not.
    #[error(
        "upcalls = \"level-order\" needs CAP_SYS_RESOURCE to raise RLIMIT_RTPRIO of others, and the \
         broker has not got it: give it (AmbientCapabilities= of the unit), or set upcalls = \"fixed-level\""
    )]
    NoSysResource,
    /// There is no account left to run as.
    #[error(
        "every id from 61184 to 65519 is a user's: make a user {USER} for the broker (useradd -r)"
    )]
    NoAccount,
    /// There is no filter of system calls.
    #[error(transparent)]
    NotConfined(#[from] SeccompError),
    /// The kernel refused to drop privileges.
    #[error("privileges cannot be dropped: {0}")]
    NotDropped(#[from] Errno),
}

/// The privileges that the broker keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Powers {
    /// Whether it can raise limits of other processes (CAP_SYS_RESOURCE), verified by a try.
    pub may_limit: bool,
}

/// Becomes `account` and keeps CAP_SYS_NICE (classes and CPUs of other processes) and
/// CAP_SYS_RESOURCE (their limits). Gives up all other capabilities for good, and ensures that
/// execve(2) cannot add any (PR_SET_NO_NEW_PRIVS).
///
/// Applies to the calling thread and the threads it makes: call it while there is only one.
pub fn drop_all_but_needed(account: Option<Account>) -> Result<Powers, PrivilegeError> {
    let needed = CapabilitySet::SYS_NICE | CapabilitySet::SYS_RESOURCE;
    needs_sys_nice()?;
    let kept = keep_only(needed, account)?;
    confine(Role::Broker)?;
    Ok(Powers { may_limit: kept.contains(CapabilitySet::SYS_RESOURCE) && raising_works() })
}

/// Becomes `account` and keeps only CAP_SYS_NICE, like [`drop_all_but_needed`].
pub fn drop_all_but_sys_nice(account: Option<Account>) -> Result<(), PrivilegeError> {
    needs_sys_nice()?;
    keep_only(CapabilitySet::SYS_NICE, account)?;
    Ok(confine(Role::Guard)?)
}

/// Keeps what holding programs of other users takes: CAP_SYS_NICE (classes and CPUs), CAP_DAC_OVERRIDE
/// (control groups of every owner) and CAP_PERFMON (the time of a group). The user stays, because
/// control groups of version 1 let only root move processes of others. Kernels that let nobody but
/// CAP_SYS_ADMIN count events (Debian's, by their setting 3 of kernel.perf_event_paranoid) take that
/// too; the filter of system calls leaves it little else to do.
///
/// The caller limits its system calls itself, after its probes ([`confine`]).
pub fn drop_all_but_those_for_programs() -> Result<(), PrivilegeError> {
    needs_sys_nice()?;
    let mut needed = CapabilitySet::SYS_NICE | CapabilitySet::DAC_OVERRIDE | CapabilitySet::PERFMON;
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.is_ok_and(|text| text.trim().parse().is_ok_and(|level: i32| level > 2)) {
        needed |= CapabilitySet::SYS_ADMIN;
    }
    keep_only(needed, None).map(|_| ())
}

/// Returns an error if this process has not got CAP_SYS_NICE.
pub fn needs_sys_nice() -> Result<(), PrivilegeError> {
    let has = capabilities(None)?.permitted;
    has.contains(CapabilitySet::SYS_NICE).then_some(()).ok_or(PrivilegeError::NoSysNice)
}

/// Becomes `account` without any capability, and can never have one again.
///
/// Applies to the calling thread and the threads it makes: call it while there is only one.
pub fn give_up_all(account: Option<Account>) -> Result<(), PrivilegeError> {
    keep_only(CapabilitySet::empty(), account)?;
    Ok(confine(Role::Front)?)
}

/// Becomes `account`, gives up for good all capabilities that are not needed, and ensures that
/// execve(2) cannot add any. Returns the capabilities that are left.
///
/// Applies to the calling thread and the threads it makes: call it while there is only one.
///
/// # Errors
/// If the kernel refuses to take something away.
pub fn keep_only(
    needed: CapabilitySet,
    account: Option<Account>,
) -> Result<CapabilitySet, PrivilegeError> {
    raise_descriptor_limit();
    let has = capabilities(None)?.permitted;
    if has.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(needed).iter() {
            // EINVAL: this kernel does not know the capability.
            match remove_capability_from_bounding_set(capability) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(other) => return Err(other.into()),
            }
        }
    }
    clear_ambient_capability_set()?;
    if let Some(account) = account {
        account.assume()?;
    }
    let kept = has & needed;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    set_no_new_privs(true)?;
    Ok(kept)
}

/// Tries to raise a hard limit of this process: that takes the capability whichever process it is.
fn raising_works() -> bool {
    let us: Option<Pid> = Some(getpid());
    let before = getrlimit(Resource::Rtprio);
    let raised = Rlimit {
        current: before.current,
        maximum: Some(u64::from(GUARD).max(before.maximum.unwrap_or(u64::MAX))),
    };
    let works = prlimit(us, Resource::Rtprio, raised).is_ok();
    let _ = prlimit(us, Resource::Rtprio, before);
    works
}

/// Raises the limit on open files: each connection and each process takes a descriptor.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Raising it to the hard limit cannot be refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
