//! What the broker needs, and getting rid of everything else (capabilities(7)).

use punctual_runtime::ceiling::GUARD;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getpid, getrlimit, prlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use thiserror::Error;

/// Why the broker cannot work with what it has.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    /// Nothing can be given without it.
    #[error(
        "the broker needs CAP_SYS_NICE to put threads of others under real-time classes: start it \
         as root, or from its systemd unit"
    )]
    NoSysNice,
    /// The configuration asks for what cannot be had.
    #[error(
        "upcalls = \"ceiling\" needs CAP_SYS_RESOURCE to raise RLIMIT_RTPRIO of others, and the \
         broker has not got it: give it (AmbientCapabilities= of the unit), or set upcalls = \"level\""
    )]
    NoSysResource,
    /// The kernel refused to take privileges away.
    #[error("privileges cannot be dropped: {0}")]
    NotDropped(#[from] Errno),
}

/// What is left to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Powers {
    /// Whether it can raise limits of other processes (CAP_SYS_RESOURCE), seen to work.
    pub may_limit: bool,
}

/// Keeps CAP_SYS_NICE (classes and CPUs of others) and CAP_SYS_RESOURCE (their limits), as
/// [`drop_all_but`].
pub fn drop_all_but_needed() -> Result<Powers, PrivilegeError> {
    let kept = drop_all_but(CapabilitySet::SYS_NICE | CapabilitySet::SYS_RESOURCE)?;
    Ok(Powers { may_limit: kept.contains(CapabilitySet::SYS_RESOURCE) && raising_works() })
}

/// Keeps the capabilities `needed`, CAP_SYS_NICE among them, as far as they are there, gives up all
/// others for good, and forbids itself to gain any by execve(2) (PR_SET_NO_NEW_PRIVS). Returns those
/// that were kept.
///
/// Of the calling thread and those it makes: call it while there is only one.
pub fn drop_all_but(needed: CapabilitySet) -> Result<CapabilitySet, PrivilegeError> {
    let has = capabilities(None)?.permitted;
    if !has.contains(CapabilitySet::SYS_NICE) {
        return Err(PrivilegeError::NoSysNice);
    }
    raise_descriptor_limit();
    if has.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(needed).iter() {
            // EINVAL: one that this kernel does not know.
            match remove_capability_from_bounding_set(capability) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(other) => return Err(other.into()),
            }
        }
    }
    let kept = has & needed;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    clear_ambient_capability_set()?;
    set_no_new_privs(true)?;
    Ok(kept)
}

/// Tried on ourselves: raising a hard limit takes the capability, whoever's it is.
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

/// Each connection and each process takes a descriptor.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Up to what is allowed anyway: cannot be refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
