//! Writes the trace of a run, or of jobs that are watched.

use punctual_linux::clock;
use punctual_observe::{RecordError, Recorder, Seen};
use punctual_trace::Event;
use punctual_trace::cause::Verdict;

use crate::Failure;

/// A trace beside more important work. An error of writing ends the trace at once, and becomes a
/// failure only at the end.
#[derive(Debug)]
pub struct Beside {
    recorder: Option<Recorder>,
    lost: u64,
    failed: Option<RecordError>,
}

impl Beside {
    /// Makes a trace that `recorder` writes; with `None` nothing is written.
    pub fn new(recorder: Option<Recorder>) -> Self {
        Self { recorder, lost: 0, failed: None }
    }

    /// Returns whether a trace is being written.
    pub fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// Writes the events since the last call. `lost` is the number of events lost since the
    /// beginning. Returns the error that ends the trace here, if there is one.
    #[must_use = "a person is to know that the trace has ended"]
    pub fn events(&mut self, events: &[Event], lost: u64) -> Option<&RecordError> {
        let more = lost - self.lost;
        self.lost = lost;
        if events.is_empty() && more == 0 {
            return None;
        }
        self.write(|recorder| {
            recorder.events(events)?;
            recorder.lost(clock::now(), more)
        })
    }

    /// Writes another entry. Returns the error that ends the trace here, if there is one.
    #[must_use = "a person is to know that the trace has ended"]
    pub fn write(
        &mut self,
        with: impl FnOnce(&mut Recorder) -> Result<(), RecordError>,
    ) -> Option<&RecordError> {
        let error = with(self.recorder.as_mut()?).err()?;
        self.recorder = None;
        Some(self.failed.insert(error))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If a part of the trace could not be written.
    pub fn end(mut self) -> Result<(), Failure> {
        if let Some(recorder) = self.recorder.take() {
            self.failed = recorder.end(clock::now()).err();
        }
        self.failed.map_or(Ok(()), |error| Err(refused(error)))
    }
}

/// The trace of jobs that are watched, if one is written.
#[derive(Debug)]
pub struct Recorded(Option<Recorder>);

impl Recorded {
    /// Makes a trace that `recorder` writes; with `None` nothing is written.
    pub fn new(recorder: Option<Recorder>) -> Self {
        Self(recorder)
    }

    /// Returns whether a trace is being written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Writes the observations since the last call, and the causes of late jobs.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn more(&mut self, seen: Vec<Seen>, late: &[Verdict]) -> Result<(), Failure> {
        let Some(recorder) = &mut self.0 else { return Ok(()) };
        write(recorder, seen, late).map_err(refused)
    }

    /// Ends the file at the end of the run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |recorder| recorder.end(clock::now())).map_err(refused)
    }
}

fn write(recorder: &mut Recorder, seen: Vec<Seen>, late: &[Verdict]) -> Result<(), RecordError> {
    let mut events = Vec::new();
    for one in seen {
        match one {
            Seen::Event(event) => events.push(event),
            Seen::Subject(number, subject) => {
                recorder.events(&std::mem::take(&mut events))?;
                recorder.subject(number, &subject)?;
            }
            Seen::Lost(at, records) => {
                recorder.events(&std::mem::take(&mut events))?;
                recorder.lost(at, records)?;
            }
        }
    }
    recorder.events(&events)?;
    late.iter().try_for_each(|verdict| recorder.verdict(verdict))
}

/// Converts an error of writing: a bad name is the caller's fault, a full file system the host's.
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
