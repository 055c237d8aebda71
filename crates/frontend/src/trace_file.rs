//! `--trace FILE`: the trace of a run, beside what a command does anyway.

use std::path::{Path, PathBuf};

use punctual_linux::clock;
use punctual_observe::{Existing, RecordError, Recorder, run_here, run_in_virtual_time};
use punctual_trace::Event;
use punctual_trace::file::Run;

use crate::exit::{Failure, complain};

/// Events of one thread that wait: a slot of a timetable makes six at most, so that at 1 kHz there is
/// room for more than two seconds.
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
    /// Returns how many events a driver is to keep until they are written: none if no trace is asked for.
    pub fn event_room(&self) -> usize {
        if self.path.is_some() { EVENTS_ROOM } else { 0 }
    }

    /// Creates the trace of a run on this host, if one is asked for.
    pub fn of_live_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_here(contract))
    }

    /// Creates the trace of a simulation, if one is asked for.
    pub fn of_virtual_run(&self, contract: &str) -> Result<Option<Recorder>, Failure> {
        self.create(|| run_in_virtual_time(contract))
    }

    /// Returns where the trace goes, if one is asked for.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn create(&self, run: impl FnOnce() -> Run) -> Result<Option<Recorder>, Failure> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let create = |path| Recorder::create(path, &run(), existing).map_err(refused);
        self.path.as_deref().map(create).transpose()
    }
}

/// A trace beside what matters more: an error of writing ends the trace at once, and is a failure only
/// when all is over.
pub struct Beside {
    recorder: Option<Recorder>,
    /// What goes on, in words.
    others: &'static str,
    lost: u64,
    failed: Option<RecordError>,
}

impl Beside {
    /// Makes it of a recorder, if a trace is asked for.
    pub fn new(recorder: Option<Recorder>, others: &'static str) -> Self {
        Self { recorder, others, lost: 0, failed: None }
    }

    /// Returns whether anything is written.
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// Writes what happened since the last call; `lost` is how many events were lost since the beginning.
    pub fn events(&mut self, events: &[Event], lost: u64) {
        let more = lost - self.lost;
        self.lost = lost;
        if !events.is_empty() || more > 0 {
            self.write(|recorder| {
                recorder.events(events)?;
                recorder.lost(clock::now(), more)
            });
        }
    }

    /// Writes something else.
    pub fn write(&mut self, with: impl FnOnce(&mut Recorder) -> Result<(), RecordError>) {
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = with(recorder)
        {
            complain(format_args!("{error}; {} go on without a trace", self.others));
            (self.recorder, self.failed) = (None, Some(error));
        }
    }

    /// Returns itself, unless something could not be written so far.
    pub fn checked(self) -> Result<Self, Failure> {
        match self.failed {
            Some(error) => Err(refused(error)),
            None => Ok(self),
        }
    }

    /// Ends the file: all is over.
    pub fn end(mut self) -> Result<(), Failure> {
        if let Some(recorder) = self.recorder.take() {
            self.failed = recorder.end(clock::now()).err();
        }
        self.failed.map_or(Ok(()), |error| Err(refused(error)))
    }
}

/// Makes a failure of an error of writing: a bad name is the caller's, a full file system the host's.
pub fn refused(error: RecordError) -> Failure {
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
