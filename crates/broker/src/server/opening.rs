//! Opens a broker, in the order that its privileges need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd as _;

use punctual_analysis::UpcallOrder;
use punctual_client::want::Kind;
use punctual_client::wire::{GuardStatus, Listener};
use punctual_linux::awake::Below;
use punctual_linux::{clock, memory, thread};
use punctual_model::{Duration, Instant};
use rustix::event::epoll;
use tracing::info;

use super::adoption::relieve_guards;
use super::channels::{ChannelTrace, Channels, Discard};
use super::error::ServeError;
use super::manager::Manager;
use super::start::{Options, Signals, host_of, means, order, read_config, slot_allowance};
use super::{FRONT, Server, Source};
use crate::admission::AdmissionState;
use crate::config::Config;
use crate::dispatcher;
use crate::front::Front;
use crate::guard::Keeper;
use crate::kernel::persons::Persons;
use crate::kernel::privileges::{Account, drop_all_but_needed, needs_sys_nice};
use crate::kernel::usage::Meter;
use crate::ledger::Ledger;
use crate::link::Part;
use crate::pace::Pace;

/// The first number that no source of events has at the start.
const FIRST_SOURCE: u64 = 4;

/// Requests of a person in a second, and at once.
const A_SECOND: u32 = 20;

/// The time between two of them, in the long run.
const APART: Duration = Duration::from_millis(1_000 / A_SECOND as u64);

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
        let dispatcher = start_dispatcher(&config, &options)?;
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
        let mut sources =
            BTreeMap::from([(FRONT, Source::Front), (1, Source::Signals), (2, Source::Guard)]);
        if let Some(dispatcher) = dispatcher.as_ref().filter(|one| one.unable().is_none()) {
            epoll::add(&epoll, dispatcher, epoll::EventData::new_u64(3), input)?;
            sources.insert(3, Source::Dispatcher);
        }
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
            dispatcher,
            guard_looks: GuardStatus::default(),
            admission,
            ledger,
            next_source: FIRST_SOURCE,
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
        // A page that is being replaced would keep a carrier waiting, whatever its class.
        memory::avoid_huge_pages();
        let started = Channels::start(config, discard, below, trace);
        let channels = started.map_err(ServeError::Channels)?;
        self.admission.carry_channels(config.clone()).map_err(ServeError::NoRoomForChannels)?;
        self.channels = Some(channels);
        Ok(self.watch_carriers()?)
    }
}

/// Starts the process that holds programs, unless nobody may have them.
fn start_dispatcher(
    config: &Config,
    options: &Options,
) -> Result<Option<dispatcher::Keeper>, ServeError> {
    // A user whose limit was raised could raise the threads of a program above its server's level.
    let fixed = order(config) == UpcallOrder::FixedLevel;
    if !fixed || !config.quotas.allow(Kind::Program) {
        return Ok(None);
    }
    let command = (options.part)(Part::Dispatcher);
    let keeper = dispatcher::Keeper::start(command, slot_allowance(options));
    let keeper = keeper.map_err(ServeError::NoDispatcher)?;
    if let Some(why) = keeper.unable() {
        info!(why, "no programs can be held here");
    }
    Ok(Some(keeper))
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
