//! What comes out of the host, beside what comes out of the channel server's simulation.

use punctual_model::{Duration, Instant, Service};
use punctual_sim::egress::sink::{Delays, NotAccepted, Sent};

/// Who has the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// What goes before all of the sender.
    Hogs,
    /// Handlers of channels, with the changes to them.
    Channels,
    /// Handlers of what is promised nothing, with the changes to them.
    BestEffort,
    /// The link scheduler: in O1 while it interrupts, in O2 its thread, with the changes to it.
    Link,
}

/// Takes what happens, as it happens.
pub trait Sink {
    /// The processor was `by`'s in `[from, to)`. One stretch may come in several parts, in order.
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        let _ = (by, from, to);
    }
    /// A message of a channel has left.
    fn sent(&mut self, message: Sent);
    /// A message that came at `at` was not let in.
    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted);
}

impl Sink for Delays {
    fn sent(&mut self, message: Sent) {
        punctual_sim::egress::sink::Sink::sent(self, message);
    }

    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted) {
        punctual_sim::egress::sink::Sink::refused(self, channel, at, why);
    }
}

/// What processor and link did in a run. A packet that is made or sent when it ends is not counted,
/// other steps are from when they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How long the run was.
    pub length: Duration,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent for channels.
    pub channel_bytes: u64,
    /// Bytes sent without a promise.
    pub best_effort_bytes: u64,
    /// The link was sending.
    pub link_busy: Duration,
    /// Processor time in handlers that made packets.
    pub making: Service,
    /// In changes from one to another.
    pub changing: Service,
    /// In link scheduling, without changes to its thread.
    pub link_scheduling: Service,
    /// Taken by hogs.
    pub hogs: Service,
    /// Messages of channels that had not left at the end.
    pub inside: u64,
}

impl Totals {
    /// Bytes a second that arrived at the other end; zero for a run of no length.
    pub fn goodput(&self) -> u64 {
        let bytes = u128::from(self.channel_bytes) + u128::from(self.best_effort_bytes);
        let rate = (bytes * 1_000_000_000).checked_div(u128::from(self.length.as_nanos()));
        rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Processor time of the sender and of hogs.
    pub fn processor_busy(&self) -> Service {
        [self.making, self.changing, self.link_scheduling, self.hogs]
            .into_iter()
            .fold(Service::ZERO, Service::saturating_add)
    }
}
