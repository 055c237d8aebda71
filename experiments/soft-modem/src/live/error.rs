//! The errors of the live study, with advice on what to do.

use std::io;
use std::path::PathBuf;

use punctual_bpf::{AttachError, LoadError, MapError, RunError};
use punctual_linux::sched::SchedError;
use punctual_linux::thread::AffinityError;
use punctual_runtime::recording::RecordError;
use punctual_runtime::reservation;

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program could not be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The program could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The program's memory could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The interrupts never came.
    #[error(
        "{context}: attached on CPU {cpu}, and no interrupt came; some virtual CPUs have no software \
         clock when they are idle: name another with --cpu"
    )]
    Silent {
        /// The context.
        context: &'static str,
        /// The CPU.
        cpu: usize,
    },
    /// The kernel does not arm a timer from a program.
    #[error("the kernel does not arm a timer from a program (error {errno}): it takes Linux 6.7")]
    Arm {
        /// errno(3).
        errno: i64,
    },
    /// The kernel refused to arm the timer again: services are missing.
    #[error("the kernel refused to arm the timer again (error {errno}): the call was cut short")]
    Rearm {
        /// errno(3).
        errno: i64,
    },
    /// A class was refused.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// A CPU was refused.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// Reservations are not available.
    #[error(transparent)]
    Reservations(#[from] reservation::StartError),
    /// This reservation was refused.
    #[error(transparent)]
    Refused(#[from] reservation::Refused),
    /// The competitors could not be started.
    #[error(transparent)]
    Competitors(#[from] punctual_modem::demo::Error),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] io::Error),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] RecordError),
    /// The results could not be written.
    #[error("{}: cannot be written: {why}", path.display())]
    Results {
        /// The path.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// Results kept by an earlier run cannot be read.
    #[error("{}: cannot be read: {why}", path.display())]
    Kept {
        /// The path.
        path: PathBuf,
        /// The fault found.
        why: String,
    },
    /// There is no context with that name.
    #[error("there is no context \"{name}\"; there are: {known}")]
    NoSuchContext {
        /// The name requested.
        name: String,
        /// The existing names.
        known: String,
    },
}
