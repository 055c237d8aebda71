//! Watches the sockets: the kernel reports each one when something comes (EPOLLET, epoll(7)), so
//! thousands of channels cost only what arrives.
//!
//! A best-effort socket is reported once and stays silent until it is armed again (EPOLLONESHOT):
//! datagrams that cannot be read yet wake no thread. So a flood costs this thread no more than the
//! datagrams that it reads.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_linux::clock;
use punctual_linux::net::UdpSocket;
use punctual_model::{Duration, Instant};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The number of events taken at a time; the others are taken the next time.
const EVENTS: usize = 64;

/// A word that belongs to no seat.
const ORDERS: u64 = u64::MAX;

/// The longest wait that is timed to the nanosecond, which takes one more system call if something
/// comes.
const TIMED: Duration = Duration::from_millis(20);

/// The way in which a socket reports that something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporting {
    /// Reports whenever something comes.
    Always,
    /// Reports once when there is something.
    Once,
    /// Does not report.
    Never,
}

impl Reporting {
    fn flags(self) -> EventFlags {
        match self {
            Self::Always => EventFlags::IN | EventFlags::ET,
            Self::Once => EventFlags::IN | EventFlags::ONESHOT,
            // An error of the socket may still be reported, once.
            Self::Never => EventFlags::ONESHOT,
        }
    }
}

/// The watched sockets.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
}

/// A report of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// A socket has something.
    Readable(Seat),
    /// The descriptor for orders is readable.
    Ordered,
}

impl Watch {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches a socket. A receiver waits for no client, so it watches no bell.
    pub(super) fn add(
        &self,
        seat: Seat,
        socket: &UdpSocket,
        reporting: Reporting,
    ) -> Result<(), Errno> {
        let data = EventData::new_u64(word(seat));
        epoll::add(&self.epoll, socket, data, reporting.flags())
    }

    /// Stops watching a socket. Its descriptor may be open elsewhere, so closing it is not enough.
    pub(super) fn remove(&self, socket: &UdpSocket) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Reports [`Report::Ordered`] as long as `orders` is readable.
    pub(super) fn add_orders(&self, orders: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, orders, EventData::new_u64(ORDERS), EventFlags::IN)
    }

    /// Changes how a socket reports from here on; datagrams in it count as having just come.
    pub(super) fn set(&self, seat: Seat, socket: &UdpSocket, reporting: Reporting) {
        let data = EventData::new_u64(word(seat));
        // The socket is watched: it was added with the channel.
        let _ = epoll::modify(&self.epoll, socket, data, reporting.flags());
    }

    /// Waits for a report, or until the instant.
    pub(super) fn wait(&self, until: Instant, all: &mut Vec<Report>) {
        let mut left = until.saturating_since(clock::now());
        if !left.is_zero() && left <= TIMED {
            // epoll_wait(2) rounds up to a millisecond, in which a fast link brings a thousand
            // datagrams.
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            let timeout = clock::timespec(left.as_nanos());
            if rustix::event::poll(&mut fds, Some(&timeout)) == Ok(0) {
                return;
            }
            left = Duration::ZERO;
        }
        let timeout = clock::timespec(left.as_nanos());
        // The end of time is beyond the time-outs that the kernel takes on some hosts.
        let timeout = (until < Instant::MAX).then_some(&timeout);
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        // A signal, at most: then nothing is reported.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, timeout) else { return };
        all.extend(events.iter().map(|event| report_of(event.data.u64())));
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn word(seat: Seat) -> u64 {
    u64::from(seat.generation & (u32::MAX >> 1)) << 32 | u64::from(seat.at)
}

fn report_of(word: u64) -> Report {
    if word == ORDERS {
        return Report::Ordered;
    }
    Report::Readable(Seat { at: word as u32, generation: (word >> 32) as u32 })
}

/// A channel of a receiver: its place, and the number of channels that had the place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    pub(super) at: u32,
    pub(super) generation: u32,
}
