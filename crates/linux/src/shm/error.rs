//! Why memory cannot be shared, and what would help.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why memory cannot be shared.
#[derive(Debug, Error)]
pub enum ShmError {
    /// The file or the directory cannot be used.
    #[error(
        "{} cannot be shared between processes: {error}; a tmpfs that this user can write to must \
         be mounted there: mount -t tmpfs -o mode=1777 tmpfs /dev/shm", .path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Of the system call.
        error: io::Error,
    },
    /// It is another user's, no plain file, or others may write to it.
    #[error(
        "{} is not a file of this user alone (mode 0600): have its owner remove it",
        .path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Left by another version, or by something else.
    #[error(
        "{0} has {size} bytes instead of {expected}, so another version made it: end what uses it \
         (fuser {0}), then remove it", .path.display()
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// What it has.
        size: u64,
        /// What it should have.
        expected: u64,
    },
    /// Each place is taken by a live process.
    #[error("all {places} places in {} are taken by processes that run", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// How many.
        places: usize,
    },
}
