//! The trace of channels: the events of each message that their threads report, under the numbers
//! of the grants.

use std::fmt;

use punctual_channel::server::events::Events;
use punctual_linux::clock;
use punctual_model::channel::Direction;
use punctual_model::{Instant, JobId};
use punctual_ring::spsc::Consumer;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;

/// The events of each thread that may wait to be written: half a second of the most that one can
/// carry.
const ROOM: usize = 1 << 17;

/// The events that are written in one go.
const TOGETHER: usize = 1 << 13;

/// The writer of a trace. It reports itself when it cannot write, and then does nothing more.
pub trait ChannelTrace: fmt::Debug {
    /// Declares that events of this number belong to this channel from here on.
    fn subject(&mut self, number: u32, subject: &Subject);
    /// Writes events.
    fn events(&mut self, events: &[Event]);
    /// Records that `events` more events were lost, as noticed at `at`.
    fn lost(&mut self, at: Instant, events: u64);
    /// Records that the broker ends in good order.
    fn end(&mut self, at: Instant);
}

/// Moves events from the threads to the trace.
pub(super) struct Traced {
    to: Box<dyn ChannelTrace>,
    sent: Consumer<Event>,
    received: [Consumer<Event>; 2],
    lost: u64,
    pending: Vec<Event>,
}

/// The ends for the sending thread and both receiving ones, if there is a trace.
#[derive(Default)]
pub(super) struct TraceSenders {
    pub(super) sender: Option<Events>,
    pub(super) receiver: Option<Events>,
    pub(super) best_effort: Option<Events>,
}

impl Traced {
    pub(super) fn new(to: Box<dyn ChannelTrace>) -> (Self, TraceSenders) {
        let (sender, sent) = Events::new(ROOM);
        let (receiver, received) = Events::new(ROOM);
        let (best_effort, unpromised) = Events::new(ROOM);
        let received = [received, unpromised];
        let pending = Vec::with_capacity(TOGETHER);
        let senders = TraceSenders {
            sender: Some(sender),
            receiver: Some(receiver),
            best_effort: Some(best_effort),
        };
        (Self { to, sent, received, lost: 0, pending }, senders)
    }

    /// Declares a channel that has got its queue.
    pub(super) fn attached(&mut self, id: GrantId, want: &WantedChannel) {
        let spacing = want.arrivals.min_inter_arrival();
        let promise = Promise {
            // The network's bunching is not the sender's fault.
            period: (want.direction == Direction::Send).then_some(spacing),
            relative_deadline: want.delay_bound,
            wcet: None,
        };
        let subject = Subject { promise, ..Subject::new(want.name.clone(), SubjectKind::Channel) };
        self.to.subject(number(id), &subject);
    }

    /// Writes what the threads have reported. `keys` holds the channel of each of the sender's
    /// numbers.
    pub(super) fn write(&mut self, keys: &[Option<GrantId>]) {
        while let Some(event) = self.sent.pop() {
            // A number is reused only after this.
            let Some(Some(id)) = keys.get(event.job.task as usize) else { continue };
            let job = JobId { task: number(*id), ..event.job };
            self.put(Event { job, ..event });
        }
        for thread in 0..self.received.len() {
            while let Some(event) = self.received[thread].pop() {
                self.put(event);
            }
        }
        self.flush();
        let lost = self.sent.lost() + self.received.iter().map(Consumer::lost).sum::<u64>();
        if lost > self.lost {
            self.to.lost(clock::now(), lost - self.lost);
            self.lost = lost;
        }
    }

    pub(super) fn end(&mut self, keys: &[Option<GrantId>]) {
        self.write(keys);
        self.to.end(clock::now());
    }

    fn put(&mut self, event: Event) {
        self.pending.push(event);
        if self.pending.len() == TOGETHER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.to.events(&self.pending);
            self.pending.clear();
        }
    }
}

/// Returns the number of a channel as the receiving threads use it.
fn number(id: GrantId) -> u32 {
    id.0 as u32
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("lost", &self.lost).finish_non_exhaustive()
    }
}
