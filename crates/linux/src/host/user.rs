//! Who runs this process.

/// Whether it is root, to the file system.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
