//! The broker's one thread: it waits for messages of the front, signals, the ends of processes and
//! the news of its guard, which watches use.
//!
//! - [`Server::open`]: opens ledger and socket, adopts the grants of an earlier broker, and gives
//!   up all privileges but two capabilities.
//! - `opening`: the start, in the order that its privileges need. `start`: arguments,
//!   configuration, host, signals. `error`: the errors that end it. `turns`: the loop.
//!   `connection`: one client. `requests` and `refusals`: the handling of each message.
//! - `sessions`: processes that end, lose their connection, come back. `residuals`: reservations
//!   whose threads have not left their class. `adoption`: the start of a broker after another was
//!   killed.
//! - `channels`: the same for channels, and the threads that carry them.
//! - `feedback`: use, overuse, and hosts that can promise less. `status`: the answers to status
//!   requests.
//! - `manager`: the service manager's protocol.

mod adoption;
mod channels;
mod connection;
mod error;
mod feedback;
mod manager;
mod opening;
mod refusals;
mod requests;
mod residuals;
mod sessions;
mod start;
mod status;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::rc::Rc;

use punctual_model::Instant;
use rustix::event::epoll;

pub use self::channels::ChannelTrace;
use self::channels::Channels;
pub use self::error::ServeError;
use self::manager::Manager;
use self::start::Signals;
pub use self::start::{Measured, Options};
use crate::admission::AdmissionState;
use crate::config::Config;
use crate::dispatcher;
use crate::front::Front;
use crate::guard::Keeper;
use crate::kernel::give::Means;
use crate::kernel::peer::Peer;
use crate::kernel::persons::Persons;
use crate::kernel::privileges::Powers;
use crate::ledger::{Ledger, OldLimits, ProcessId, Record};
use crate::link::LinkError;
use crate::pace::Pace;
use punctual_client::grant::GrantId;
use punctual_client::want::Want;
use punctual_client::wire::{GuardStatus, Name, RefusedStatus};

/// The number of the front among the sources of events.
const FRONT: u64 = 0;

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Front,
    Signals,
    Process(ProcessId),
    Sender,
    Receiver,
    Guard,
    Dispatcher,
}

/// A connection of a client.
#[derive(Debug)]
struct Connection {
    /// The process for which it speaks: the one that connected it, or the holder of the grant that
    /// it resumed.
    peer: Rc<Peer>,
    greeted: bool,
    /// Whether it asks for a process that it has named, with the right of root or of the broker's own
    /// user.
    represents: bool,
    /// The time when a request of it was last refused for want of room.
    refused: Option<Instant>,
}

impl Connection {
    /// Returns whether it speaks for a process, and has exchanged greetings.
    fn speaks_of(&self, process: ProcessId) -> bool {
        self.greeted && self.peer.process.id == process
    }
}

/// A process with at least one grant.
#[derive(Debug)]
struct Held {
    peer: Rc<Peer>,
    source: u64,
    grants: BTreeSet<GrantId>,
    channels: BTreeSet<GrantId>,
    /// The time at which it lost its last connection, if it has none.
    disconnected_since: Option<Instant>,
}

impl Held {
    fn new(peer: Rc<Peer>, source: u64) -> Self {
        let (grants, channels) = Default::default();
        Self { peer, source, grants, channels, disconnected_since: None }
    }

    fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.channels.is_empty()
    }

    fn source(&self) -> u64 {
        self.source
    }
}

/// A grant in force.
#[derive(Debug)]
struct Live {
    record: Record,
    want: Want,
    cpu: Option<u32>,
    /// The use of a CPU in the last window that the guard has reported.
    used_ppm: Option<u64>,
}

/// A running broker.
#[derive(Debug)]
pub struct Server {
    options: Options,
    config: Config,
    epoll: OwnedFd,
    front: Front,
    /// Whether messages wait for the front to have room.
    front_waits: bool,
    front_lost: Option<LinkError>,
    _name: Option<Name>,
    /// The process of the front. It ends with its link.
    _front_process: Child,
    /// The user ids that belong to one person.
    persons: Persons,
    signals: Signals,
    manager: Manager,
    powers: Powers,
    means: Means,
    guard: Keeper,
    /// `None`: this broker holds no programs.
    dispatcher: Option<dispatcher::Keeper>,
    /// As of its last report.
    guard_looks: GuardStatus,
    admission: AdmissionState,
    ledger: Ledger,
    sources: BTreeMap<u64, Source>,
    next_source: u64,
    connections: BTreeMap<u64, Connection>,
    held: BTreeMap<ProcessId, Held>,
    grants: BTreeMap<GrantId, Live>,
    /// `None`: this broker carries none.
    channels: Option<Channels>,
    /// The descriptors that signal news of the channels' threads.
    carriers_watched: Vec<OwnedFd>,
    /// Ended reservations whose threads have not left SCHED_DEADLINE.
    residuals: BTreeMap<GrantId, Record>,
    /// Grants for which the host has no room any more, each with its deadline.
    over: BTreeMap<GrantId, Instant>,
    /// Users that are refused everything until the given time.
    banned: BTreeMap<u32, Instant>,
    pace: Pace,
    attach_pace: Pace,
    /// Users whose processes are swept, and below the limits they had.
    watched: BTreeSet<u32>,
    old_limits: BTreeMap<u32, (OldLimits, u64)>,
    /// Processes whose limit was restored, and whose threads may still be above it.
    lowered: BTreeSet<ProcessId>,
    refusals: VecDeque<RefusedStatus>,
    refused: u64,
    /// Refusals that are not in the ledger yet.
    unwritten: Vec<RefusedStatus>,
    next_tick: Instant,
    last_slow: Instant,
    sweep_now: bool,
}

impl Server {
    /// Registers a descriptor; it must stay open as long as its source is known.
    fn watch(&mut self, fd: impl AsFd, source: Source) -> rustix::io::Result<u64> {
        let number = self.next_source;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        self.next_source += 1;
        self.sources.insert(number, source);
        Ok(number)
    }

    /// Forgets a descriptor, before it is closed.
    fn unwatch(&mut self, fd: impl AsFd, number: u64) {
        // It is no longer registered only if it was closed: then there is nothing to do.
        let _ = epoll::delete(&self.epoll, fd);
        self.sources.remove(&number);
    }
}
