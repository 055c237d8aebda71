//! Events of each message, for a trace. A thread that carries channels records them in a queue that
//! never blocks it, and the writer of the trace takes them out.

use std::fmt;

use punctual_model::{Instant, JobId};
use punctual_ring::spsc::{self, Consumer, Producer};
use punctual_trace::{Event, Kind};

/// The queue's end in the carrying thread.
pub struct Events(Producer<Event>);

impl Events {
    /// Creates a queue with room for `room` events. Events that find no room are counted as lost.
    pub fn new(room: usize) -> (Self, Consumer<Event>) {
        let (producer, consumer) = spsc::channel(room);
        (Self(producer), consumer)
    }

    /// Records that `kind` happened at `at` to message `index` of channel `task`, which arrived at
    /// `release`.
    pub(super) fn record(
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
