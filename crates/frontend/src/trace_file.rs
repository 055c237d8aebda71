//! Implements `--trace FILE`: writes the trace of a run beside a command's own work.

use std::path::{Path, PathBuf};

use punctual::trace::{Existing, RecordError, Recorder, run_here, run_in_virtual_time};
use punctual_trace::file::Run;

pub use punctual::trace::{Beside, refused};

use crate::exit::{Failure, complain};

/// The number of unwritten events that are kept for one thread. A slot of a timetable makes at most
/// six, so at 1 kHz there is room for more than two seconds.
const EVENTS_ROOM: usize = 1 << 14;

/// The options of every command that writes a trace.
#[derive(clap::Args, Clone, Debug)]
pub struct TraceArgs {
    /// Also write a trace of the run, for punctual why, report and export (docs/trace.md)
    #[arg(long = "trace", value_name = "FILE")]
    path: Option<PathBuf>,
    /// Overwrite files that there are
    #[arg(long)]
    pub force: bool,
}

impl TraceArgs {
    /// Returns how many events a driver has to keep until they are written: none if no trace is
    /// requested.
    pub fn event_room(&self) -> usize {
        if self.path.is_some() { EVENTS_ROOM } else { 0 }
    }

    /// Creates the trace of a run on this host, if one is requested.
    pub fn of_live_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_here(contract))
    }

    /// Creates the trace of a simulation, if one is requested.
    pub fn of_virtual_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_in_virtual_time(contract))
    }

    /// Returns the path of the trace, if one is requested.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn create(&self, run: impl FnOnce() -> Run) -> Result<Option<Recorder>, Failure> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let create = |path| Recorder::create(path, &run(), existing).map_err(refused);
        self.path.as_deref().map(create).transpose()
    }
}

/// Prints to standard error that a trace ended early, if it did, and that `others` go on.
pub fn complain_of(stopped: Option<&RecordError>, others: &str) {
    if let Some(error) = stopped {
        complain(format_args!("{error}; {others} go on without a trace"));
    }
}
