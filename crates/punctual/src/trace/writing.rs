//! Writes the trace of a run.

use punctual_linux::clock;
use punctual_runtime::recording::{RecordError, Recorder};
use punctual_trace::Event;

use crate::{Failure, Remedy};

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

/// Converts an error of writing: a bad name is the caller's fault, a full file system the host's.
pub fn refused(error: RecordError) -> Failure {
    match error {
        RecordError::IsThere { .. } => Failure::bad_input(error).with(Remedy::Replace),
        RecordError::Write { error: ref why, .. } => match why.kind() {
            std::io::ErrorKind::NotFound
            | std::io::ErrorKind::IsADirectory
            | std::io::ErrorKind::NotADirectory => Failure::bad_input(error),
            _ => Failure::cannot_here(error),
        },
    }
}
