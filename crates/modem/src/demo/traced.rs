//! The trace file of a demonstration. The driver of each call is a subject of its own.

use punctual_model::{Backlog, Instant, Task};
use punctual_observe::{RecordError, Recorder};
use punctual_trace::{Event, Promise, Subject, SubjectKind};

/// The trace of all calls, if there is one.
#[derive(Debug, Default)]
pub struct Traced {
    recorder: Option<Recorder>,
    /// The number of calls so far, including the current one.
    calls: u32,
    /// Events of the current call that are known to be lost.
    lost: u64,
    latest: Instant,
}

impl Traced {
    /// Creates a trace that goes to `recorder`, if there is one.
    pub fn new(recorder: Option<Recorder>) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// Begins a call: the events that follow belong to the driver in this context.
    pub(crate) fn call(&mut self, context: &str, driver: &Task) -> Result<(), RecordError> {
        (self.calls, self.lost) = (self.calls + 1, 0);
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let promise = Promise {
            period: Some(driver.min_inter_arrival()),
            relative_deadline: Some(driver.relative_deadline()),
            wcet: Some(driver.wcet()),
        };
        let name = format!("{} as {context}", driver.name());
        let subject = Subject { promise, ..Subject::new(name, SubjectKind::Upcall) };
        recorder.subject(self.calls - 1, &subject)
    }

    /// Records the driver's events and how many of them were lost since the call began.
    pub(crate) fn events(&mut self, events: &[Event], lost: u64) -> Result<(), RecordError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let number = self.calls.saturating_sub(1);
        let of_call = |event: &Event| {
            let mut event = *event;
            event.job.task = number;
            event
        };
        let events: Vec<Event> = events.iter().map(of_call).collect();
        self.latest = events.iter().map(|event| event.at).fold(self.latest, Instant::max);
        recorder.events(&events)?;
        recorder.lost(self.latest, lost - self.lost)?;
        self.lost = lost;
        Ok(())
    }

    /// Ends the call, with these jobs released and not complete.
    pub(crate) fn left(&mut self, left: &[Backlog], at: Instant) -> Result<(), RecordError> {
        let dropped = left.iter().flat_map(|left| Event::dropped(*left, at));
        self.events(&dropped.collect::<Vec<_>>(), self.lost)
    }

    /// Ends the trace after the last call.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn end(self) -> Result<(), RecordError> {
        self.recorder.map_or(Ok(()), |recorder| recorder.end(self.latest))
    }
}
