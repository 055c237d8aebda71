//! Which sockets have something, from the kernel: each tells when something came (EPOLLET, epoll(7)), so
//! thousands of channels cost what arrives and nothing else.
//!
//! One of best effort tells once and is silent until it is armed again (EPOLLONESHOT): what cannot be read
//! yet wakes nobody, so a flood costs this thread no more than what it reads of it.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_linux::clock;
use punctual_linux::net::UdpSocket;
use punctual_model::{Duration, Instant};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::Seat;

/// Events taken at a time; the others are taken the next time.
const EVENTS: usize = 64;

/// What no seat says.
const CALL: u64 = u64::MAX;

/// A wait up to this long is timed to the nanosecond, which takes a call more if something comes.
const TIMED: Duration = Duration::from_millis(20);

/// How a socket tells that something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// Whenever something comes.
    Always,
    /// When there is something, once.
    Once,
    /// Not at all.
    Never,
}

impl Telling {
    fn flags(self) -> EventFlags {
        match self {
            Self::Always => EventFlags::IN | EventFlags::ET,
            Self::Once => EventFlags::IN | EventFlags::ONESHOT,
            // An error of the socket may still be told, once.
            Self::Never => EventFlags::ONESHOT,
        }
    }
}

/// What is waited for.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
}

/// What the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A socket has something.
    Readable(Seat),
    /// Somebody else's descriptor is readable.
    Called,
}

impl Watch {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Tells of a socket. A receiver waits for no client, and so hears no bell.
    pub(super) fn add(
        &self,
        seat: Seat,
        socket: &UdpSocket,
        reporting: Telling,
    ) -> Result<(), Errno> {
        let data = EventData::new_u64(word(seat));
        epoll::add(&self.epoll, socket, data, reporting.flags())
    }

    /// Tells of it no more: its descriptor may be open elsewhere, so that closing it is not enough.
    pub(super) fn remove(&self, socket: &UdpSocket) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Tells [`Told::Called`] as long as it is readable.
    pub(super) fn add_call(&self, call: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, call, EventData::new_u64(CALL), EventFlags::IN)
    }

    /// Has it tell otherwise from here on; what is in it already counts as having come.
    pub(super) fn tell(&self, seat: Seat, socket: &UdpSocket, reporting: Telling) {
        let data = EventData::new_u64(word(seat));
        // It is there: it was added with the channel.
        let _ = epoll::modify(&self.epoll, socket, data, reporting.flags());
    }

    /// Waits for something to tell, or until the instant.
    pub(super) fn wait(&self, until: Instant, all: &mut Vec<Told>) {
        let mut left = until.saturating_since(clock::now());
        if !left.is_zero() && left <= TIMED {
            // epoll_wait(2) rounds up to a millisecond, in which a fast link brings a thousand datagrams.
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            let timeout = clock::timespec(left.as_nanos());
            if rustix::event::poll(&mut fds, Some(&timeout)) == Ok(0) {
                return;
            }
            left = Duration::ZERO;
        }
        let timeout = clock::timespec(left.as_nanos());
        // The end of time is beyond what the kernel takes as a time-out on some hosts.
        let timeout = (until < Instant::MAX).then_some(&timeout);
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        // A signal, at most: then nothing is told.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, timeout) else { return };
        all.extend(events.iter().map(|event| told(event.data.u64())));
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

fn told(word: u64) -> Told {
    if word == CALL {
        return Told::Called;
    }
    Told::Readable(Seat { at: word as u32, generation: (word >> 32) as u32 })
}
