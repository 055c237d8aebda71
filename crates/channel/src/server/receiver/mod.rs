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
mod error;
mod fragments;
mod run_loop;
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
use punctual_model::Instant;
use punctual_policy::ingress::Order;
pub use punctual_policy::ingress::QUANTUM;
use rustix::io::Errno;

use crate::server::events::Events;

pub use channel::{Channel, Opening};
pub use error::{Ended, OpenError};
pub use run_loop::Turn;
pub use terms::Terms;
use watch::{Report, Watch};

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

/// A channel of a receiver: its place, and the number of channels that had the place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    at: u32,
    generation: u32,
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
}

/// Readable when something came: for a caller that waits for other things too, and then calls
/// [`wait`](Receiver::wait) without waiting.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
