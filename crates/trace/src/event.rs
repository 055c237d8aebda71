//! The events of a run.

use alloc::vec::Vec;

use punctual_model::{Instant, JobId};

/// Something that happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// To which job.
    pub job: JobId,
    /// When that job was released.
    pub release: Instant,
    /// What.
    pub kind: Kind,
}

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its first instruction ran.
    Start,
    /// It gave way at a yield point (or was preempted, where its task is preemptible anywhere).
    GiveWay,
    /// It got the CPU back.
    Resume,
    /// It is complete.
    Complete,
}

/// Where a driver sends its events.
pub trait Sink {
    /// Takes one event. Events of one driver come in the order of their instants.
    fn record(&mut self, event: Event);
}

impl Sink for Vec<Event> {
    fn record(&mut self, event: Event) {
        self.push(event);
    }
}

/// For runs of which nobody wants a trace.
impl Sink for () {
    fn record(&mut self, _: Event) {}
}
