//! Where a host's profile lies if nobody says otherwise.

use std::path::PathBuf;

use punctual_linux::host;

/// Root's: measured with every privilege, and read by everybody.
const OF_THE_HOST: &str = "/var/lib/punctual/host.toml";

/// Returns where this user's calibration goes: root's is the host's, others' lie in their state folder (XDG
/// Base Directory Specification). `None` if a user has no home.
pub fn default_place() -> Option<PathBuf> {
    if host::is_root() { Some(OF_THE_HOST.into()) } else { of_the_user() }
}

/// Returns where to look for a profile, in the order of preference.
pub fn candidates() -> Vec<PathBuf> {
    let own = if host::is_root() { None } else { of_the_user() };
    own.into_iter().chain([OF_THE_HOST.into()]).collect()
}

fn of_the_user() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("punctual/host.toml"))
}
