//! Giving up what metrics do not need (capabilities(7)).

use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Keeps CAP_BPF and CAP_PERFMON, by which jobs are watched, of those that there are.
///
/// Of the calling thread and those it makes: call it while there is only one.
pub(super) fn drop_all_but_watching() -> io::Result<()> {
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let has = capabilities(None)?.permitted;
    if has.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(needed).iter() {
            // EINVAL: one that this kernel does not know.
            match remove_capability_from_bounding_set(capability) {
                Ok(()) | Err(io::Errno::INVAL) => {}
                Err(other) => return Err(other),
            }
        }
    }
    let kept = has & needed;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    clear_ambient_capability_set()?;
    set_no_new_privs(true)
}
