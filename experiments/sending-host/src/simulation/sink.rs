//! The output of the host, beside that of the channel server's simulation.

use punctual_model::{Duration, Instant, Service};
use punctual_sim::egress::traffic::{Delays, NotAccepted, Sent};

/// The occupant of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// Work that goes before all of the sender.
    Hogs,
    /// Handlers of channels, with the changes to them.
    Channels,
    /// Handlers of best effort, with the changes to them.
    BestEffort,
    /// The link scheduler: in O1 while it interrupts, in O2 its thread, with the changes to it.
    Link,
}

/// Takes the events as they happen.
pub trait Sink {
    /// The processor was occupied by `by` in `[from, to)`. One stretch may come in several parts,
    /// in order.
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        let _ = (by, from, to);
    }
    /// A message of a channel has left.
    fn sent(&mut self, message: Sent);
    /// A message that came at `at` was refused.
    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted);
}

impl Sink for Delays {
    fn sent(&mut self, message: Sent) {
        punctual_sim::egress::traffic::Sink::sent(self, message);
    }

    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted) {
        punctual_sim::egress::traffic::Sink::refused(self, channel, at, why);
    }
}

/// The activity of processor and link in a run. A packet that is made or sent when it ends is not
/// counted; other steps are counted from their beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The length of the run.
    pub length: Duration,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent for channels.
    pub channel_bytes: u64,
    /// Bytes sent without a promise.
    pub best_effort_bytes: u64,
    /// The time in which the link was sending.
    pub link_busy: Duration,
    /// The processor time in handlers that made packets.
    pub making: Service,
    /// The processor time in changes from one to another.
    pub changing: Service,
    /// The processor time in link scheduling, without changes to its thread.
    pub link_scheduling: Service,
    /// The processor time taken by hogs.
    pub hogs: Service,
    /// Messages of channels that had not left at the end.
    pub inside: u64,
}

impl Totals {
    /// Returns the bytes a second that arrived at the other end, or zero for a run of no length.
    pub fn goodput(&self) -> u64 {
        let bytes = u128::from(self.channel_bytes) + u128::from(self.best_effort_bytes);
        let rate = (bytes * 1_000_000_000).checked_div(u128::from(self.length.as_nanos()));
        rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Returns the processor time of the sender and of hogs.
    pub fn processor_busy(&self) -> Service {
        [self.making, self.changing, self.link_scheduling, self.hogs]
            .into_iter()
            .fold(Service::ZERO, Service::saturating_add)
    }
}
