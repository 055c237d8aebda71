//! What the threads of the front share: the messages to and from the broker, and the persons.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use punctual_client::wire::Socket;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::kernel::persons::Persons;
use crate::kernel::privileges::Account;
use crate::ledger::ProcessId;
use crate::link::{Link, LinkError};

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
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) persons: RwLock<Persons>,
    /// The threads, by the person's id.
    pub(super) threads: Mutex<BTreeMap<u32, Arc<Person>>>,
    /// The person of each connection.
    pub(super) connections: Mutex<BTreeMap<u64, Arc<Person>>>,
    /// Closes sockets for which no person's thread can be had.
    pub(super) closer: Arc<Person>,
    pub(super) max_connections: AtomicU32,
}

impl Shared {
    /// Returns the person of a user.
    pub(super) fn person_of(&self, uid: u32) -> u32 {
        self.persons.read().unwrap_or_else(PoisonError::into_inner).of(uid)
    }

    /// Sends a message to the broker, for which this thread may wait. If the broker is gone, ends
    /// the process.
    pub(super) fn tell(&self, message: &FromFront) {
        if let Err(why) = self.link.send(message) {
            if !matches!(why, LinkError::Gone) {
                warn!(%why, "the broker cannot be told");
            }
            std::process::exit(0);
        }
    }
}

/// A task for the thread of a person.
#[derive(Debug)]
pub(super) enum Task {
    /// Serve a connection that was accepted.
    Serve { connection: u64, socket: Socket },
    /// Send the reason, and close.
    TurnAway { socket: Socket, why: String },
    /// Close.
    CloseSocket { socket: Socket },
    /// Send this message, with these files.
    Say { connection: u64, message: Vec<u8>, files: Vec<OwnedFd>, is_answer: bool },
    /// End a connection when the client has taken its messages.
    Close { connection: u64 },
}

/// A person, as the other threads see it.
#[derive(Debug)]
pub(super) struct Person {
    pub(super) tasks: Mutex<VecDeque<Task>>,
    pub(super) wake: OwnedFd,
    /// The epoll instance of its thread, with the connections and `wake`.
    pub(super) epoll: OwnedFd,
    /// The number of connections that were let in.
    pub(super) connections: AtomicUsize,
}

impl Person {
    pub(super) fn new() -> Result<Self, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self { tasks: Mutex::default(), wake, epoll, connections: AtomicUsize::new(0) })
    }

    /// Gives the thread a task; never blocks.
    pub(super) fn tell(&self, task: Task) {
        lock(&self.tasks).push_back(task);
        // Fails only if the counter is full: then the thread wakes anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Returns how many tasks the thread has not begun.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.tasks).len()
    }
}

/// The stack of a thread in bytes: its buffers are elsewhere.
const STACK: usize = 256 * 1024;

/// Starts a thread of the front.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LinkError> {
    let builder = thread::Builder::new().name(name.into()).stack_size(STACK);
    builder.spawn(work).map(|_| ()).map_err(LinkError::from)
}

/// Locks a mutex. A poisoned one belongs to a thread that panicked, and its data is never half
/// changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
