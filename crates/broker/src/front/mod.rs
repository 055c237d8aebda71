//! The part of the broker that touches what clients made: their connections, and what comes over them.
//!
//! To take a message or to close a socket can last as long as the client likes: a message may carry a
//! file whose last close waits for its peer (a socket with SO_LINGER, a file of a FUSE server). So it
//! is not done in a thread that another person depends on. Here each person has a thread, which may
//! sleep for ever.
//!
//! ```text
//! clients ──▶ door: accept, whose is it ──▶ a thread for each person ──▶ link ──▶ broker
//!    ▲                                          │    ▲                              │
//!    └──────────── answers, events ◀────────────┘    └─────── what to say ◀─────────┘
//! ```
//!
//! The part has no privilege and makes no decision: it says who is at the other end, by the kernel's
//! word, and carries messages of at most [`MAX_MESSAGE`](crate::wire::MAX_MESSAGE) bytes. A connection
//! has one question under way at a time; the next is read when the answer has been taken. Descriptors
//! that a client sends are never received.

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

/// What the broker tells the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToFront {
    /// Comes first, with the socket that listens.
    Open {
        /// As whom the front is to run; none: as it is.
        account: Option<Account>,
        /// The most connections of a person.
        max_connections: u32,
    },
    /// Another limit from here on.
    Limit {
        /// The most connections of a person.
        max_connections: u32,
    },
    /// Comes with the files that belong to it.
    Say {
        connection: u64,
        message: Vec<u8>,
        /// Whether the client may ask again when it has taken this.
        is_answer: bool,
    },
    /// The connection ends when the client has taken what it was told.
    Close { connection: u64 },
}

/// What the front tells the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromFront {
    /// Somebody connected.
    Met {
        connection: u64,
        process: ProcessId,
        /// The effective user when it connected.
        uid: u32,
        /// All its groups, the effective one first.
        gids: Vec<u32>,
    },
    /// It said something, and waits for the answer.
    Said { connection: u64, message: Vec<u8> },
    /// It is gone, or was cut off.
    Left { connection: u64 },
}

/// What the threads of the front share. Its locks are held for moments, never while waiting for anyone.
struct Shared {
    link: Link,
    persons: RwLock<Persons>,
    /// By the person's id.
    threads: Mutex<BTreeMap<u32, Arc<Person>>>,
    /// By connection, whose it is.
    connections: Mutex<BTreeMap<u64, Arc<Person>>>,
    /// Closes what no person's thread can be had for.
    nobody: Arc<Person>,
    max_connections: AtomicU32,
}

/// How often it is looked whether other ids were delegated.
const DELEGATIONS: Duration = Duration::from_secs(1);

/// Room on the stack of a thread: its buffers are elsewhere.
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
    // Not ended beside the broker by the keys of a terminal. An error: it leads its group already.
    let _ = rustix::process::setsid();
    privileges::give_up_all(account)?;
    let shared = Arc::new(Shared {
        link,
        persons: RwLock::new(Persons::read()),
        threads: Mutex::default(),
        connections: Mutex::default(),
        nobody: Arc::new(Person::new()?),
        max_connections: max_connections.into(),
    });
    let burial = Arc::clone(&shared);
    spawn("nobody", move || person::serve(&burial, &burial.nobody, None))?;
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
        // None: it left meanwhile.
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

    /// Tells the broker, for which this thread may wait; a broker that is gone ends all of this.
    fn tell(&self, message: &FromFront) {
        if let Err(why) = self.link.send(message) {
            if !matches!(why, LinkError::Gone) {
                warn!(%why, "the broker cannot be told");
            }
            std::process::exit(0);
        }
    }
}

/// A poisoned lock is of a thread that panicked, and what it guards is never half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The broker's end of the link to the front.
pub(crate) struct Front {
    link: Link,
    waiting: VecDeque<(ToFront, Vec<OwnedFd>)>,
    buffer: Vec<u8>,
}

/// What may wait for the front to take it: more than all clients can cause in a turn.
const MOST_WAITING: usize = 1 << 16;

impl Front {
    /// Hands over the socket that listens.
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

    /// Tells the front; never waits. What it has no room for waits here.
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

    /// Sends what waits, as far as there is room.
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

    /// Returns whether something waits for room.
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
