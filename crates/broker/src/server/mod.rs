//! The broker's one thread: it waits for connections, messages, signals and the ends of processes,
//! and every now and then looks at what is used.
//!
//! - [`Server::open`]: opens ledger and socket, takes up what a broker before it granted, and gives
//!   up all privilege but two capabilities.
//! - `start`: configuration, host, signals. `connection`: one client. `requests` and `refusals`:
//!   what each message does.
//! - `lives`: processes that end, lose their connection, come back.
//! - `feedback`: use, overuse, and hosts that get tighter. `status`: what is told to those who look.
//! - `manager`: the service manager's protocol.

mod connection;
mod feedback;
mod lives;
mod manager;
mod refusals;
mod requests;
mod start;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use thiserror::Error;
use tracing::{error, info, warn};

use self::connection::Connection;
use self::lives::{Held, Live};
use self::manager::Manager;
use self::start::{Signals, host_of, means, read_config};
use crate::books::Books;
use crate::config::{Config, ConfigError};
use crate::grant::GrantId;
use crate::kernel::give::Means;
use crate::kernel::privileges::{Powers, PrivilegeError, drop_all_but_needed};
use crate::ledger::{Ledger, LedgerError, OldLimits, ProcessId, Record};
use crate::wire::{Listener, MAX_MESSAGE, RefusedStatus};

/// How often processes are looked through and the configuration is held against the host.
const SLOW: Duration = Duration::from_secs(1);

/// Events of one wait: a flood on some connections cannot keep others from their turn for longer.
const BATCH: usize = 64;

/// Why the broker does not run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Too little privilege.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// Nothing can connect.
    #[error("{}: cannot listen: {source}; is another broker running?", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The wait for events failed.
    #[error("waiting for clients failed: {0}")]
    Wait(#[from] io::Error),
}

impl From<Errno> for ServeError {
    fn from(errno: Errno) -> Self {
        Self::Wait(errno.into())
    }
}

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration; the defaults hold if there is no such file and `config_must_exist` is false.
    pub config: PathBuf,
    /// Whether somebody named the configuration.
    pub config_must_exist: bool,
    /// Where clients connect, unless the service manager passes a socket.
    pub socket: PathBuf,
    /// The folder of the ledger.
    pub state: PathBuf,
}

/// Whose event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Signals,
    Connection(u64),
    Process(ProcessId),
}

/// A running broker.
#[derive(Debug)]
pub struct Server {
    options: Options,
    config: Config,
    epoll: OwnedFd,
    listener: Listener,
    signals: Signals,
    manager: Manager,
    powers: Powers,
    means: Means,
    books: Books,
    ledger: Ledger,
    sources: BTreeMap<u64, Source>,
    next_source: u64,
    connections: BTreeMap<u64, Connection>,
    held: BTreeMap<ProcessId, Held>,
    grants: BTreeMap<GrantId, Live>,
    /// Ended reservations whose threads have not left SCHED_DEADLINE.
    remnants: BTreeMap<GrantId, Record>,
    /// Grants that the host has no longer room for, and until when.
    over: BTreeMap<GrantId, Instant>,
    /// Processes that are refused everything for a while.
    banned: BTreeMap<ProcessId, Instant>,
    /// Users whose processes are looked through, and the limits they had.
    watched: BTreeSet<u32>,
    old_limits: BTreeMap<u32, (OldLimits, u64)>,
    refusals: VecDeque<RefusedStatus>,
    refused: u64,
    /// Refusals that the ledger has not got yet.
    unwritten: Vec<RefusedStatus>,
    /// Where the next look at what is used begins.
    sampled: GrantId,
    last_slow: Instant,
    sweep_now: bool,
    /// Given up to tell a client that there are no descriptors left.
    spare: Option<OwnedFd>,
    buffer: Vec<u8>,
}

impl Server {
    /// Opens everything, adopts the grants of the ledger whose processes live, and drops privilege.
    ///
    /// Call it while the process has one thread: capabilities are a thread's own.
    pub fn open(options: Options) -> Result<Self, ServeError> {
        let config = read_config(&options)?;
        let manager = Manager::new();
        let listener = match manager.socket() {
            Some(fd) => Listener::from_fd(fd?)?,
            None => {
                let failed = |source| ServeError::Listen { path: options.socket.clone(), source };
                if let Some(folder) = options.socket.parent() {
                    fs::create_dir_all(folder).map_err(failed)?;
                }
                Listener::bind(&options.socket).map_err(failed)?
            }
        };
        let (ledger, records) = Ledger::open(&options.state)?;
        let refusals = ledger.refusals()?.into();
        let powers = drop_all_but_needed()?;
        let means = means(&config, powers)?;
        let books = Books::new(host_of(&config, &means), means.order);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let spare = Some(rustix::io::fcntl_dupfd_cloexec(&epoll, 0)?);
        let signals = Signals::new()?;
        let input = epoll::EventFlags::IN;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(0), input)?;
        epoll::add(&epoll, &signals.wake, epoll::EventData::new_u64(1), input)?;
        let sources = BTreeMap::from([(0, Source::Listener), (1, Source::Signals)]);
        let mut server = Self {
            options,
            config,
            epoll,
            listener,
            signals,
            manager,
            powers,
            means,
            books,
            ledger,
            next_source: sources.len() as u64,
            sources,
            connections: BTreeMap::new(),
            held: BTreeMap::new(),
            grants: BTreeMap::new(),
            remnants: BTreeMap::new(),
            over: BTreeMap::new(),
            banned: BTreeMap::new(),
            watched: BTreeSet::new(),
            old_limits: BTreeMap::new(),
            refusals,
            refused: 0,
            unwritten: Vec::new(),
            sampled: GrantId(0),
            last_slow: Instant::ZERO,
            sweep_now: true,
            spare,
            buffer: vec![0; MAX_MESSAGE],
        };
        server.adopt(records)?;
        Ok(server)
    }

    /// Serves until SIGTERM or SIGINT. Grants stay in force and in the ledger: the next broker takes
    /// them up.
    pub fn run(mut self) -> Result<(), ServeError> {
        info!(
            grants = self.grants.len(),
            order = ?self.means.order,
            may_limit = self.powers.may_limit,
            cpus = self.means.cpus.len(),
            "broker ready"
        );
        self.manager.ready();
        let mut events = Vec::with_capacity(BATCH);
        let mut next_tick = clock::now();
        loop {
            let now = clock::now();
            let wait = next_tick.saturating_since(now).as_nanos();
            let timeout = Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as _,
            };
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(other) => return Err(other.into()),
            }
            for event in events.drain(..) {
                self.handle(event.data.u64(), event.flags);
            }
            if self.signals.end() {
                info!("broker ends; what is granted stays in force for its successor");
                self.write_refusals();
                self.manager.stopping();
                return Ok(());
            }
            let now = clock::now();
            if now >= next_tick {
                self.tick(now);
                self.manager.alive();
                next_tick = now + self.config.sample;
            }
        }
    }

    fn handle(&mut self, source: u64, flags: epoll::EventFlags) {
        // Something earlier in the same batch may have ended it.
        match self.sources.get(&source).copied() {
            None => {}
            Some(Source::Listener) => self.accept_some(),
            Some(Source::Signals) if self.signals.reload() => self.reload(),
            Some(Source::Signals) => {}
            Some(Source::Connection(id)) => self.turn(id, flags),
            Some(Source::Process(id)) => self.process_ended(id),
        }
    }

    fn tick(&mut self, now: Instant) {
        self.look_at_use(now);
        self.look_at_remnants();
        self.end_the_lonely(now);
        self.revoke_what_is_over(now);
        if now.saturating_since(self.last_slow) >= SLOW || self.sweep_now {
            self.last_slow = now;
            self.banned.retain(|_, until| *until > now);
            self.sweep();
            self.write_refusals();
            self.hold_against_the_host(now);
        }
    }

    fn write_refusals(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        let refusals = std::mem::take(&mut self.unwritten);
        if let Err(why) = self.ledger.refused(&refusals) {
            warn!(%why, "refusals are not remembered");
        }
    }

    /// Reads the configuration again. A bad one changes nothing.
    fn reload(&mut self) {
        self.manager.reloading();
        let read = read_config(&self.options)
            .and_then(|config| Ok((means(&config, self.powers)?, config)));
        match read {
            // Threads stand where the order of the start has put them.
            Ok((means, _)) if means.order != self.means.order => {
                warn!("upcalls = changes only with a restart; the configuration stays as it is");
            }
            Ok((means, config)) => {
                info!("configuration reloaded");
                (self.means, self.config) = (means, config);
                self.rebuild(clock::now());
            }
            Err(why) => error!(%why, "the configuration stays as it is"),
        }
        self.manager.ready();
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
        // Not registered any more only if it was closed: then there is nothing to do.
        let _ = epoll::delete(&self.epoll, fd);
        self.sources.remove(&number);
    }
}
