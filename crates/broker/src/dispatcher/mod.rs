//! The dispatcher: the process that holds whole programs in deferrable servers.
//!
//! It is a process of its own, because that takes privileges that the broker has given up: to move
//! processes of others into control groups (CAP_DAC_OVERRIDE, and root for version 1), and to count
//! their time there (CAP_PERFMON, or CAP_SYS_ADMIN where the kernel asks for that). It takes orders of the broker alone, and makes nothing that a client
//! names but a process, which the broker has seen.
//!
//! The servers are those of `punctual run` ([`punctual_runtime::reservation`]), one thread each. A
//! program of another user is not trusted, so a thread above all programs looks at each of them
//! regularly ([`Confined`]) and makes one that broke out an ordinary program.
//!
//! When the broker ends the dispatcher ends, and what it held goes on as ordinary programs until the
//! next broker adopts them.

mod keeper;
mod messages;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use punctual_client::grant::GrantId;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_runtime::reservation::{
    Breakout, Confined, DISPATCHER, Facts, Held, Kind, Refused, Reservations, Settings, StartError,
    Wish, choose_server,
};
use rustix::event::{PollFd, PollFlags, poll};

pub(crate) use self::keeper::Keeper;
use self::messages::Account;
pub(crate) use self::messages::{News, Order, Program};
use crate::kernel::peer::Process;
use crate::kernel::privileges::drop_all_but_those_for_programs;
use crate::kernel::seccomp::{Role, confine};
use crate::link::{Link, LinkError, MAX_LINK};

/// The interval of looks at the threads of programs.
const LOOK: Duration = Duration::from_millis(100);

/// The interval of reports of use.
const REPORT: Duration = Duration::from_secs(1);

/// The most programs: as many groups as one guard of the runtime watches.
const MOST: usize = 64;

/// How long the dispatcher of an earlier broker may still have a CPU.
const HANDOVER: Duration = Duration::from_secs(2);

/// Holds programs until the broker is gone.
///
/// # Errors
/// If the broker does not keep to the order of messages.
pub(crate) fn run(link: Link) -> Result<(), LinkError> {
    let mut buffer = vec![0; MAX_LINK];
    let Some(Order::Begin { allowance }) = link.receive(&mut buffer)? else {
        return Err(LinkError::OutOfOrder);
    };
    // Leave the terminal's process group, so that its keys do not end it with the broker. An error
    // means that it leads its group already.
    let _ = rustix::process::setsid();
    match Dispatcher::prepare(Service::from_nanos(allowance)) {
        Ok(dispatcher) => {
            link.send(&News::Begun(Ok(())))?;
            dispatcher.obey_until_the_end(&link, &mut buffer)
        }
        Err(why) => link.send(&News::Begun(Err(why))),
    }
}

/// A held program.
struct Entry {
    held: Held,
    watched: Arc<Watched>,
    /// Its use within its budgets at the last report.
    used: Service,
    /// Whether it has been held so since its grant began.
    is_whole: bool,
}

impl Entry {
    /// Returns the account since the grant began, if it is known.
    fn account(&self) -> Option<Account> {
        // The part before the whole: the program may be running.
        let inside = self.held.used_inside().filter(|_| self.is_whole)?.as_nanos();
        Some(Account { inside, all: self.held.used()?.as_nanos().max(inside) })
    }
}

struct Dispatcher {
    reservations: Reservations,
    programs: BTreeMap<GrantId, Entry>,
    sentinel: Sentinel,
    /// Leads to the thread that removes groups.
    disposal: Sender<Held>,
    began: Instant,
    reported: Instant,
}

impl Dispatcher {
    /// Gives up all other privileges, and checks that programs can be held here. The reason in words
    /// if not.
    ///
    /// Call it while the process has one thread: capabilities belong to a thread.
    fn prepare(allowance: Service) -> Result<Self, String> {
        let words = |why: &dyn std::fmt::Display| why.to_string();
        drop_all_but_those_for_programs().map_err(|why| words(&why))?;
        let settings = Settings { context_switch: allowance, ..Settings::default() };
        let facts = Facts::probe(&settings);
        facts.freezer.clone()?;
        let reservation = "100ms/1s".parse().map_err(|why| words(&why))?;
        let enforcement = Enforcement::Soft;
        let wish = Wish { reservation, kind: Kind::Process, enforcement, cpu: None, exact: true };
        choose_server(wish, &facts).map_err(|why| words(&why))?;
        let reservations = Reservations::on(facts, settings).map_err(|why| words(&why))?;
        confine(Role::Dispatcher).map_err(|why| words(&why))?;
        let sentinel = Sentinel::start().map_err(|why| words(&why))?;
        let now = clock::now();
        let (disposal, disposed) = mpsc::channel::<Held>();
        let of = reservations.clone();
        let dispose = move || {
            for held in disposed {
                drop(held);
                of.let_idle_cpus_go();
            }
        };
        std::thread::Builder::new()
            .name("disposal".into())
            .spawn(dispose)
            .map_err(|why| words(&why))?;
        let programs = BTreeMap::new();
        Ok(Self { reservations, programs, sentinel, disposal, began: now, reported: now })
    }

    fn obey_until_the_end(mut self, link: &Link, buffer: &mut [u8]) -> Result<(), LinkError> {
        loop {
            let mut fds = [PollFd::new(link, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&clock::timespec(LOOK.as_nanos())));
            if ready.is_ok_and(|ready| ready > 0) {
                match link.receive(buffer)? {
                    Some(Order::Hold(program)) => {
                        let (grant, outcome) = (program.grant, self.hold(&program));
                        link.send(&News::Done { grant, outcome })?;
                    }
                    Some(Order::Release(grant)) => {
                        let used = self.programs.get(&grant).and_then(Entry::account);
                        let entry = self.take_out(grant);
                        link.send(&News::Released { grant, used })?;
                        self.dispose(entry);
                    }
                    Some(Order::Begin { .. }) => return Err(LinkError::OutOfOrder),
                    None => {}
                }
            }
            self.report(link)?;
        }
    }

    fn hold(&mut self, program: &Program) -> Result<(), String> {
        let Program { grant, process: id, uid, hard, .. } = *program;
        let words = |why: &dyn std::fmt::Display| why.to_string();
        let period = Duration::from_nanos(program.period);
        let reservation = Reservation::new(Service::from_nanos(program.budget), period)
            .map_err(|why| words(&why))?;
        let cpu = program.cpu as usize;
        // The host may have lost its CPU.
        let is_elsewhere = self.programs.get(&grant).is_some_and(|one| one.held.cpu() != cpu);
        if is_elsewhere {
            let entry = self.take_out(grant);
            self.dispose(entry);
        }
        if let Some(entry) = self.programs.get_mut(&grant) {
            // A grant that is resumed is put in force again as it is.
            let is_other = entry.held.reservation() != reservation;
            let changed = is_other.then(|| entry.held.change(reservation));
            return changed.unwrap_or(Ok(())).map_err(|why| words(&why));
        }
        if self.programs.len() >= MOST {
            return Err(format!("the dispatcher holds {MOST} programs already, and no more"));
        }
        // As long as this is there, no other process has its id.
        let process = Process::find(id).ok_or("the process has ended")?;
        let enforcement = if hard { Enforcement::Hard } else { Enforcement::Soft };
        let held = loop {
            match self.reservations.serve(reservation, (id.pid, uid), enforcement, cpu) {
                Err(Refused::Start(StartError::Taken { .. }))
                    if clock::now() < self.began + HANDOVER =>
                {
                    clock::sleep(Duration::from_millis(10));
                }
                outcome => break outcome.map_err(|why| words(&why))?,
            }
        };
        // Its user may have exchanged it for another one meanwhile.
        if !process.belongs_to(uid) {
            return Err(format!("process {} does not run as user {uid} alone", id.pid));
        }
        let confined = held.confined().map_err(|why| words(&why))?;
        let watched = Arc::new(Watched { confined, broke_out: AtomicU8::new(0) });
        self.sentinel.watch(Arc::clone(&watched));
        let (used, is_whole) = (Service::ZERO, !is_elsewhere);
        self.programs.insert(grant, Entry { held, watched, used, is_whole });
        Ok(())
    }

    /// Has the group of a program that is an ordinary one removed, which can take long, and its CPU let
    /// go if it was the last there.
    fn dispose(&self, entry: Option<Entry>) {
        // Without the thread it is done here.
        if let Some(entry) = entry {
            let _ = self.disposal.send(entry.held);
        }
    }

    /// Makes a program an ordinary one.
    fn take_out(&mut self, grant: GrantId) -> Option<Entry> {
        let mut entry = self.programs.remove(&grant)?;
        self.sentinel.forget(&entry.watched);
        entry.held.end();
        Some(entry)
    }

    fn report(&mut self, link: &Link) -> Result<(), LinkError> {
        let broke_out = |(grant, entry): (&GrantId, &Entry)| Some((*grant, entry.watched.why()?));
        let broke_out: Vec<_> = self.programs.iter().filter_map(broke_out).collect();
        for (grant, why) in broke_out {
            let entry = self.take_out(grant);
            self.dispose(entry);
            link.send(&News::BrokeOut { grant, why })?;
        }
        let now = clock::now();
        let passed = now.saturating_since(self.reported);
        if passed >= REPORT && !self.programs.is_empty() {
            self.reported = now;
            let used = |(grant, entry): (&GrantId, &mut Entry)| {
                let used = entry.held.used_inside()?;
                let since = used.saturating_sub(std::mem::replace(&mut entry.used, used));
                Some((*grant, since.as_nanos().saturating_mul(1_000_000) / passed.as_nanos()))
            };
            let used = self.programs.iter_mut().filter_map(used).collect();
            link.send(&News::Used(used))?;
        }
        Ok(())
    }
}

/// The threads of a program, as the sentinel sees them.
#[derive(Debug)]
struct Watched {
    confined: Confined,
    /// 0 as long as it has not broken out, 1 if a thread moved, 2 if it has too many.
    broke_out: AtomicU8,
}

impl Watched {
    fn look(&self, buffer: &mut [u8]) {
        let Some(breakout) = self.confined.breakout(buffer) else { return };
        self.confined.lower(buffer);
        let number = match breakout {
            Breakout::Moved(_) => 1,
            Breakout::TooManyThreads => 2,
        };
        self.broke_out.store(number, Ordering::Relaxed);
    }

    fn why(&self) -> Option<String> {
        match self.broke_out.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(
                "a thread of it may run on other CPUs than the one where it was admitted".into(),
            ),
            _ => Some(format!(
                "it has more than {} threads, the most of a program",
                punctual_runtime::reservation::MOST_THREADS
            )),
        }
    }
}

/// The thread that looks at the programs, above all of them.
#[derive(Debug)]
struct Sentinel {
    /// The thread only tries to lock it.
    watched: Arc<Mutex<Vec<Arc<Watched>>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sentinel {
    fn start() -> std::io::Result<Self> {
        let watched = Arc::new(Mutex::new(Vec::with_capacity(MOST)));
        let ends = Arc::new(AtomicBool::new(false));
        let (theirs, end) = (Arc::clone(&watched), Arc::clone(&ends));
        let (ready_tx, ready) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            let class = Class::Fifo { priority: DISPATCHER - 1 };
            let raised = sched::set(thread::current(), class);
            let may_run = raised.is_ok();
            // The receiver waits for exactly this message.
            let _ = ready_tx.send(raised);
            if may_run {
                look_until(&end, &theirs);
            }
        };
        let thread = std::thread::Builder::new().name("sentinel".into()).spawn(body)?;
        let ended = |_| std::io::Error::other("the sentinel ended before it began");
        ready.recv().map_err(ended)?.map_err(std::io::Error::other)?;
        Ok(Self { watched, ends, thread: Some(thread) })
    }

    fn watch(&self, one: Arc<Watched>) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    fn forget(&self, one: &Arc<Watched>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|other| !Arc::ptr_eq(one, other));
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, the panic was printed then.
            let _ = thread.join();
        }
    }
}

/// Looks at all programs again and again. Allocates nothing, and waits for no lock.
fn look_until(end: &AtomicBool, watched: &Mutex<Vec<Arc<Watched>>>) {
    let mut buffer = [0; 4096];
    while !end.load(Ordering::Relaxed) {
        let Ok(watched) = watched.try_lock() else {
            // Its holder does not have the CPU.
            clock::sleep(Duration::from_millis(1));
            continue;
        };
        watched.iter().for_each(|one| one.look(&mut buffer));
        drop(watched);
        clock::sleep(LOOK);
    }
}
