//! The user of this process.

/// Returns true if the effective user, which the file system checks, is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
