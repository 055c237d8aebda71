//! One channel, as its receiver knows it.

use std::sync::Arc;

use punctual_linux::net::early::EarlyPolicer;
use punctual_linux::net::{Arrival, Stamps, UdpSocket, WallOffset};
use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::{Police, QUANTUM, Urgency};
use punctual_ring::frames::Wake;

use super::early::{Early, Seen};
use super::error::{Ended, OpenError};
use super::terms::Terms;
use super::watch::Telling;
use crate::account::{Receipts, ReceivedAccount};
use crate::fragment::Reassembly;
use crate::rings::Puts;
use crate::server::ringer::Notifier;

/// Everything that a receiver needs to receive on a channel. Made by the side that decides, for it
/// takes time: memory for fragments, and the socket's options.
#[derive(Debug)]
pub struct Opening {
    pub(super) terms: Terms,
    pub(super) arrivals: LinearBounded,
    pub(super) socket: UdpSocket,
    pub(super) puts: Puts,
    pub(super) bell: Notifier,
    pub(super) receipts: Receipts,
    /// Of fragments.
    pub(super) reassembly: Option<Reassembly>,
}

impl Opening {
    /// From a socket of its own, bound where it listens and connected if it hears one peer only, to a
    /// client's ring.
    ///
    /// # Errors
    /// If the traffic cannot be policed, the ring's slots are too small, or the socket has not what is
    /// needed (SO_MEMINFO: Linux 4.12).
    pub fn new(
        terms: Terms,
        socket: UdpSocket,
        puts: Puts,
        bell: Notifier,
    ) -> Result<Self, OpenError> {
        let arrivals = terms.arrivals()?;
        let (bytes, wanted) = (puts.geometry().max_message(), arrivals.max_message());
        if bytes < wanted {
            return Err(OpenError::SlotsTooSmall { bytes, wanted });
        }
        // So that a message counts when it came and not when it was read.
        socket.set_stamps(Stamps { receive: true, ..Stamps::default() })?;
        socket.set_receive_buffer(terms.socket_bytes(arrivals))?;
        // Whether losses can be counted is known before there are any.
        socket.drops()?;
        let fragments = terms.framing == Framing::Fragments;
        let reassembly = fragments.then(|| Reassembly::new(terms.limits(arrivals)));
        let receipts = Receipts::new(fragments);
        Ok(Self { terms, arrivals, socket, puts, bell, receipts, reassembly })
    }

    /// What becomes of its messages.
    pub fn account(&self) -> &Arc<ReceivedAccount> {
        self.receipts.account()
    }

    /// How its socket tells when nobody waits for anything.
    pub(super) fn reporting(&self) -> Telling {
        if self.terms.delay_bound.is_some() { Telling::Always } else { Telling::Once }
    }
}

/// What an [`Opening`] has become. It is given back when the channel is closed, because to take it apart
/// takes time.
#[derive(Debug)]
pub struct Channel {
    pub(super) id: u64,
    pub(super) opening: Opening,
    pub(super) police: Police,
    pub(super) early: Early,
    /// Whether it waits for its turn.
    pub(super) queued: bool,
    /// Whether it is looked at again at some instant, and not before.
    pub(super) paused: bool,
    /// How its socket tells that something came.
    pub(super) reporting: Telling,
    /// When it had its last turn.
    served_at: Instant,
    /// How long it waits for room in its ring, if there is none the next time either.
    patience: Duration,
    /// Whether it had to wait for room since it was last tended to.
    held: bool,
    /// Whether it will be tended to at some instant.
    pub(super) tended: bool,
    /// What is not read yet came at this instant or later.
    pub(super) floor: Instant,
    /// Datagrams read.
    came: u64,
    /// Those when it was last tended to.
    came_before: u64,
    /// Drops of the socket that are in the books, modulo 2³².
    drops: u32,
    /// Messages received, ever.
    messages: u64,
    /// When those of this turn came; at most as many as datagrams are read in one.
    resided: Vec<Instant>,
}

/// When a turn is, and how stamps become instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    pub(super) wall: Option<WallOffset>,
}

/// What a turn of a channel came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) read: u32,
    /// Nothing was left in the socket.
    pub(super) drained: bool,
    /// There was no room in the ring, and nothing was promised.
    pub(super) held: bool,
    pub(super) ended: Option<Ended>,
}

/// How a channel goes on after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There is more: it waits for its next turn.
    Turn(Urgency),
    /// It is looked at again then, whatever comes.
    Pause(Instant),
    /// Its socket tells.
    Rest,
}

/// While best effort comes in all the time, its sockets are looked at so often, and arrivals wake nobody.
const PAUSE: Duration = Duration::from_millis(1);

/// How long best effort waits at most for room in its ring before it is looked at again.
const MOST_PATIENCE: Duration = Duration::from_millis(16);

impl Channel {
    pub(super) fn new(id: u64, opening: Opening, now: Instant) -> Self {
        let police = Police::new(opening.terms.ingress(opening.arrivals));
        let reporting = opening.reporting();
        // What was dropped before there was a channel is not in its books.
        let drops = opening.socket.drops().unwrap_or(0);
        Self {
            id,
            police,
            early: Early::new(&opening.terms, opening.arrivals, now),
            opening,
            queued: false,
            paused: false,
            reporting,
            served_at: Instant::ZERO,
            patience: PAUSE,
            held: false,
            tended: false,
            floor: Instant::ZERO,
            came: 0,
            came_before: 0,
            drops,
            messages: 0,
            resided: Vec::with_capacity(QUANTUM as usize),
        }
    }

    /// What becomes of its messages.
    pub fn account(&self) -> &Arc<ReceivedAccount> {
        self.opening.account()
    }

    /// Where it listens.
    pub fn socket(&self) -> &UdpSocket {
        &self.opening.socket
    }

    /// To be called now and then while something happens in it. Whether it should be called again, with
    /// one datagram each `share` for each best-effort channel.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        policer: Option<&dyn EarlyPolicer>,
        share: Duration,
    ) -> bool {
        let lost = self.settle(now, policer);
        let came = self.came - std::mem::replace(&mut self.came_before, self.came);
        let opening = &self.opening;
        let held = std::mem::take(&mut self.held);
        if opening.terms.delay_bound.is_none() {
            let seen = Seen { now, share, read: came, lost, held };
            self.early.look(&opening.socket, policer, seen);
        }
        let waits = opening.reassembly.as_ref().is_some_and(|it| it.next_give_up().is_some());
        self.queued || self.paused || came > 0 || lost > 0 || self.early.is_filtered() || waits
    }

    /// Counts what was lost up to `now`. How many datagrams came to the socket and were not kept.
    pub(super) fn settle(&mut self, now: Instant, policer: Option<&dyn EarlyPolicer>) -> u64 {
        let lost = self.tally();
        if let Some(policer) = policer {
            let discarded = self.early.count(policer);
            self.opening.receipts.not_kept(0, discarded);
        }
        if let Some(reassembly) = &mut self.opening.reassembly {
            if !self.queued && !self.paused {
                self.floor = self.floor.max(now);
            }
            // What is missing may lie in the socket.
            reassembly.give_up(self.floor);
            self.opening.receipts.reassembly(reassembly.counts(), reassembly.open());
        }
        lost
    }

    /// Counts what the socket, or the filter before it, did not keep. How many.
    fn tally(&mut self) -> u64 {
        let drops = self.opening.socket.drops().unwrap_or(self.drops);
        let lost = u64::from(drops.wrapping_sub(self.drops));
        self.drops = drops;
        if self.early.is_filtered() {
            self.opening.receipts.not_kept(0, lost);
        } else {
            self.opening.receipts.not_kept(lost, 0);
        }
        lost
    }

    /// What is next after a turn at `now`.
    pub(super) fn after(&mut self, now: Instant, served: &Served) -> Next {
        let often = now.saturating_since(self.served_at) < PAUSE + PAUSE && served.read > 0;
        self.served_at = now;
        if served.held {
            self.held = true;
            // A client that takes something is looked at soon.
            let patience = if served.read == 0 { self.patience } else { PAUSE };
            self.patience = (patience + patience).min(MOST_PATIENCE);
            return Next::Pause(now.saturating_add(patience));
        }
        self.patience = PAUSE;
        if served.drained {
            self.floor = self.floor.max(now);
        }
        match self.police.urgency(now, self.floor) {
            Urgency::Later if served.drained && often => Next::Pause(now.saturating_add(PAUSE)),
            _ if served.drained => Next::Rest,
            urgency => Next::Turn(urgency),
        }
    }

    /// A datagram was read. When it came: by the kernel's stamp, as far as that can be true. A stamp in the future is
    /// of a datagram that came during this turn, or of a clock that was set.
    pub(super) fn arrived(&mut self, clocks: &Clocks, arrival: &Arrival) -> Instant {
        self.came += 1;
        self.opening.receipts.arrived();
        let stamp = arrival.stamp.zip(clocks.wall);
        let stamp = stamp.and_then(|(stamp, wall)| wall.monotonic(stamp));
        self.floor = stamp.map_or(clocks.now, |at| at.min(clocks.now)).max(self.floor);
        self.floor
    }

    /// Shows the client what was put into its ring, and wakes it if it sleeps.
    pub(super) fn publish(&mut self) {
        if self.opening.puts.publish() == Wake::Ring {
            self.opening.bell.ring();
        }
    }

    /// A whole message came at `arrived` and is in the ring.
    pub(super) fn received(&mut self, bytes: u32, now: Instant, arrived: Instant) {
        let receipts = &mut self.opening.receipts;
        receipts.message(bytes, crate::account::Outcome::Received);
        receipts.resided(now.saturating_since(arrived));
        self.messages += 1;
        if self.resided.len() < self.resided.capacity() {
            self.resided.push(arrived);
        }
    }

    /// The messages of this turn, by their numbers, and when each came.
    pub(super) fn of_this_turn(&mut self) -> impl Iterator<Item = (u64, Instant)> {
        let first = self.messages - self.resided.len() as u64;
        (first..).zip(self.resided.drain(..))
    }
}

/// How long a message was on its way, if that can be known.
pub(super) fn delay(sent: Option<Instant>, arrived: Instant) -> Option<Duration> {
    sent.filter(|sent| *sent <= arrived).map(|sent| arrived.saturating_since(sent))
}
