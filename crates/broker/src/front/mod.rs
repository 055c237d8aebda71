//! The part of the broker that handles everything that clients made: their connections, and the
//! messages on them.
//!
//! Receiving a message or closing a socket can take as long as the client likes: a message may
//! carry a file whose last close waits for its peer (a socket with SO_LINGER, a file of a FUSE
//! server). So no thread on which another person depends does either. Each person has a thread of
//! its own here, which may sleep for ever.
//!
//! ```text
//! clients ──▶ door: accept, find person ──▶ a thread for each person ──▶ link ──▶ broker
//!    ▲                                          │    ▲                              │
//!    └──────────── answers, events ◀────────────┘    └──────── messages ◀───────────┘
//! ```
//!
//! The part has no privilege and makes no decision: it passes on the identity of each client as the
//! kernel states it, and carries messages of at most [`MAX_MESSAGE`](punctual_client::wire::MAX_MESSAGE)
//! bytes. A connection has one request in progress at a time; the next is read when the client has
//! taken the answer. Descriptors that a client sends are never received.

mod door;
mod person;
mod shared;

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

pub(crate) use self::shared::{FromFront, ToFront};
use self::shared::{Person, Shared, Task, lock, spawn};
use crate::kernel::persons::Persons;
use crate::kernel::privileges::{self, Account};
use crate::link::{Link, LinkError, MAX_LINK};
use crate::log;

/// The interval at which the delegated ids are checked for changes.
const DELEGATIONS: Duration = Duration::from_secs(1);

/// Serves until the broker is gone.
///
/// # Errors
/// If the link to the broker fails, or its first message is not the one with the socket.
pub(crate) fn run(link: Link) -> Result<(), LinkError> {
    let mut buffer = vec![0; MAX_LINK];
    let (first, mut files) = link.receive_with(&mut buffer)?;
    let ToFront::Open { account, max_connections } = first else {
        return Err(LinkError::OutOfOrder);
    };
    let listener = files.pop().ok_or(LinkError::OutOfOrder)?;
    // Leave the terminal's process group, so that its keys do not end the front with the broker. An
    // error means that it leads its group already.
    let _ = rustix::process::setsid();
    privileges::give_up_all(account)?;
    let shared = Arc::new(Shared {
        link,
        persons: RwLock::new(Persons::read()),
        threads: Mutex::default(),
        connections: Mutex::default(),
        closer: Arc::new(Person::new()?),
        max_connections: max_connections.into(),
    });
    let closing = Arc::clone(&shared);
    spawn("closer", move || person::serve(&closing, &closing.closer, None))?;
    let door = Arc::clone(&shared);
    spawn("door", move || door::keep(&door, &listener))?;
    let delegations = Arc::clone(&shared);
    spawn("delegations", move || delegations.follow_delegations())?;
    loop {
        let (message, files) = shared.link.receive_with(&mut buffer)?;
        shared.obey(message, files)?;
    }
}

impl Shared {
    fn obey(&self, message: ToFront, files: Vec<OwnedFd>) -> Result<(), LinkError> {
        let (connection, task) = match message {
            ToFront::Open { .. } => return Err(LinkError::OutOfOrder),
            ToFront::Limit { max_connections } => {
                self.max_connections.store(max_connections, Ordering::Relaxed);
                return Ok(());
            }
            ToFront::Say { connection, message, is_answer } => {
                (connection, Task::Say { connection, message, files, is_answer })
            }
            ToFront::Close { connection } => (connection, Task::Close { connection }),
        };
        let person = lock(&self.connections).get(&connection).cloned();
        // `None`: the client left meanwhile.
        if let Some(person) = person {
            person.tell(task);
        }
        Ok(())
    }

    fn follow_delegations(&self) {
        let mut known = self.persons.read().unwrap_or_else(PoisonError::into_inner).clone();
        loop {
            #[allow(clippy::disallowed_methods, reason = "nothing in time depends on it")]
            thread::sleep(DELEGATIONS);
            let changed = known.refresh();
            log::tidy(&known);
            if changed {
                let mut shared = self.persons.write().unwrap_or_else(PoisonError::into_inner);
                *shared = known.clone();
            }
        }
    }
}

/// The broker's end of the link to the front.
pub(crate) struct Front {
    link: Link,
    waiting: VecDeque<(ToFront, Vec<OwnedFd>)>,
    buffer: Vec<u8>,
}

/// The most messages that wait for the front: more than all clients can cause in one iteration of
/// the broker's loop.
const MOST_WAITING: usize = 1 << 16;

impl Front {
    /// Hands over the listening socket.
    ///
    /// # Errors
    /// If the front is gone already.
    pub(crate) fn open(
        link: Link,
        listener: BorrowedFd<'_>,
        account: Option<Account>,
        max_connections: u32,
    ) -> Result<Self, LinkError> {
        link.send_with(&ToFront::Open { account, max_connections }, &[listener])?;
        Ok(Self { link, waiting: VecDeque::new(), buffer: vec![0; MAX_LINK] })
    }

    /// Returns the next message, if one is there.
    ///
    /// # Errors
    /// If the front is gone or makes no sense.
    pub(crate) fn news(&mut self) -> Result<Option<FromFront>, LinkError> {
        self.link.receive(&mut self.buffer)
    }

    /// Sends a message to the front, or queues it here if there is no room; never blocks.
    ///
    /// # Errors
    /// If the front is gone, or has taken nothing for too long.
    pub(crate) fn tell(&mut self, message: ToFront, files: Vec<OwnedFd>) -> Result<(), LinkError> {
        if self.waiting.len() >= MOST_WAITING {
            return Err(LinkError::Full);
        }
        self.waiting.push_back((message, files));
        self.flush()
    }

    /// Sends queued messages, as far as there is room.
    ///
    /// # Errors
    /// If the front is gone.
    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        while let Some((message, files)) = self.waiting.front() {
            let files: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
            match self.link.send_with(message, &files) {
                Ok(()) => self.waiting.pop_front(),
                Err(LinkError::Full) => return Ok(()),
                Err(why) => return Err(why),
            };
        }
        Ok(())
    }

    /// Returns whether messages wait for room.
    pub(crate) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl AsFd for Front {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
