//! Receives the messages of many channels, each from a socket of its own into its client's ring.
//!
//! ```text
//! sockets ─▶ epoll ─▶ order ─┬▶ datagrams: kernel ─▶ slot ───────────┬▶ publish ─▶ bell
//!    ▲     (what came)       └▶ fragments: kernel ─▶ reassembly ─▶ slot ┘
//!    └── early: filter, where best effort gets more than its share
//! ```
//! It takes the time from its caller; [`thread`] turns it on Linux. A turn is of one channel and reads
//! at most [`QUANTUM`] datagrams, so that what is more urgent waits for no more than that:
//!
//! - Guaranteed channels by the deadline of what is in them, as far as that is known: of what the
//!   kernel has just told, the delay bound from then on; of what is behind a datagram that was read,
//!   from that one's arrival on.
//! - Best effort one after the other, when no guaranteed channel has anything, and no more than its
//!   share and its rings have room for. A guaranteed channel whose sender breaks its contract waits with
//!   them until it conforms. What waits so does not wake the thread: it is looked at when its share is
//!   renewed, or a millisecond later.
//!
//! # What a hostile sender or client can make it do
//! A sender: [`QUANTUM`] reads as urgent as its channel for each message that its contract allows, all
//! else as best effort. A client that does not read loses its own messages; its ring, if it makes no
//! sense, ends its own channel.
//!
//! Whose turn it is, and what conforms, is decided by [`punctual_policy::ingress`]. The discarding before the socket is
//! that of Druschel and Banga, "Lazy Receiver Processing", OSDI 1996, section 3, and of L4ATM's early demultiplexing.

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
pub use punctual_policy::ingress::{BestEffort, QUANTUM};
use rustix::io::Errno;

use crate::server::events::Events;

pub use channel::{Channel, Opening};
pub use error::{Ended, OpenError};
pub use run_loop::Turn;
pub use terms::Terms;
use watch::{Told, Watch};

/// Receives on many channels.
#[derive(Debug)]
pub struct Receiver {
    places: Vec<Place>,
    free: Vec<u32>,
    seats: BTreeMap<u64, Seat>,
    watch: Watch,
    order: Order<Seat>,
    tending: BinaryHeap<Reverse<(Instant, Seat)>>,
    /// Those that are looked at again at an instant.
    pauses: BinaryHeap<Reverse<(Instant, Seat)>>,
    told: Vec<Told>,
    /// Open channels that are promised nothing.
    unpromised: u64,
    policer: Option<Box<dyn EarlyPolicer>>,
    inbox: Inbox,
    wall: Option<WallOffset>,
    /// Who wants to know of each message.
    events: Option<Events>,
}

/// A channel of a receiver: its place, and the how-manieth it is in that place.
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
    /// Without channels. `best_effort` is what those may take that are promised nothing; `None`: all that
    /// the others leave.
    ///
    /// # Errors
    /// If no descriptor is left (epoll_create(2)).
    pub fn new(best_effort: Option<BestEffort>) -> Result<Self, Errno> {
        Ok(Self {
            places: Vec::new(),
            free: Vec::new(),
            seats: BTreeMap::new(),
            watch: Watch::new()?,
            order: Order::new(best_effort),
            tending: BinaryHeap::new(),
            pauses: BinaryHeap::new(),
            told: Vec::new(),
            unpromised: 0,
            policer: None,
            inbox: Inbox::new(QUANTUM as usize, 1 << 16),
            wall: None,
            events: None,
        })
    }

    /// Tells of each message that is received from here on: a job of a task whose number is the lower
    /// half of the channel's, released when it came to this host.
    pub fn tell_events(&mut self, events: Events) {
        self.events = Some(events);
    }

    /// Has best effort that is opened from here on policed before it costs, on the interfaces to which
    /// the policer is attached. Where its packets come another way it is discarded at the socket.
    pub fn police_by(&mut self, policer: Box<dyn EarlyPolicer>) {
        self.policer = Some(policer);
    }

    /// What was given to [`police_by`](Self::police_by).
    pub fn policer(&self) -> Option<&dyn EarlyPolicer> {
        self.policer.as_deref()
    }

    /// Receives on a channel from here on. `id` is what its caller knows it by.
    ///
    /// # Errors
    /// If there is one of that name, or its socket cannot be waited for; it is taken apart then.
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
        self.unpromised += u64::from(opening.terms.delay_bound.is_none());
        let share = self.share();
        let place = &mut self.places[at as usize];
        let mut channel = Box::new(Channel::new(id, opening, now));
        if let (None, Some(policer)) = (channel.opening.terms.delay_bound, self.policer.as_deref())
        {
            channel.early.police(policer, &channel.opening.socket, share);
        }
        place.channel = Some(channel);
        self.seats.insert(id, seat);
        let channels = self.places.len();
        self.order.reserve(channels);
        self.tending.reserve(channels.saturating_sub(self.tending.len()));
        self.pauses.reserve(channels.saturating_sub(self.pauses.len()));
        // What came between binding the socket and this instant.
        self.came(now, seat);
        Ok(())
    }

    /// Receives on it no more; what is in its socket is lost with that. `None` if there is none, or it has
    /// ended by itself.
    pub fn close(&mut self, now: Instant, id: u64) -> Option<Box<Channel>> {
        let seat = self.seats.remove(&id)?;
        let place = &mut self.places[seat.at as usize];
        // As many as an event has room for.
        place.generation = (place.generation + 1) & (u32::MAX >> 1);
        let mut channel = place.channel.take()?;
        self.watch.remove(&channel.opening.socket);
        self.unpromised -= u64::from(channel.opening.terms.delay_bound.is_none());
        self.free.push(seat.at);
        channel.settle(now, self.policer.as_deref());
        if let Some(policer) = self.policer.as_deref() {
            channel.early.release(policer);
        }
        Some(channel)
    }

    /// An open channel.
    pub fn get(&self, id: u64) -> Option<&Channel> {
        self.places[self.seats.get(&id)?.at as usize].channel.as_deref()
    }

    /// How far the clock by which the kernel stamps arrivals is ahead. Until it is told, and from one time
    /// to the next if it was set, messages count as having come when they were read.
    pub fn set_wall(&mut self, wall: WallOffset) {
        let same = self.wall.is_none_or(|before| before.holds(&wall));
        self.wall = same.then_some(wall);
    }

    /// Also wakes [`wait`](Self::wait) while this is readable. For orders.
    ///
    /// # Errors
    /// If it cannot be waited for (epoll_ctl(2)).
    pub fn wake_for(&self, call: BorrowedFd<'_>) -> Result<(), Errno> {
        self.watch.add_call(call)
    }
}

/// Readable when something came: for a caller that waits for other things too, and then calls
/// [`wait`](Receiver::wait) without waiting.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
