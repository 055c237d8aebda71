//! The ways in which the laboratory itself can fail.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A reason why a machine could not be made or did not come to its end.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    /// The command line, or a job's file, asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// This host lacks a program, a package, room or privileges.
    #[error("{0}")]
    Host(String),
    /// A file of the laboratory could not be read or written.
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
}

impl Problem {
    /// Adds the path to an error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    /// Returns the exit code: 2 for bad usage, 3 for what this host cannot do.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Host(_) | Self::File { .. } => 3,
        }
    }
}
