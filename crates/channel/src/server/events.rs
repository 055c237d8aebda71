//! What happens to each message, for a trace: a thread that carries channels tells it through a queue
//! that never holds it up, and whoever writes the trace takes it out.

use std::fmt;

use punctual_model::{Instant, JobId};
use punctual_ring::spsc::{self, Consumer, Producer};
use punctual_trace::{Event, Kind};

/// The end of the thread that carries.
pub struct Events(Producer<Event>);

impl Events {
    /// With room for so many that nobody has taken yet. What finds none is counted as lost.
    pub fn new(room: usize) -> (Self, Consumer<Event>) {
        let (producer, consumer) = spsc::channel(room);
        (Self(producer), consumer)
    }

    /// `kind` happened at `at` to message `index` of channel `task`, which arrived at `release`.
    pub(super) fn tell(
        &mut self,
        at: Instant,
        (task, index): (u32, u64),
        release: Instant,
        kind: Kind,
    ) {
        self.0.push(Event { at, job: JobId { task, index }, release, kind });
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
