//! The broker's one thread: it waits for messages of the front, signals, the ends of processes and
//! the news of its guard, which watches use.
//!
//! - [`Server::open`]: opens ledger and socket, adopts the grants of an earlier broker, and gives
//!   up all privileges but two capabilities.
//! - `options` and `error`: its arguments, and the errors that end it. `start`: configuration,
//!   host, signals. `turns`: the loop. `connection`: one client. `requests` and `refusals`: the
//!   handling of each message.
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
mod options;
mod refusals;
mod requests;
mod residuals;
mod sessions;
mod start;
mod status;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;

use punctual_linux::awake::Below;
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};
use rustix::event::epoll;

use self::adoption::relieve_guards;
pub use self::channels::ChannelTrace;
use self::channels::{Channels, Discard};
use self::connection::Connection;
pub use self::error::ServeError;
use self::manager::Manager;
pub use self::options::{Measured, Options};
use self::sessions::{Held, Live};
use self::start::{Signals, host_of, means, order, read_config};
use crate::admission::AdmissionState;
use crate::config::Config;
use crate::front::Front;
use crate::guard::Keeper;
use crate::kernel::give::Means;
use crate::kernel::persons::Persons;
use crate::kernel::privileges::{Account, Powers, drop_all_but_needed, needs_sys_nice};
use crate::kernel::usage::Meter;
use crate::ledger::{Ledger, OldLimits, ProcessId, Record};
use crate::link::{LinkError, Part};
use crate::pace::Pace;
use punctual_client::grant::GrantId;
use punctual_client::wire::{GuardStatus, Listener, Name, RefusedStatus};

/// Requests of a person in a second, and at once.
const A_SECOND: u32 = 20;

/// The time between two of them, in the long run.
const APART: Duration = Duration::from_millis(1_000 / A_SECOND as u64);

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
    /// Opens everything, starts the other parts, drops privileges, and adopts the grants of the
    /// ledger whose processes are alive. A broker started by root runs as a user of its own from
    /// then on.
    ///
    /// Call it while the process has one thread: users and capabilities belong to a thread.
    pub fn open(options: Options) -> Result<Self, ServeError> {
        Self::open_traced(options, None)
    }

    /// Opens a broker like [`open`](Self::open), and reports what happens to each message of its
    /// channels to `trace`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_traced(
        options: Options,
        trace: Option<Box<dyn ChannelTrace>>,
    ) -> Result<Self, ServeError> {
        let config = read_config(&options)?;
        use_is_seen()?;
        let account = Account::choose()?;
        let manager = Manager::new();
        let listener = match manager.socket() {
            Some(fd) => Listener::from_fd(fd?)?,
            None => {
                let failed = |source| ServeError::Listen { path: options.socket.clone(), source };
                if let Some(folder) = options.socket.parent().filter(|folder| !folder.exists()) {
                    fs::create_dir_all(folder).map_err(failed)?;
                    // So that it can remove its socket at its end.
                    if let Some(account) = account {
                        account.owns(folder).map_err(failed)?;
                    }
                }
                Listener::bind(&options.socket).map_err(failed)?
            }
        };
        let (ledger, records) = Ledger::open(&options.state)?;
        let refusals = ledger.refusals()?.into();
        let (process, link) =
            Part::Front.spawn((options.part)(Part::Front)).map_err(ServeError::NoFront)?;
        let (socket, name) = listener.into_parts();
        let front = Front::open(link, socket.as_fd(), account, config.max_connections)?;
        // The front must hold the last descriptor: closing what lies in the socket may take long.
        drop(socket);
        let discard = Discard::prepare(config.channels.as_ref());
        let keeps_awake = config.channels.as_ref().is_some_and(|channels| channels.awake);
        let below = keeps_awake.then(Below::make).flatten();
        needs_sys_nice()?;
        let command = (options.part)(Part::Guard);
        let guard = Keeper::start(command, account, config.sample, config.orphan);
        let mut guard = guard.map_err(ServeError::NoGuard)?;
        let persons = Persons::read();
        relieve_guards(&mut guard, &ledger, &records, &persons, order(&config))?;
        let powers = drop_all_but_needed(account)?;
        let means = means(&config, powers)?;
        let admission = AdmissionState::new(host_of(&config, &options, &means), means.order);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let signals = Signals::new()?;
        let input = epoll::EventFlags::IN;
        epoll::add(&epoll, &front, epoll::EventData::new_u64(FRONT), input)?;
        epoll::add(&epoll, &signals.wake, epoll::EventData::new_u64(1), input)?;
        epoll::add(&epoll, &guard, epoll::EventData::new_u64(2), input)?;
        let sources =
            BTreeMap::from([(FRONT, Source::Front), (1, Source::Signals), (2, Source::Guard)]);
        let mut server = Self {
            options,
            config,
            epoll,
            front,
            front_waits: false,
            front_lost: None,
            _name: name,
            _front_process: process,
            persons,
            signals,
            manager,
            powers,
            means,
            guard,
            guard_looks: GuardStatus::default(),
            admission,
            ledger,
            next_source: sources.len() as u64,
            sources,
            connections: BTreeMap::new(),
            held: BTreeMap::new(),
            grants: BTreeMap::new(),
            channels: None,
            carriers_watched: Vec::new(),
            residuals: BTreeMap::new(),
            over: BTreeMap::new(),
            banned: BTreeMap::new(),
            pace: Pace::new(APART, A_SECOND),
            attach_pace: Pace::new(APART, A_SECOND),
            watched: BTreeSet::new(),
            old_limits: BTreeMap::new(),
            lowered: BTreeSet::new(),
            refusals,
            refused: 0,
            unwritten: Vec::new(),
            next_tick: clock::now(),
            last_slow: Instant::ZERO,
            sweep_now: true,
        };
        server.start_channels(discard, below, trace)?;
        server.adopt(records)?;
        server.adopt_channels()?;
        Ok(server)
    }

    /// Starts the threads that carry channels, if there is a link for them.
    fn start_channels(
        &mut self,
        discard: Discard,
        below: Option<Below>,
        trace: Option<Box<dyn ChannelTrace>>,
    ) -> Result<(), ServeError> {
        let Some(config) = &self.config.channels else { return Ok(()) };
        let started = Channels::start(config, discard, below, trace);
        let channels = started.map_err(ServeError::Channels)?;
        self.admission.carry_channels(config.clone()).map_err(ServeError::NoRoomForChannels)?;
        self.channels = Some(channels);
        Ok(self.watch_carriers()?)
    }

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

/// Checks on this thread that use can be measured: that takes the scheduler's accounting of each
/// thread.
fn use_is_seen() -> Result<(), ServeError> {
    // The account is written at the end of a stretch on the CPU: end one.
    clock::sleep(Duration::from_millis(1));
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    match Meter::open(pid, thread::current()).and_then(|meter| meter.used()) {
        Ok(used) if !used.is_zero() => Ok(()),
        Ok(_) => Err(ServeError::NoUse { why: "it says that this thread has never run".into() }),
        Err(why) => Err(ServeError::NoUse { why: why.to_string() }),
    }
}
