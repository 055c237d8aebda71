//! The reasons memory cannot be shared, and what would help.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The reason memory cannot be shared.
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
        /// The system call's error.
        error: io::Error,
    },
    /// The file belongs to another user, is not a plain file, or other users may write to it.
    #[error(
        "{} is not a file of this user alone (mode 0600): have its owner remove it",
        .path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file has another size: another version, or another program, made it.
    #[error(
        "{0} has {size} bytes instead of {expected}, so another version made it: end what uses it \
         (fuser {0}), then remove it", .path.display()
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The expected size in bytes.
        expected: u64,
    },
    /// Live processes have all places.
    #[error("all {places} places in {} are taken by processes that run", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The number of places.
        places: usize,
    },
}
