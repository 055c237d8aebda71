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

/// How long the channel is held while one waits for room: another that does not want to wait would wait
/// for that.
const SLICE: Duration = Duration::from_millis(5);

/// Before a server that is gone is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Where channels come from.
pub(crate) trait Opens: Send + Sync {
    /// Opens one; else why not, in words.
    fn open(&self, asked: &Compact, to: SocketAddr) -> Result<Opened, String>;
}

/// What keeps a channel open.
pub(crate) trait Holds: Send {
    /// Hands the queue to the next server.
    fn rejoin(&mut self, sending: &mut Sending) -> Result<(), String>;
    /// A descriptor that a child should not keep open.
    fn descriptor(&self) -> Option<RawFd>;
}

/// A channel that is open.
pub(crate) struct Opened {
    pub(crate) sending: Sending,
    pub(crate) held: Box<dyn Holds>,
}

enum State {
    Unopened,
    /// If its server ends, the next is looked for at that instant at the earliest: so no call looks
    /// twice.
    Open(Opened, Instant),
    /// The server is gone; to be looked for then.
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

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is in the channel.
    InChannel,
    /// It is to go the plain way.
    Plain,
    /// There is no room, and it must not wait (any longer).
    NoRoom,
}

/// The channel of this process, and where it leads.
pub(crate) struct Process {
    asked: Compact,
    opens: Box<dyn Opens>,
    /// Tells a child from its parent.
    number: u64,
    destination: OnceLock<SocketAddr>,
    state: Mutex<State>,
    /// Who wait for room.
    waiting: AtomicU32,
    /// What a child has of the channel and should not keep open; -1: nothing.
    descriptors: [AtomicI32; 2],
    too_long: Once,
    away: Once,
}

impl Process {
    /// `destination` is the one of `asked`, if it says one.
    pub(crate) fn new(
        asked: Compact,
        destination: Option<SocketAddr>,
        opens: Box<dyn Opens>,
        number: u64,
    ) -> Self {
        Self {
            asked,
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

    /// Whether the channel leads `to` there. If it leads nowhere yet, that is where it leads.
    pub(crate) fn leads(&self, to: SocketAddr) -> bool {
        match self.destination.get() {
            Some(destination) => *destination == to,
            None => address::is_worth_a_channel(to) && *self.destination.get_or_init(|| to) == to,
        }
    }

    /// Whether a datagram has a size that the channel was asked for. An empty one it has no place for.
    pub(crate) fn is_of_a_good_size(&self, bytes: usize) -> bool {
        let most = self.asked.traffic.max_message() as usize;
        if bytes > most {
            self.too_long.say(|| {
                format!(
                    "a datagram of {bytes} bytes is longer than the channel's {most} and goes \
                     without a promise, as do all such; ask for max={bytes}"
                )
            });
        }
        let least = (self.asked.traffic.min_message() as usize).max(1);
        (least..=most).contains(&bytes)
    }

    /// Puts a datagram of `bytes` bytes, which `fill` writes, into the channel. `patience` is asked if
    /// there is no room: until when to wait, or not to.
    pub(crate) fn send(
        &self,
        bytes: usize,
        fill: &mut dyn FnMut(&mut Slot<'_>),
        patience: &dyn Fn() -> Option<Instant>,
    ) -> Sent {
        let mut until = None;
        // Who waits holds the channel, for a while at a time: who will not wait must not wait for that.
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
            // Also who does not wait has to hear that the server is gone.
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

    /// What a child has of the channel and should not keep open. Takes no lock: whoever has it is not
    /// there in a child.
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

    /// The channel, opened or found again if that can be.
    fn open<'a>(&self, state: &'a mut State) -> Option<&'a mut Opened> {
        let to = self.destination.get()?;
        match state {
            State::Unopened => {
                *state = match self.opens.open(&self.asked, *to) {
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

/// Whether there was room.
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
