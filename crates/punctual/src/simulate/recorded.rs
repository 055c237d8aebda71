//! Writes a run to a trace file.

use punctual_model::Instant;
use punctual_runtime::recording::Recorder;
use punctual_trace::{Event, Sink, Subject};

use super::Watching;
use crate::Failure;
use crate::trace::refused;

/// A watcher that writes the events of a run to a trace file. The file numbers the subjects of all
/// CPUs through.
#[derive(Debug)]
pub struct Recorded {
    recorder: Recorder,
    /// The number of subjects so far; the last of them are those of the current CPU.
    subjects: u32,
    /// The number of the first subject of the current CPU.
    first: u32,
    /// The latest instant of an event.
    latest: Instant,
}

impl Recorded {
    /// Writes what follows by `recorder`.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, subjects: 0, first: 0, latest: Instant::ZERO }
    }

    /// Completes the file. No job was released after `until`.
    ///
    /// # Errors
    /// If a part of the trace could not be written.
    pub fn end(self, until: Instant) -> Result<(), Failure> {
        self.recorder.end(self.latest.max(until)).map_err(refused)
    }
}

impl Watching for Recorded {
    fn turn_to(&mut self, _: u16, subjects: &[Subject]) -> Result<(), Failure> {
        self.first = self.subjects;
        for subject in subjects {
            self.recorder.subject(self.subjects, subject).map_err(refused)?;
            self.subjects += 1;
        }
        Ok(())
    }
}

impl Sink for Recorded {
    fn record(&mut self, mut event: Event) {
        self.latest = self.latest.max(event.at);
        event.job.task += self.first;
        self.recorder.record(event);
    }
}
