//! The default places of host profiles.

use std::path::PathBuf;

use punctual_linux::host;

/// The profile of the whole host: root measures it with every privilege, and every user may read
/// it.
const OF_THE_HOST: &str = "/var/lib/punctual/host.toml";

/// Returns the file that this user's calibration is written to. Root's is the profile of the host;
/// another user's is in the user's state folder (XDG Base Directory Specification). `None` if the
/// user has no home.
pub fn default_place() -> Option<PathBuf> {
    if host::is_root() { Some(OF_THE_HOST.into()) } else { of_the_user() }
}

/// Returns the places to look for a profile, in order of preference.
pub fn candidates() -> Vec<PathBuf> {
    let own = if host::is_root() { None } else { of_the_user() };
    own.into_iter().chain([OF_THE_HOST.into()]).collect()
}

fn of_the_user() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("punctual/host.toml"))
}
