//! Best effort that cannot be served is discarded before it costs this thread anything.
//!
//! By an XDP policer, where there is one and packets are seen to pass it: that costs least. By a filter at
//! the socket for what still comes too fast, and for messages of several datagrams, which are kept or lost
//! together. What neither discards, the socket's own small buffer does.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use punctual_linux::net::UdpSocket;
use punctual_linux::net::filter::{Filter, Flow, PayloadByte, Verdict};
use punctual_linux::net::xdp::{Policer, Rate};
use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Duration, Instant};

use super::share::keep_one_of;
use super::terms::Terms;

/// The lowest byte of a message's number in the header of a fragment.
const NUMBER: u16 = 15;

/// Datagrams that come without one having been seen by the policer, after which it is taken not to be in
/// their way.
const UNSEEN: u64 = 64;

/// What is discarded of one channel before its socket.
#[derive(Debug)]
pub(super) struct Early {
    /// Whether messages have several datagrams.
    by_message: bool,
    /// The time between two datagrams of its contract, and how much earlier one may come.
    spacing: Duration,
    tolerance: Duration,
    /// At the socket one of so many is kept.
    kept: Option<NonZeroU32>,
    /// What the policer knows it by, at which spacing.
    flow: Option<(SocketAddr, Duration)>,
    /// Those discarded by the policer that are in the books.
    discarded: u64,
    came: u64,
    since: Instant,
}

impl Early {
    pub(super) fn new(terms: &Terms, arrivals: LinearBounded, now: Instant) -> Self {
        let datagrams = terms.datagrams(arrivals);
        let spacing = arrivals.min_inter_arrival().as_nanos() / u64::from(datagrams);
        Self {
            by_message: terms.framing == Framing::Fragments && datagrams > 1,
            spacing: Duration::from_nanos(spacing.max(1)),
            tolerance: arrivals.jitter().unwrap_or(Duration::MAX),
            kept: None,
            flow: None,
            discarded: 0,
            came: 0,
            since: now,
        }
    }

    /// Whether something is discarded at the socket.
    pub(super) fn is_filtered(&self) -> bool {
        self.kept.is_some()
    }

    /// Has its datagrams policed, one each `share`, if there is room for it.
    pub(super) fn police(&mut self, policer: &Policer, socket: &UdpSocket, share: Duration) {
        let Ok(flow) = socket.local_address() else { return };
        let spacing = self.spacing.max(share);
        let rate = Rate { spacing, tolerance: self.tolerance };
        if !self.by_message && policer.set(flow, rate).is_ok() {
            self.flow = Some((flow, spacing));
        }
    }

    /// How many the policer discarded since the last time.
    pub(super) fn count(&mut self, policer: &Policer) -> u64 {
        let counts = self.flow.and_then(|(flow, _)| policer.counts(flow).ok());
        let discarded = counts.map_or(self.discarded, |counts| counts.discarded);
        discarded.saturating_sub(std::mem::replace(&mut self.discarded, discarded))
    }

    /// Has it policed no more.
    pub(super) fn release(&mut self, policer: &Policer) {
        if let Some((flow, _)) = self.flow.take() {
            // What cannot be removed goes with the policer.
            let _ = policer.remove(flow);
        }
    }

    /// `came` datagrams came to the socket since the last look, and one may be served each `share`. What
    /// the kernel refuses is tried again: until then the socket's buffer does it.
    pub(super) fn look(
        &mut self,
        socket: &UdpSocket,
        policer: Option<&Policer>,
        now: Instant,
        share: Duration,
        came: u64,
    ) {
        let spacing = self.spacing.max(share);
        let served = now.saturating_since(self.since) / spacing;
        self.since = now;
        self.came += came;
        if let (Some((flow, before)), Some(policer)) = (self.flow, policer) {
            let unseen = policer.counts(flow).is_ok_and(|counts| counts.passed == 0);
            if unseen && self.came >= UNSEEN {
                self.release(policer);
            } else if before != spacing {
                self.police(policer, socket, share);
            }
        }
        let wanted = keep_one_of(came, served, self.kept);
        if wanted != self.kept && self.set(socket, wanted).is_some() {
            self.kept = wanted;
        }
    }

    fn set(&self, socket: &UdpSocket, kept: Option<NonZeroU32>) -> Option<()> {
        let Some(many) = kept else { return socket.detach().ok() };
        let filter = if self.by_message {
            // The messages whose numbers are multiples of a power of two, up to that of a byte.
            let mask = (many.get().min(128).next_power_of_two() - 1) as u8;
            let byte = Some(PayloadByte { at: NUMBER, mask, value: 0 });
            let flow = Flow { byte, ..Flow::default() };
            Filter::new(Verdict::Drop).rule(flow, Verdict::Keep)
        } else {
            Filter::new(Verdict::KeepOneOf(many))
        };
        socket.attach(&filter.compile(socket.is_v6()).ok()?).ok()
    }
}
