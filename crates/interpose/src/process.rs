//! The one channel of a process.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use punctual_channel::client::compact::Compact;
use punctual_channel::client::{SendError, Sending, Slot};
use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use crate::address;
use crate::say::Once;

/// How long a thread that waits for room holds the channel at a time. Another thread that must not
/// wait for room may have to wait that long.
const SLICE: Duration = Duration::from_millis(5);

/// The interval between attempts to find a new server.
const AGAIN: Duration = Duration::from_secs(1);

/// The source of channels.
pub(crate) trait Opener: Send + Sync {
    /// Opens a channel, or returns the reason in words.
    fn open(&self, request: &Compact, to: SocketAddr) -> Result<Opened, String>;
}

/// The resources that keep a channel open.
pub(crate) trait Holder: Send {
    /// Hands the queue to the next server.
    fn rejoin(&mut self, sending: &mut Sending) -> Result<(), String>;
    /// Returns a descriptor that a child should not keep open.
    fn descriptor(&self) -> Option<RawFd>;
}

/// An open channel.
pub(crate) struct Opened {
    pub(crate) sending: Sending,
    pub(crate) held: Box<dyn Holder>,
}

enum State {
    Unopened,
    /// If its server ends, the next is looked for at that instant at the earliest, so that no call
    /// looks twice.
    Open(Opened, Instant),
    /// The server is gone; the next is looked for at that instant.
    Away(Opened, Instant),
    /// For good.
    Failed,
}

impl State {
    fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Open(open, _) | Self::Away(open, _) => Some(open),
            Self::Unopened | Self::Failed => None,
        }
    }
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is in the channel.
    InChannel,
    /// It is to be sent without the channel.
    Plain,
    /// There is no room, and it must not wait (any longer).
    NoRoom,
}

/// The channel of this process, and its destination.
pub(crate) struct Process {
    request: Compact,
    opens: Box<dyn Opener>,
    /// The number that distinguishes a child from its parent.
    number: u64,
    destination: OnceLock<SocketAddr>,
    state: Mutex<State>,
    /// The number of threads that wait for room.
    waiting: AtomicU32,
    /// The descriptors of the channel that a child should not keep open; -1 for none.
    descriptors: [AtomicI32; 2],
    too_long: Once,
    away: Once,
}

impl Process {
    /// Makes the channel of a process, not opened yet. `destination` is that of the request, if it
    /// has one.
    pub(crate) fn new(
        request: Compact,
        destination: Option<SocketAddr>,
        opens: Box<dyn Opener>,
        number: u64,
    ) -> Self {
        Self {
            request,
            opens,
            number,
            destination: destination.map_or_else(OnceLock::new, |to| address::plain(to).into()),
            state: Mutex::new(State::Unopened),
            waiting: AtomicU32::new(0),
            descriptors: [const { AtomicI32::new(-1) }; 2],
            too_long: Once::new(),
            away: Once::new(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if the channel leads to `to`. If it has no destination yet, `to` becomes its
    /// destination.
    pub(crate) fn leads(&self, to: SocketAddr) -> bool {
        match self.destination.get() {
            Some(destination) => *destination == to,
            None => address::is_worth_a_channel(to) && *self.destination.get_or_init(|| to) == to,
        }
    }

    /// Returns true if a datagram's size is within the request. There is no room for an empty one.
    pub(crate) fn is_of_a_good_size(&self, bytes: usize) -> bool {
        let most = self.request.traffic.max_message() as usize;
        if bytes > most {
            self.too_long.say(|| {
                format!(
                    "a datagram of {bytes} bytes is longer than the channel's {most} and goes \
                     without a promise, as do all such; ask for max={bytes}"
                )
            });
        }
        let least = (self.request.traffic.min_message() as usize).max(1);
        (least..=most).contains(&bytes)
    }

    /// Puts a datagram of `bytes` bytes, written by `fill`, into the channel. If there is no room,
    /// `patience` returns until when to wait, or `None` for not at all.
    pub(crate) fn send(
        &self,
        bytes: usize,
        fill: &mut dyn FnMut(&mut Slot<'_>),
        patience: &dyn Fn() -> Option<Instant>,
    ) -> Sent {
        let mut until = None;
        // A waiting thread holds the channel for a while at a time; a thread that must not wait
        // must not wait for that.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            match patience() {
                None => return Sent::NoRoom,
                patience => until = patience,
            }
        }
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = self.open(&mut state) else { return Sent::Plain };
            match put(&mut open.sending, bytes, fill) {
                Ok(true) => return Sent::InChannel,
                Ok(false) => {}
                Err(why) => {
                    self.fail(&mut state, why);
                    continue;
                }
            }
            let now = clock::now();
            let end = until.or_else(patience).unwrap_or(Instant::ZERO);
            until = Some(end);
            self.waiting.fetch_add(u32::from(end > now), Ordering::Relaxed);
            // A thread that does not wait has to notice, too, that the server is gone.
            let waited = open.sending.wait_until(end.min(now.saturating_add(SLICE)));
            self.waiting.fetch_sub(u32::from(end > now), Ordering::Relaxed);
            match waited {
                Ok(()) => {}
                Err(SendError::TimedOut { .. }) if now < end => {}
                Err(SendError::TimedOut { .. }) => return Sent::NoRoom,
                Err(why) => self.fail(&mut state, why),
            }
        }
    }

    /// Returns the descriptors of the channel that a child should not keep open. Takes no lock: its
    /// holder does not exist in a child.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let all = self.descriptors.iter().map(|one| one.load(Ordering::Relaxed));
        all.filter(|fd| *fd >= 0)
    }

    fn note_descriptors(&self, open: Option<&Opened>) {
        let now = open.map_or([None; 2], |open| {
            [Some(open.sending.as_fd().as_raw_fd()), open.held.descriptor()]
        });
        for (noted, now) in self.descriptors.iter().zip(now) {
            noted.store(now.unwrap_or(-1), Ordering::Relaxed);
        }
    }

    /// Returns the channel, opened or rejoined if possible.
    fn open<'a>(&self, state: &'a mut State) -> Option<&'a mut Opened> {
        let to = self.destination.get()?;
        match state {
            State::Unopened => {
                *state = match self.opens.open(&self.request, *to) {
                    Ok(opened) => State::Open(opened, Instant::ZERO),
                    Err(why) => {
                        say_plain(&self.away, to, &why);
                        State::Failed
                    }
                };
                self.note_descriptors(state.opened());
            }
            State::Away(open, look) if clock::now() >= *look => {
                let rejoined = open.held.rejoin(&mut open.sending);
                self.note_descriptors(Some(open));
                *look = clock::now().saturating_add(AGAIN);
                if rejoined.is_ok()
                    && let State::Away(open, look) = std::mem::replace(state, State::Failed)
                {
                    *state = State::Open(open, look);
                }
            }
            State::Away(..) | State::Open(..) | State::Failed => {}
        }
        match state {
            State::Open(open, _) => Some(open),
            _ => None,
        }
    }

    fn fail(&self, state: &mut State, why: SendError) {
        if let Some(to) = self.destination.get() {
            say_plain(&self.away, to, &why);
        }
        *state = match (why, std::mem::replace(state, State::Failed)) {
            (SendError::ServerGone, State::Open(open, look)) => State::Away(open, look),
            _ => State::Failed,
        };
        self.note_descriptors(state.opened());
    }
}

fn say_plain(once: &Once, to: &SocketAddr, why: &dyn fmt::Display) {
    once.say(|| format!("datagrams to {to} go without a promise: {why}"));
}

/// Puts a datagram into the queue; returns false if there was no room.
fn put(
    sending: &mut Sending,
    bytes: usize,
    fill: &mut dyn FnMut(&mut Slot<'_>),
) -> Result<bool, SendError> {
    let most = sending.geometry().max_message();
    if bytes > most as usize {
        return Err(SendError::TooLong { bytes, most });
    }
    let mut batch = sending.batch();
    let Some(mut slot) = batch.claim()? else { return Ok(false) };
    fill(&mut slot);
    slot.push(bytes);
    Ok(true)
}
