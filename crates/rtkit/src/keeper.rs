//! The grants of all programs, and the connections to the broker for them.
//!
//! There is a connection for each process with a grant, which asks on its behalf
//! ([`Broker::connect_for`]). The broker frees what an ended process had by itself; so the keeper
//! only answers events, and connects again when the broker was replaced.
//!
//! Requests come from the bus, at most one at a time; [`Keeper::watch`] runs on a thread of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration as Time;

use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, Want};
use punctual_client::wire::{Event, Offered};
use punctual_client::{Broker, ClientError, Granted, RequestError};
use punctual_linux::thread::Tid;
use punctual_model::units::percent;
use punctual_model::{Duration, Service, Upcall, UpcallError, UpcallSpec};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::config::{Config, Rule};
use crate::saved::{self, SavedProcess, SavedThread};
use crate::target::Process;

/// The time to wait for the broker's answer. It answers within milliseconds, or is stopped.
const PATIENCE: Time = Time::from_secs(2);

/// The time between two attempts to find a broker again. It keeps grants without connection for some
/// seconds (its `grace`).
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Events of one wait.
const BATCH: usize = 64;

/// The reason why a thread gets nothing.
#[derive(Debug, Error)]
pub(crate) enum Denied {
    /// The configuration says so.
    #[error("threads of \"{comm}\" get nothing here: allow = false in /etc/punctual/rtkit.toml")]
    NotAllowed {
        /// The program.
        comm: String,
    },
    /// The thread is not the process's.
    #[error(
        "thread {thread} is no thread of process {pid}; give the kernel's id (gettid(2)), as this \
         service sees it, of one of your own"
    )]
    NotYours {
        /// The thread.
        thread: u64,
        /// The process.
        pid: i32,
    },
    /// The broker gives threads no priority.
    #[error(
        "the broker lets threads raise themselves, which callers of RealtimeKit do not do: set \
         upcalls = \"fixed-level\" in /etc/punctual/broker.toml"
    )]
    LevelOrder,
    /// The broker refused, or there is no answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The configured grant is none.
    #[error(transparent)]
    Grant(#[from] UpcallError),
    /// The kernel has no descriptors left.
    #[error("the broker's connection cannot be watched: {0}")]
    Watch(#[from] Errno),
}

impl From<ClientError> for Denied {
    fn from(error: ClientError) -> Self {
        Self::Request(error.into())
    }
}

/// A thread with its grant.
#[derive(Debug)]
struct Given {
    /// Distinguishes the thread from a later one with the same id.
    start: u64,
    granted: Granted,
}

/// A process with at least one grant.
#[derive(Debug)]
struct Served {
    process: Process,
    /// `None`: the broker is away.
    connection: Option<Broker>,
    given: Vec<Given>,
}

/// Holds the grants. [`Self::grant`] and [`Self::nice`] wait for the broker.
#[derive(Debug)]
pub(crate) struct Keeper {
    config: Config,
    broker: PathBuf,
    saved: PathBuf,
    epoll: OwnedFd,
    /// The processes by their ids.
    served: Mutex<BTreeMap<i32, Served>>,
}

impl Keeper {
    /// Opens a keeper with the grants that an earlier one saved. They are resumed by
    /// [`Self::watch`].
    ///
    /// # Errors
    /// If the kernel has no descriptors left.
    pub(crate) fn open(config: Config, broker: PathBuf, saved: PathBuf) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let keeper = Self { config, broker, saved, epoll, served: Mutex::default() };
        for SavedProcess { holder, threads } in saved::read(&keeper.saved) {
            // Processes that have ended meanwhile need nothing.
            let Ok(process) = Process::open(holder.pid) else { continue };
            if process.holder != holder {
                continue;
            }
            let given = threads.into_iter().filter_map(|SavedThread { start, grant }| {
                Some(Given { start, granted: Granted::try_from(grant).ok()? })
            });
            let served = Served { process, connection: None, given: given.collect() };
            keeper.keep(&mut keeper.lock(), served)?;
        }
        Ok(keeper)
    }

    /// Gives `thread` of `process` its grant, or keeps the one that it has.
    ///
    /// # Errors
    /// The broker's refusal with its numbers, or why there is no answer.
    pub(crate) fn grant(&self, process: Process, thread: u64) -> Result<(), Denied> {
        let rule = self.config.rule_of(&process.comm);
        if !rule.allow {
            return Err(Denied::NotAllowed { comm: process.comm.clone() });
        }
        let (thread, start) = thread_of(&process, thread)?;
        let mut table = self.lock();
        let mut served = self.connected(&mut table, process)?;
        let done = served.grant(thread, start, rule);
        let outcome = self.keep_or_drop(&mut table, served);
        done.and(outcome)
    }

    /// Gives `thread` of `process` this nice value, in place of a grant that it has.
    ///
    /// # Errors
    /// Why the broker did not set it.
    pub(crate) fn nice(&self, process: Process, thread: u64, nice: i32) -> Result<(), Denied> {
        let (thread, _) = thread_of(&process, thread)?;
        let mut table = self.lock();
        let mut served = self.connected(&mut table, process)?;
        let done = served.nice(thread, nice);
        let outcome = self.keep_or_drop(&mut table, served);
        done.and(outcome)
    }

    /// Takes back all grants. Their threads become ordinary ones.
    ///
    /// # Errors
    /// The reason why the broker does not answer; some grants then stay.
    pub(crate) fn take_back(&self) -> Result<(), Denied> {
        let mut table = self.lock();
        let mut outcome = Ok(());
        for (_, mut served) in std::mem::take(&mut *table) {
            let pid = served.process.holder.pid;
            match served.take_back(self) {
                Ok(()) => info!(pid, program = served.process.comm, "taken back, as asked for"),
                Err(why) => outcome = Err(why.into()),
            }
            if !served.given.is_empty()
                && let Err(why) = self.keep(&mut table, served)
            {
                outcome = Err(why.into());
            }
        }
        self.save(&table);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a process out of the table, with a connection that answers.
    fn connected(
        &self,
        table: &mut BTreeMap<i32, Served>,
        process: Process,
    ) -> Result<Served, Denied> {
        let known = table.remove(&process.holder.pid);
        let mut served = match known {
            Some(served) if served.process.holder == process.holder => served,
            // An earlier process with the same id; the broker knows of its end.
            _ => Served { process, connection: None, given: Vec::new() },
        };
        // Also learns of what was revoked meanwhile.
        served.hear(&self.config);
        if served.connection.is_none()
            && let Err(why) = served.connect(self)
        {
            if !served.given.is_empty() {
                self.keep(table, served)?;
            }
            return Err(why.into());
        }
        Ok(served)
    }

    /// Puts a process into the table if it holds a grant, and saves the table.
    fn keep_or_drop(
        &self,
        table: &mut BTreeMap<i32, Served>,
        served: Served,
    ) -> Result<(), Denied> {
        if !served.given.is_empty() {
            self.keep(table, served)?;
        }
        self.save(table);
        Ok(())
    }

    /// Watches a process and its connection. A descriptor that is watched already stays so.
    fn keep(&self, table: &mut BTreeMap<i32, Served>, served: Served) -> Result<(), Errno> {
        let data = EventData::new_u64(u64::from(served.process.holder.pid.unsigned_abs()));
        let watch = |added: Result<(), Errno>| match added {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        };
        watch(epoll::add(&self.epoll, &served.process, data, EventFlags::IN))?;
        if let Some(connection) = &served.connection {
            watch(epoll::add(&self.epoll, connection, data, EventFlags::IN))?;
        }
        table.insert(served.process.holder.pid, served);
        Ok(())
    }

    fn save(&self, table: &BTreeMap<i32, Served>) {
        let threads = |served: &Served| {
            let thread =
                |one: &Given| SavedThread { start: one.start, grant: (&one.granted).into() };
            served.given.iter().map(thread).collect()
        };
        let all = table
            .values()
            .map(|served| SavedProcess { holder: served.process.holder, threads: threads(served) });
        if let Err(why) = saved::write(&self.saved, &all.collect::<Vec<_>>()) {
            warn!(file = %self.saved.display(), %why, "grants are not saved: they end with this service");
        }
    }

    /// Answers the broker's events, resumes grants after the broker was replaced, and forgets
    /// processes that have ended. Does not return while the kernel reports events.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub(crate) fn watch(&self) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            let waits = self.lock().values().any(|served| served.connection.is_none());
            let patience = waits.then_some(&RETRY);
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, patience) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(other) => return Err(other),
            }
            let mut table = self.lock();
            let mut pids: Vec<i32> =
                events.drain(..).filter_map(|event| i32::try_from(event.data.u64()).ok()).collect();
            let away = table.values().filter(|served| served.connection.is_none());
            pids.extend(away.map(|served| served.process.holder.pid));
            pids.sort_unstable();
            pids.dedup();
            let mut changed = false;
            for pid in pids {
                changed |= self.look_at(&mut table, pid);
            }
            if changed {
                self.save(&table);
            }
        }
    }

    /// Looks at a process of which there is news, or whose connection is to be made again. Returns
    /// whether its grants may have changed.
    fn look_at(&self, table: &mut BTreeMap<i32, Served>, pid: i32) -> bool {
        let Some(mut served) = table.remove(&pid) else { return false };
        if served.process.has_ended() {
            debug!(pid, program = served.process.comm, "process ended");
            return true;
        }
        let mut changed = served.hear(&self.config);
        if served.connection.is_none() {
            match served.connect(self) {
                Ok(()) => changed = true,
                Err(why) => debug!(pid, %why, "the broker is away"),
            }
        }
        if !served.given.is_empty()
            && let Err(why) = self.keep(table, served)
        {
            warn!(pid, %why, "the process cannot be watched: its grants end");
        }
        changed
    }
}

impl Served {
    /// Connects to the broker and resumes the grants.
    fn connect(&mut self, keeper: &Keeper) -> Result<(), ClientError> {
        let mut broker = Broker::connect_for(&keeper.broker, PATIENCE, self.process.holder)?;
        let (pid, program) = (self.process.holder.pid, &self.process.comm);
        for at in (0..self.given.len()).rev() {
            let granted = &mut self.given[at].granted;
            let thread = granted.want().thread;
            match broker.resume(granted) {
                Ok(()) => info!(grant = %granted.id(), pid, %thread, program, "resumed"),
                Err(RequestError::Client(why)) if !matches!(why, ClientError::Broker(_)) => {
                    return Err(why);
                }
                Err(why) => {
                    warn!(grant = %granted.id(), pid, %thread, program, %why, "the grant is over");
                    self.given.remove(at);
                }
            }
        }
        self.connection = Some(broker);
        Ok(())
    }

    fn grant(&mut self, thread: Tid, start: u64, rule: Rule) -> Result<(), Denied> {
        let Some(broker) = &mut self.connection else { return Err(ClientError::Closed.into()) };
        if let Some(at) = self.given.iter().position(|one| one.granted.want().thread == thread) {
            if self.given[at].start == start {
                return Ok(());
            }
            // The id has passed to another thread of the same process.
            release(broker, self.given.remove(at).granted)?;
        }
        // The broker ends the grants of ended threads by itself.
        let process = &self.process;
        self.given.retain(|one| process.thread_start(one.granted.want().thread) == Some(one.start));
        if broker.level_order() {
            return Err(Denied::LevelOrder);
        }
        let program = &self.process.comm;
        let (budget, period) = (rule.grant.budget(), rule.grant.period());
        let want = Want { thread, what: upcall(program, budget, period)? };
        let granted = match broker.request(&want) {
            Ok(granted) => granted,
            Err(why) => {
                // A broker that did not answer may still give it: without a connection that ends.
                if matches!(&why, RequestError::Client(why) if !matches!(why, ClientError::Broker(_)))
                {
                    self.connection = None;
                }
                return Err(why.into());
            }
        };
        let (grant, pid, uid) = (granted.id(), self.process.holder.pid, self.process.uid);
        info!(%grant, pid, uid, %thread, program, what = %granted.want().what, "granted");
        self.given.push(Given { start, granted });
        Ok(())
    }

    fn take_back(&mut self, keeper: &Keeper) -> Result<(), ClientError> {
        if self.connection.is_none() {
            self.connect(keeper)?;
        }
        let Some(broker) = &mut self.connection else { return Err(ClientError::Closed) };
        while let Some(one) = self.given.pop() {
            release(broker, one.granted)?;
        }
        Ok(())
    }

    fn nice(&mut self, thread: Tid, nice: i32) -> Result<(), Denied> {
        let Some(broker) = &mut self.connection else { return Err(ClientError::Closed.into()) };
        if let Some(at) = self.given.iter().position(|one| one.granted.want().thread == thread) {
            release(broker, self.given.remove(at).granted)?;
        }
        Ok(broker.set_nice(thread, nice)?)
    }

    /// Hears the events that have come. Returns whether a grant changed.
    fn hear(&mut self, config: &Config) -> bool {
        let Some(broker) = &mut self.connection else { return false };
        let mut heard = Vec::new();
        let outcome = broker.events(|grant, event| heard.extend(grant.map(|grant| (grant, event))));
        let changed = !heard.is_empty();
        for (grant, event) in heard {
            self.obey(config, grant, event);
        }
        if let Err(why) = outcome {
            info!(pid = self.process.holder.pid, %why, "the broker is gone");
            self.connection = None;
        }
        changed
    }

    /// Acts on an event about one of the grants. The process may hold others, which it asked for
    /// itself.
    fn obey(&mut self, config: &Config, id: GrantId, event: Event) {
        let Some(at) = self.given.iter().position(|one| one.granted.id() == id) else { return };
        match event {
            Event::NearLimit { used_ppm, .. } => self.grow(config, at, used_ppm),
            Event::Broken { used_ppm, granted_ppm, .. } => {
                let (used, granted) = (percent(used_ppm), percent(granted_ppm));
                let (pid, program) = (self.process.holder.pid, &self.process.comm);
                warn!(grant = %id, pid, program, used, granted, "uses more than its grant");
                self.grow(config, at, used_ppm);
            }
            Event::Choose { offers, .. } => self.shrink(at, &offers),
            Event::Revoked { why } => {
                let (pid, program) = (self.process.holder.pid, &self.process.comm);
                let thread = self.given[at].granted.want().thread;
                warn!(grant = %id, pid, %thread, program, why, "the thread is an ordinary one again");
                self.given.remove(at);
            }
            _ => {}
        }
    }

    /// Requests as much as a thread uses, with a quarter beyond, up to what its program may have.
    fn grow(&mut self, config: &Config, at: usize, used_ppm: u64) {
        let Some(broker) = &mut self.connection else { return };
        let (program, pid) = (&self.process.comm, self.process.holder.pid);
        let rule = config.rule_of(program);
        let granted = &mut self.given[at].granted;
        let has_ppm = granted.want().what.share_ppm();
        let wants_ppm = (used_ppm.saturating_mul(5) / 4).max(has_ppm * 2).min(rule.most_ppm);
        if wants_ppm <= has_ppm {
            return;
        }
        let period = rule.grant.period();
        // Rounded down: no more than the most.
        let nanos = u128::from(period.as_nanos()) * u128::from(wants_ppm) / 1_000_000;
        let budget = Service::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let Ok(what) = upcall(program, budget, period) else { return };
        let (grant, wants) = (granted.id(), percent(wants_ppm));
        match granted.change(broker, what) {
            Ok(()) => info!(%grant, pid, program, share = wants, "uses more, and got it"),
            Err(why) => {
                warn!(%grant, pid, program, share = wants, %why, "uses more than it can get")
            }
        }
    }

    /// Takes the broker's first offer for the time in which the host can promise less.
    fn shrink(&mut self, at: usize, offers: &[Offered]) {
        let Some(broker) = &mut self.connection else { return };
        let granted = &mut self.given[at].granted;
        let (grant, pid) = (granted.id(), self.process.holder.pid);
        let offer = offers.first().and_then(|offer| Want::try_from(offer.want.clone()).ok());
        let Some(offer) = offer else { return };
        match granted.change(broker, offer.what) {
            Ok(()) => info!(%grant, pid, what = %granted.want().what, "the host has less: changed"),
            Err(why) => warn!(%grant, pid, %why, "the host has less, and the grant may end"),
        }
    }
}

fn release(broker: &mut Broker, granted: Granted) -> Result<(), ClientError> {
    use punctual_client::ReleaseError;
    match granted.release(broker) {
        // The broker had ended it.
        Ok(()) | Err(ReleaseError::Client(ClientError::Broker(_))) => Ok(()),
        Err(ReleaseError::Client(why)) => Err(why),
        // Only of reservations, which are not requested here.
        Err(_) => Ok(()),
    }
}

fn thread_of(process: &Process, thread: u64) -> Result<(Tid, u64), Denied> {
    let pid = process.holder.pid;
    // As with rtkit, zero is the first thread.
    let id = if thread == 0 { Some(pid) } else { i32::try_from(thread).ok() };
    let found = id.and_then(Tid::from_raw).and_then(|id| Some((id, process.thread_start(id)?)));
    found.ok_or(Denied::NotYours { thread, pid })
}

/// Returns the guarantee of `budget` in every `period`.
fn upcall(program: &str, budget: Service, period: Duration) -> Result<Guarantee, UpcallError> {
    let spec = UpcallSpec {
        name: format!("rtkit {program}"),
        period,
        batch: 1,
        quantum: 1,
        time_per_pdu: budget,
    };
    Ok(Guarantee::Upcalls(vec![Upcall::new(spec)?]))
}
