//! `--trace FILE`: the trace of a run, beside what a command does anyway.

use std::path::PathBuf;

use punctual_observe::{Existing, RecordError, Recorder, run_here, run_in_virtual_time};
use punctual_trace::file::Run;

use crate::exit::Failure;

/// Events of one thread that wait: a slot of a timetable makes six at most, so that at 1 kHz there is
/// room for more than two seconds.
const EVENTS_ROOM: usize = 1 << 14;

/// The options of every command that writes a trace.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    /// Also write a trace of the run, for punctual why, report and export (docs/trace.md)
    #[arg(long = "trace", value_name = "FILE")]
    path: Option<PathBuf>,
    /// Overwrite the trace file if there is one
    #[arg(long, requires = "path")]
    force: bool,
}

impl TraceArgs {
    /// Events that a driver is to keep until they are written: none if no trace is asked for.
    pub(crate) fn event_room(&self) -> usize {
        if self.path.is_some() { EVENTS_ROOM } else { 0 }
    }

    /// The trace of a run on this host, if one is asked for.
    pub(crate) fn of_live_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_here(contract))
    }

    /// The same of a simulation.
    pub(crate) fn of_virtual_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_in_virtual_time(contract))
    }

    fn create(&self, run: impl FnOnce() -> Run) -> Result<Option<Recorder>, Failure> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let create = |path| Recorder::create(path, &run(), existing).map_err(refused);
        self.path.as_deref().map(create).transpose()
    }
}

/// A name that is no good is the caller's, a file system that is full the host's.
pub(crate) fn refused(error: RecordError) -> Failure {
    match error {
        RecordError::IsThere { .. } => Failure::bad_input(error),
        RecordError::Write { error: ref why, .. } => match why.kind() {
            std::io::ErrorKind::NotFound
            | std::io::ErrorKind::IsADirectory
            | std::io::ErrorKind::NotADirectory => Failure::bad_input(error),
            _ => Failure::cannot_here(error),
        },
    }
}
