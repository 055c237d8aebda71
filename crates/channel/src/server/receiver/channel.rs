//! The receiver's state of one channel.

use std::sync::Arc;

use punctual_linux::net::early::EarlyPolicer;
use punctual_linux::net::{Arrival, Stamps, UdpSocket, WallOffset};
use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::{Police, QUANTUM, Regulator, Urgency};
use punctual_ring::frames::Wake;

use super::early::{Early, Seen};
use super::terms::{Ended, OpenError, Terms};
use super::watch::Reporting;
use crate::account::{Receipts, ReceivedAccount};
use crate::fragment::Reassembly;
use crate::rings::Puts;
use crate::server::ringer::Notifier;

/// Everything that a receiver needs to receive on a channel. The control side creates it, because
/// that takes time: memory for fragments, and the socket's options.
#[derive(Debug)]
pub struct Opening {
    pub(super) terms: Terms,
    pub(super) arrivals: LinearBounded,
    pub(super) socket: UdpSocket,
    pub(super) puts: Puts,
    pub(super) bell: Notifier,
    pub(super) receipts: Receipts,
    /// Present if the messages come in fragments.
    pub(super) reassembly: Option<Reassembly>,
}

impl Opening {
    /// Creates an opening from a socket of its own to a client's ring. The socket is bound to the
    /// listening address, and connected if it receives from one peer only.
    ///
    /// # Errors
    /// Returns an error if the traffic cannot be policed, the ring's slots are too small, or the
    /// socket lacks an option (SO_MEMINFO: Linux 4.12).
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
        // With stamps, a message counts from when it came and not from when it was read.
        socket.set_stamps(Stamps { receive: true, ..Stamps::default() })?;
        socket.set_receive_buffer(terms.socket_bytes(arrivals))?;
        // This checks that losses can be counted before there are any.
        socket.drops()?;
        let fragments = terms.framing == Framing::Fragments;
        let reassembly = fragments.then(|| Reassembly::new(terms.limits(arrivals)));
        let receipts = Receipts::new(fragments);
        Ok(Self { terms, arrivals, socket, puts, bell, receipts, reassembly })
    }

    /// Returns the account of its messages.
    pub fn account(&self) -> &Arc<ReceivedAccount> {
        self.receipts.account()
    }

    /// Returns how its socket reports while nothing is queued.
    pub(super) fn reporting(&self) -> Reporting {
        if self.terms.delay_bound.is_some() { Reporting::Always } else { Reporting::Once }
    }
}

/// An open channel. It is given back when the channel is closed, because destroying it takes time.
#[derive(Debug)]
pub struct Channel {
    pub(super) id: u64,
    pub(super) opening: Opening,
    pub(super) police: Police,
    /// The limit on what is read, unless nothing was promised.
    pub(super) regulator: Option<Regulator>,
    pub(super) early: Early,
    /// True while it waits for its turn.
    pub(super) queued: bool,
    /// True while it is paused: it is looked at again at some instant, and not before.
    pub(super) paused: bool,
    /// The way in which its socket reports that something came.
    pub(super) reporting: Reporting,
    /// The time at which it had its last turn.
    served_at: Instant,
    /// The time that it waits for room in its ring if there is none the next time either.
    patience: Duration,
    /// True if it had to wait for room since it was last tended.
    held: bool,
    /// True if its socket was found empty since it was last tended.
    drained: bool,
    /// True if it will be tended at some instant.
    pub(super) tended: bool,
    /// The earliest time at which unread datagrams came.
    pub(super) floor: Instant,
    /// The number of datagrams read.
    came: u64,
    /// That number when it was last tended.
    came_before: u64,
    /// The socket's drops that the account includes, modulo 2³².
    drops: u32,
    /// The number of all messages received.
    messages: u64,
    /// The time at which the messages of this turn came; at most as many as datagrams are read in
    /// one.
    resided: Vec<Instant>,
}

/// The time of a turn, and the offset by which stamps become instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    pub(super) wall: Option<WallOffset>,
}

/// The outcome of a channel's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) read: u32,
    /// True if nothing was left in the socket.
    pub(super) drained: bool,
    /// True if the ring was full and nothing was promised.
    pub(super) held: bool,
    pub(super) ended: Option<Ended>,
}

/// The continuation of a channel after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There is more: the channel waits for its next turn.
    Turn(Urgency),
    /// The channel is looked at again at that instant, whatever comes.
    Pause(Instant),
    /// The channel waits for its socket to report.
    Rest,
}

/// The interval at which best-effort sockets are looked at while datagrams keep coming; arrivals do
/// not wake the thread then.
const PAUSE: Duration = Duration::from_millis(1);

/// The longest time that best effort waits for room in its ring before it is looked at again.
const MOST_PATIENCE: Duration = Duration::from_millis(16);

impl Channel {
    pub(super) fn new(id: u64, opening: Opening, now: Instant) -> Self {
        let terms = opening.terms.ingress(opening.arrivals);
        let reporting = opening.reporting();
        // Datagrams dropped before the channel existed are not in its account.
        let drops = opening.socket.drops().unwrap_or(0);
        Self {
            id,
            police: Police::new(terms),
            regulator: Regulator::of(&terms),
            early: Early::new(&opening.terms, opening.arrivals, now),
            opening,
            queued: false,
            paused: false,
            reporting,
            served_at: Instant::ZERO,
            patience: PAUSE,
            held: false,
            drained: false,
            tended: false,
            floor: Instant::ZERO,
            came: 0,
            came_before: 0,
            drops,
            messages: 0,
            resided: Vec::with_capacity(QUANTUM as usize),
        }
    }

    /// Returns the account of its messages.
    pub fn account(&self) -> &Arc<ReceivedAccount> {
        self.opening.account()
    }

    /// Returns its socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.opening.socket
    }

    /// Tends the channel: settles its losses and adjusts early discarding. Called now and then
    /// while something happens in it. Returns whether it should be called again.
    pub(super) fn tend(&mut self, now: Instant, policer: Option<&dyn EarlyPolicer>) -> bool {
        let lost = self.settle(now, policer);
        let came = self.came - std::mem::replace(&mut self.came_before, self.came);
        let opening = &self.opening;
        let (held, drained) = (std::mem::take(&mut self.held), std::mem::take(&mut self.drained));
        if opening.terms.delay_bound.is_none() {
            let behind = held || (!drained && lost > 0);
            let seen = Seen { now, read: came, lost, behind };
            self.early.look(&opening.socket, policer, seen);
        }
        let waits = opening.reassembly.as_ref().is_some_and(|it| it.next_give_up().is_some());
        self.queued || self.paused || came > 0 || lost > 0 || self.early.is_filtered() || waits
    }

    /// Counts the losses up to `now`. Returns how many datagrams came to the socket and were
    /// dropped.
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
            // A missing fragment may still be in the socket.
            reassembly.give_up(self.floor);
            self.opening.receipts.reassembly(reassembly.counts(), reassembly.open());
        }
        lost
    }

    /// Counts the datagrams that the socket, or the filter before it, dropped. Returns their
    /// number.
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

    /// Returns the continuation after a turn at `now`.
    pub(super) fn after(&mut self, now: Instant, served: &Served) -> Next {
        let often = now.saturating_since(self.served_at) < PAUSE + PAUSE && served.read > 0;
        self.served_at = now;
        self.drained |= served.drained;
        if served.held {
            self.held = true;
            // If the client takes something, the channel is looked at soon.
            let patience = if served.read == 0 { self.patience } else { PAUSE };
            self.patience = (patience + patience).min(MOST_PATIENCE);
            return Next::Pause(now.saturating_add(patience));
        }
        self.patience = PAUSE;
        if served.drained {
            self.floor = self.floor.max(now);
        }
        if let Some(regulator) = &mut self.regulator {
            regulator.read(now, served.read);
        }
        match self.urgency(self.floor) {
            Urgency::Later if served.drained && often => Next::Pause(now.saturating_add(PAUSE)),
            _ if served.drained => Next::Rest,
            urgency => match self.most(now) {
                Ok(_) => Next::Turn(urgency),
                Err(again) => Next::Pause(again),
            },
        }
    }

    /// Returns the urgency of a message that came at `arrived`.
    pub(super) fn urgency(&self, arrived: Instant) -> Urgency {
        Urgency::within(self.opening.terms.delay_bound, arrived)
    }

    /// Returns how many datagrams its regulator lets it read at `now`, or when it may read one.
    pub(super) fn most(&self, now: Instant) -> Result<u32, Instant> {
        self.regulator.as_ref().map_or(Ok(QUANTUM), |regulator| regulator.most(now))
    }

    /// Counts a datagram that was read. Returns when it came: by the kernel's stamp, as far as that
    /// can be true. A stamp in the future belongs to a datagram that came during this turn, or to a
    /// clock that was set.
    pub(super) fn arrived(&mut self, clocks: &Clocks, arrival: &Arrival) -> Instant {
        self.came += 1;
        self.opening.receipts.arrived();
        let stamp = arrival.stamp.zip(clocks.wall);
        let stamp = stamp.and_then(|(stamp, wall)| wall.monotonic(stamp));
        self.floor = stamp.map_or(clocks.now, |at| at.min(clocks.now)).max(self.floor);
        self.floor
    }

    /// Shows new messages in the ring to the client, and wakes it if it sleeps.
    pub(super) fn publish(&mut self) {
        if self.opening.puts.publish() == Wake::Ring {
            self.opening.bell.ring();
        }
    }

    /// Counts a complete message that came at `arrived` and is in the ring.
    pub(super) fn received(&mut self, bytes: u32, now: Instant, arrived: Instant) {
        let receipts = &mut self.opening.receipts;
        receipts.message(bytes, crate::account::Outcome::Received);
        receipts.resided(now.saturating_since(arrived));
        self.messages += 1;
        if self.resided.len() < self.resided.capacity() {
            self.resided.push(arrived);
        }
    }

    /// Takes the messages of this turn: their numbers, and when each came.
    pub(super) fn of_this_turn(&mut self) -> impl Iterator<Item = (u64, Instant)> {
        let first = self.messages - self.resided.len() as u64;
        (first..).zip(self.resided.drain(..))
    }
}

/// Returns how long a message was under way, if that can be known.
pub(super) fn delay(sent: Option<Instant>, arrived: Instant) -> Option<Duration> {
    sent.filter(|sent| *sent <= arrived).map(|sent| arrived.saturating_since(sent))
}
