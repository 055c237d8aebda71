//! Writes the trace of jobs that are watched.

use punctual_linux::clock;
use punctual_observe::Seen;
use punctual_runtime::recording::{RecordError, Recorder};
use punctual_trace::cause::Verdict;

use super::refused;
use crate::Failure;

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
