//! Receives the messages of many channels, each from a socket of its own into its client's ring.
//!
//! ```text
//! sockets ─▶ epoll ─▶ order ─┬▶ datagrams: kernel ─▶ slot ───────────┬▶ publish ─▶ bell
//!    ▲     (what came)       └▶ fragments: kernel ─▶ reassembly ─▶ slot ┘
//!    └── early: filter, where more best effort comes than is read
//! ```
//! It takes the time from its caller; [`thread`] drives it on Linux. A turn serves one channel and
//! reads at most [`QUANTUM`] datagrams, so that a more urgent channel waits for no more than that:
//!
//! - Guaranteed channels are served by the deadline of the datagrams in them, as far as that is
//!   known. If the kernel has just reported the first datagram, its deadline is the delay bound
//!   from then on. Behind a datagram that was read, it is the delay bound from that one's arrival
//!   on. No more datagrams are read of a channel than admission charged for it; once that many are
//!   read, it pauses until its regulator lets it read another.
//! - Best effort is served in turn, when no guaranteed channel has anything, and no more than its
//!   rings have room for. A broker has it received by an ordinary thread, so that it takes nothing
//!   from what was admitted.
//!
//! A paused channel, and best effort that keeps coming, does not wake the thread: it is looked at
//! when it may read again, or a millisecond later.
//!
//! # Power of a hostile sender or client
//! A sender can cause as many reads of its channel as its contract was charged for, and no more:
//! what it sends beyond that waits in its socket, or is dropped there. A client that does not read
//! loses its own messages. A ring that is inconsistent ends its own channel.
//!
//! [`punctual_policy::ingress`] decides which channel has its turn, how many datagrams that may read,
//! and which of them conform.
//! The discarding before the socket is that of Druschel and Banga, "Lazy Receiver Processing", OSDI
//! 1996, section 3, and of L4ATM's early demultiplexing.

mod channel;
mod datagrams;
mod early;
mod fragments;
mod terms;
#[cfg(test)]
mod tests;
pub mod thread;
mod watch;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::{AsFd, BorrowedFd};

use punctual_linux::net::early::EarlyPolicer;
use punctual_linux::net::{Inbox, WallOffset};
use punctual_model::channel::Framing;
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::{Order, Urgency};
use punctual_trace::Kind;
use rustix::io::Errno;

use crate::server::events::Events;
use channel::{Clocks, Next};
use watch::{Report, Reporting, Seat, Watch};

pub use channel::{Channel, Opening};
pub use punctual_policy::ingress::QUANTUM;
pub use terms::{Ended, OpenError, Terms};

/// The interval at which an active channel is tended: losses are counted, incomplete messages given
/// up, and the filter of best effort set.
const TENDING: Duration = Duration::from_millis(100);

/// The number of channels that are tended in one go.
const TENDED_AT_A_GO: usize = 16;

/// Receives on many channels.
#[derive(Debug)]
pub struct Receiver {
    places: Vec<Place>,
    free: Vec<u32>,
    seats: BTreeMap<u64, Seat>,
    watch: Watch,
    order: Order<Seat>,
    tending: BinaryHeap<Reverse<(Instant, Seat)>>,
    /// Paused channels, by the instants at which they are looked at again.
    pauses: BinaryHeap<Reverse<(Instant, Seat)>>,
    reports: Vec<Report>,
    policer: Option<Box<dyn EarlyPolicer>>,
    inbox: Inbox,
    wall: Option<WallOffset>,
    /// The queue for events of each message, if there is one.
    events: Option<Events>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    channel: Option<Box<Channel>>,
}

impl Receiver {
    /// Creates a receiver without channels. Those without a promise take everything that the others
    /// leave: a thread whose class is above others' must not have any.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left (epoll_create(2)).
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            places: Vec::new(),
            free: Vec::new(),
            seats: BTreeMap::new(),
            watch: Watch::new()?,
            order: Order::default(),
            tending: BinaryHeap::new(),
            pauses: BinaryHeap::new(),
            reports: Vec::new(),
            policer: None,
            inbox: Inbox::new(QUANTUM as usize, 1 << 16),
            wall: None,
            events: None,
        })
    }

    /// Records each message that is received from here on: as a job of a task whose number is the
    /// lower half of the channel's, released when it came to this host.
    pub fn tell_events(&mut self, events: Events) {
        self.events = Some(events);
    }

    /// Has best effort that is opened from here on policed before it costs anything, on the
    /// interfaces to which the policer is attached. Packets that come another way are discarded at
    /// the socket.
    pub fn police_by(&mut self, policer: Box<dyn EarlyPolicer>) {
        self.policer = Some(policer);
    }

    /// Returns the policer given to [`police_by`](Self::police_by).
    pub fn policer(&self) -> Option<&dyn EarlyPolicer> {
        self.policer.as_deref()
    }

    /// Receives on a channel from here on. `id` is the caller's number for it.
    ///
    /// # Errors
    /// Returns an error if there is a channel with this number, or its socket cannot be watched;
    /// the opening is dropped then.
    pub fn open(&mut self, now: Instant, id: u64, opening: Opening) -> Result<(), OpenError> {
        if self.seats.contains_key(&id) {
            return Err(OpenError::Taken { id });
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, channel: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        let seat = Seat { at, generation: place.generation };
        let reporting = opening.reporting();
        if let Err(errno) = self.watch.add(seat, &opening.socket, reporting) {
            self.free.push(at);
            return Err(OpenError::Watch(errno));
        }
        let place = &mut self.places[at as usize];
        let mut channel = Box::new(Channel::new(id, opening, now));
        if let (None, Some(policer)) = (channel.opening.terms.delay_bound, self.policer.as_deref())
        {
            channel.early.police(policer, &channel.opening.socket);
        }
        place.channel = Some(channel);
        self.seats.insert(id, seat);
        let channels = self.places.len();
        self.order.reserve(channels);
        self.tending.reserve(channels.saturating_sub(self.tending.len()));
        self.pauses.reserve(channels.saturating_sub(self.pauses.len()));
        // Datagrams may have come between binding the socket and this instant.
        self.came(now, seat);
        Ok(())
    }

    /// Stops receiving on a channel; datagrams in its socket are lost with it. Returns `None` if
    /// there is no such channel, or it has ended by itself.
    pub fn close(&mut self, now: Instant, id: u64) -> Option<Box<Channel>> {
        let seat = self.seats.remove(&id)?;
        let place = &mut self.places[seat.at as usize];
        // An event has room for 31 bits.
        place.generation = (place.generation + 1) & (u32::MAX >> 1);
        let mut channel = place.channel.take()?;
        self.watch.remove(&channel.opening.socket);
        self.free.push(seat.at);
        channel.settle(now, self.policer.as_deref());
        if let Some(policer) = self.policer.as_deref() {
            channel.early.release(policer);
        }
        Some(channel)
    }

    /// Returns an open channel.
    pub fn get(&self, id: u64) -> Option<&Channel> {
        self.places[self.seats.get(&id)?.at as usize].channel.as_deref()
    }

    /// Sets the offset of the clock by which the kernel stamps arrivals. Until the first call, and
    /// from a call to the next if the clock was set, messages count as having come when they were
    /// read.
    pub fn set_wall(&mut self, wall: WallOffset) {
        let same = self.wall.is_none_or(|before| before.holds(&wall));
        self.wall = same.then_some(wall);
    }

    /// Has [`wait`](Self::wait) return while this is readable, too: for orders.
    ///
    /// # Errors
    /// Returns an error if it cannot be watched (epoll_ctl(2)).
    pub fn wake_for(&self, call: BorrowedFd<'_>) -> Result<(), Errno> {
        self.watch.add_orders(call)
    }

    /// Waits until something comes, or until the instant. Returns whether the descriptor given to
    /// [`wake_for`](Self::wake_for) is readable. Reads `clock` once it has waited.
    pub fn wait(&mut self, until: Instant, clock: impl Fn() -> Instant) -> bool {
        let mut reports = std::mem::take(&mut self.reports);
        self.watch.wait(until, &mut reports);
        let now = clock();
        let mut ordered = false;
        for report in reports.drain(..) {
            match report {
                Report::Readable(seat) => self.readable(now, seat),
                Report::Ordered => ordered = true,
            }
        }
        self.reports = reports;
        ordered
    }

    /// Does the most urgent thing at `now`, which never goes back.
    pub fn turn(&mut self, now: Instant) -> Turn {
        self.tend(now);
        self.end_pauses(now);
        while let Some(seat) = self.order.next_turn() {
            // A channel that was closed meanwhile is skipped.
            if let Some(turn) = self.serve(now, seat) {
                return turn;
            }
        }
        let next = [&self.tending, &self.pauses];
        let next = next.iter().filter_map(|heap| heap.peek().map(|Reverse((at, _))| *at));
        Turn::Idle(next.min())
    }

    fn channel(&mut self, seat: Seat) -> Option<&mut Channel> {
        let place = self.places.get_mut(seat.at as usize)?;
        place.channel.as_deref_mut().filter(|_| place.generation == seat.generation)
    }

    /// Notes the kernel's report that a socket has something.
    fn readable(&mut self, now: Instant, seat: Seat) {
        let Some(channel) = self.channel(seat) else { return };
        if channel.reporting == Reporting::Once {
            channel.reporting = Reporting::Never;
        }
        self.came(now, seat);
    }

    /// Queues a channel that may have something.
    fn came(&mut self, now: Instant, seat: Seat) {
        let Some(channel) = self.channel(seat) else { return };
        if channel.queued || channel.paused {
            return;
        }
        let tended = std::mem::replace(&mut channel.tended, true);
        match channel.most(now) {
            Ok(_) => {
                channel.queued = true;
                let urgency = channel.urgency(now);
                self.order.add(seat, urgency);
            }
            Err(again) => self.pause(seat, again),
        }
        if !tended {
            self.tending.push(Reverse((now.saturating_add(TENDING), seat)));
        }
    }

    /// Leaves a channel alone until that instant: its socket reports nothing meanwhile.
    fn pause(&mut self, seat: Seat, until: Instant) {
        let Some(channel) = self.places[seat.at as usize].channel.as_deref_mut() else { return };
        channel.paused = true;
        self.pauses.push(Reverse((until, seat)));
        report_by(&self.watch, seat, channel, Reporting::Never);
    }

    /// Queues the channels whose pauses are over.
    fn end_pauses(&mut self, now: Instant) {
        while self.pauses.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, seat))) = self.pauses.pop() else { return };
            let Some(channel) = self.channel(seat) else { continue };
            channel.paused = false;
            self.came(now, seat);
        }
    }

    /// Serves a channel that waited for its turn, or returns `None` if the channel is closed.
    fn serve(&mut self, now: Instant, seat: Seat) -> Option<Turn> {
        let clocks = Clocks { now, wall: self.wall };
        let place = self.places.get_mut(seat.at as usize)?;
        let channel = place.channel.as_deref_mut()?;
        if place.generation != seat.generation {
            return None;
        }
        channel.queued = false;
        // It was queued when it might read one.
        let most = channel.most(now).unwrap_or(1);
        let served = match channel.opening.terms.framing {
            Framing::Datagram => datagrams::serve(channel, &clocks, most),
            Framing::Fragments => fragments::serve(channel, &clocks, most, &mut self.inbox),
        };
        let id = channel.id;
        // The number's lower half identifies as many channels as were ever granted.
        let task = id as u32;
        for (index, release) in channel.of_this_turn() {
            if let Some(events) = &mut self.events {
                events.record(now, (task, index), release, Kind::Complete);
            }
        }
        if let Some(ended) = served.ended {
            return Some(Turn::Ended(id, self.close(now, id)?, ended));
        }
        let next = channel.after(now, &served);
        // A channel that waits for more than its turn is not reported; one that rests is.
        let reporting = match next {
            Next::Turn(Urgency::By(_)) | Next::Rest => channel.opening.reporting(),
            Next::Turn(Urgency::Later) | Next::Pause(_) => Reporting::Never,
        };
        report_by(&self.watch, seat, channel, reporting);
        match next {
            Next::Turn(urgency) => {
                channel.queued = true;
                self.order.add(seat, urgency);
            }
            Next::Pause(until) => {
                channel.paused = true;
                self.pauses.push(Reverse((until, seat)));
            }
            Next::Rest => {}
        }
        Some(Turn::Served(id))
    }

    /// Tends the active channels that are due.
    fn tend(&mut self, now: Instant) {
        for _ in 0..TENDED_AT_A_GO {
            let due = self.tending.peek().is_some_and(|Reverse((at, _))| *at <= now);
            let Some(Reverse((_, seat))) = due.then(|| self.tending.pop()).flatten() else {
                return;
            };
            let Some(place) = self.places.get_mut(seat.at as usize) else { continue };
            let Some(channel) = place.channel.as_deref_mut() else { continue };
            if place.generation != seat.generation {
                continue;
            }
            channel.tended = channel.tend(now, self.policer.as_deref());
            if channel.tended {
                self.tending.push(Reverse((now.saturating_add(TENDING), seat)));
            }
        }
    }
}

/// Readable when something came: for a caller that waits for other things too, and then calls
/// [`wait`](Receiver::wait) without waiting.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The outcome of a turn.
#[must_use]
#[derive(Debug)]
pub enum Turn {
    /// A channel had its turn: call again.
    Served(u64),
    /// A channel ended by itself and is closed. It is given back so that it is destroyed elsewhere.
    /// Call again.
    Ended(u64, Box<Channel>, Ended),
    /// There is nothing to do until something comes, or until this instant.
    Idle(Option<Instant>),
}

/// Changes how the socket of a channel reports that something came.
fn report_by(watch: &Watch, seat: Seat, channel: &mut Channel, reporting: Reporting) {
    if reporting != channel.reporting {
        channel.reporting = reporting;
        watch.set(seat, &channel.opening.socket, reporting);
    }
}
