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

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::warn;

use self::person::{Person, Task};
use crate::kernel::persons::Persons;
use crate::kernel::privileges::{self, Account};
use crate::ledger::ProcessId;
use crate::log;
use crate::parts::{Link, LinkError, MAX_LINK};

/// The broker's messages to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToFront {
    /// The first message, with the listening socket.
    Open {
        /// The user as which the front is to run; `None`: as it is.
        account: Option<Account>,
        /// The most connections of a person.
        max_connections: u32,
    },
    /// Another limit from here on.
    Limit {
        /// The most connections of a person.
        max_connections: u32,
    },
    /// A message for a client, with the files that belong to it.
    Say {
        connection: u64,
        message: Vec<u8>,
        /// Whether the client may send its next request when it has taken this.
        is_answer: bool,
    },
    /// Ends a connection when the client has taken its messages.
    Close { connection: u64 },
}

/// The front's messages to the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromFront {
    /// A client connected.
    Met {
        connection: u64,
        process: ProcessId,
        /// The effective user when it connected.
        uid: u32,
        /// All its groups, the effective one first.
        gids: Vec<u32>,
    },
    /// The client sent a request, and waits for the answer.
    BrokerMessage { connection: u64, message: Vec<u8> },
    /// The client is gone, or was cut off.
    Left { connection: u64 },
}

/// The state that the threads of the front share. Its locks are held briefly, and never while
/// waiting for another process.
struct Shared {
    link: Link,
    persons: RwLock<Persons>,
    /// The threads, by the person's id.
    threads: Mutex<BTreeMap<u32, Arc<Person>>>,
    /// The person of each connection.
    connections: Mutex<BTreeMap<u64, Arc<Person>>>,
    /// Closes sockets for which no person's thread can be had.
    closer: Arc<Person>,
    max_connections: AtomicU32,
}

/// The interval at which the delegated ids are checked for changes.
const DELEGATIONS: Duration = Duration::from_secs(1);

/// The stack of a thread in bytes: its buffers are elsewhere.
const STACK: usize = 256 * 1024;

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

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LinkError> {
    let builder = thread::Builder::new().name(name.into()).stack_size(STACK);
    builder.spawn(work).map(|_| ()).map_err(LinkError::from)
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

    /// Returns the person of a user.
    fn person_of(&self, uid: u32) -> u32 {
        self.persons.read().unwrap_or_else(PoisonError::into_inner).of(uid)
    }

    /// Sends a message to the broker, for which this thread may wait. If the broker is gone, ends
    /// the process.
    fn tell(&self, message: &FromFront) {
        if let Err(why) = self.link.send(message) {
            if !matches!(why, LinkError::Gone) {
                warn!(%why, "the broker cannot be told");
            }
            std::process::exit(0);
        }
    }
}

/// Locks a mutex. A poisoned one belongs to a thread that panicked, and its data is never half
/// changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
