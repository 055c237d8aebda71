//! Processes with grants: they end, lose their connection, come back; and so does the broker.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use punctual_linux::clock;
use punctual_linux::thread::Tid;
use punctual_model::Instant;
use rustix::io::Errno;
use tracing::{info, warn};

use super::{Server, Source};
use crate::books::{Asker, Order};
use crate::grant::GrantId;
use crate::kernel::peer::{Peer, Process};
use crate::kernel::sweep::{Allowed, sweep};
use crate::kernel::take::{Beside, moved_to, remains, remnant};
use crate::kernel::usage::Meter;
use crate::ledger::{LedgerError, ProcessId, Record};
use crate::want::{Kind, Want, What};
use crate::wire::Event;

/// A process with at least one grant.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) peer: Rc<Peer>,
    source: u64,
    pub(super) grants: BTreeSet<GrantId>,
    /// Since when no connection of it is there.
    pub(super) lonely_since: Option<Instant>,
}

/// A grant in force.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) want: Want,
    pub(super) cpu: Option<u32>,
    pub(super) meter: Meter,
    /// Whether its holder was told that it nears its limit.
    pub(super) near: bool,
    /// Windows in a row with more use than granted.
    pub(super) broken: u32,
}

impl Server {
    /// Takes up the grants of a broker before this one.
    pub(super) fn adopt(&mut self, records: Vec<Record>) -> Result<(), LedgerError> {
        let now = clock::now();
        let mut gone = Vec::new();
        // What threads have kept is there whatever is decided of the others.
        let (left, records): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.remnant);
        for record in left {
            self.keep_remnant(record);
        }
        for record in records {
            // Its children may live.
            self.watched.insert(record.uid);
            self.remember_limits(&record);
            let (id, pid) = (record.id, record.process.pid);
            if let Err(why) = self.adopt_one(record, now) {
                info!(%id, pid, why, "grant not adopted");
                // What is left of it keeps its place in the ledger.
                if !self.remnants.contains_key(&id) {
                    gone.push(id);
                }
            }
        }
        if gone.is_empty() { Ok(()) } else { self.ledger.strike(&gone) }
    }

    fn adopt_one(&mut self, record: Record, now: Instant) -> Result<(), String> {
        let want = Want::try_from(record.want.clone()).map_err(|why| why.to_string())?;
        let process = Process::find(record.process).ok_or("its process has ended")?;
        if process.thread_start(want.thread) != Some(record.thread_start) {
            return Err("its thread has ended".into());
        }
        let (id, started) = (record.id, record.thread_start);
        let asker = self.asker(record.uid, &record.gids);
        let cpu = match self.books.enter(id, &asker, &want.what, now) {
            Ok(cpu) => cpu,
            Err(denied) => {
                self.not_adopted(&process, &record, &want, now);
                return Err(format!("the host has no room for it any more: {denied}"));
            }
        };
        // The broker before may have died in the middle of a change: what the books say holds.
        if let Err(why) = self.means.give(&process, record.uid, &want, started, cpu) {
            self.not_adopted(&process, &record, &want, now);
            return Err(format!("it cannot be put in force again: {why}"));
        }
        let peer = Peer { process, uid: record.uid, gids: record.gids.clone() };
        let peer = self
            .held
            .get(&record.process)
            .map_or_else(|| Rc::new(peer), |held| Rc::clone(&held.peer));
        let process = record.process;
        if let Err(why) = self.hold(&peer, record.clone(), want.clone(), cpu) {
            self.not_adopted(&peer.process, &record, &want, now);
            return Err(format!("its process cannot be watched: {why}"));
        }
        if let Some(held) = self.held.get_mut(&process) {
            held.lonely_since = Some(now);
        }
        Ok(())
    }

    fn not_adopted(&mut self, process: &Process, record: &Record, want: &Want, now: Instant) {
        match self.take_from(process, record, want) {
            Some(remnant) => self.remain(remnant),
            None => self.books.release(record.id, now),
        }
    }

    /// Keeps a grant that is in force, and its process in sight.
    pub(super) fn hold(
        &mut self,
        peer: &Rc<Peer>,
        record: Record,
        want: Want,
        cpu: Option<u32>,
    ) -> rustix::io::Result<()> {
        let process = record.process;
        // Nothing is granted that cannot be watched.
        let meter = Meter::open(process.pid, want.thread, clock::now())
            .map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::IO))?;
        if !self.held.contains_key(&process) {
            let source = self.watch(peer.process.as_fd(), Source::Process(process))?;
            let held =
                Held { peer: Rc::clone(peer), source, grants: BTreeSet::new(), lonely_since: None };
            self.held.insert(process, held);
        }
        if let Some(held) = self.held.get_mut(&process) {
            held.grants.insert(record.id);
            held.lonely_since = None;
        }
        self.watched.insert(record.uid);
        self.remember_limits(&record);
        self.grants.insert(record.id, Live { record, want, cpu, meter, near: false, broken: 0 });
        Ok(())
    }

    fn remember_limits(&mut self, record: &Record) {
        if let Some(old) = record.old_limits {
            self.old_limits.entry(record.uid).or_insert((old, record.process.start));
        }
    }

    /// The process of some grants is gone, and with it everything the kernel had given it.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        let Some(held) = self.held.get(&process) else { return };
        let ids: Vec<GrantId> = held.grants.iter().copied().collect();
        info!(pid = process.pid, uid = held.peer.uid, grants = ids.len(), "process ended");
        self.strike(&ids);
        self.forget(&ids);
    }

    /// A process asks for one of its grants, so it is there.
    pub(super) fn is_back(&mut self, peer: &Peer) {
        if let Some(held) = self.held.get_mut(&peer.process.id) {
            held.lonely_since = None;
        }
    }

    /// The connection of some processes did not come back in time.
    pub(super) fn end_the_lonely(&mut self, now: Instant) {
        let grace = self.config.grace;
        let late = |held: &&Held| {
            held.lonely_since.is_some_and(|since| now.saturating_since(since) >= grace)
        };
        let ids: Vec<GrantId> =
            self.held.values().filter(late).flat_map(|held| held.grants.iter().copied()).collect();
        for id in ids {
            self.end(id, "no connection within the grace period");
        }
    }

    /// Takes a grant back from a process that may live.
    pub(super) fn end(&mut self, id: GrantId, why: &str) {
        let Some(live) = self.grants.get(&id) else { return };
        info!(%id, uid = live.record.uid, pid = live.record.process.pid, why, "grant ends");
        match self.take_back(id) {
            // In place of the grant: at no moment the ledger has neither.
            Some(record) => self.remain(record),
            None => self.strike(&[id]),
        }
        self.forget(&[id]);
    }

    /// The grant has ended, and its thread has not left SCHED_DEADLINE yet.
    pub(super) fn remain(&mut self, record: Record) {
        if let Err(why) = self.ledger.enter(&record) {
            warn!(%why, id = %record.id, "a remnant is not in the ledger");
        }
        self.keep_remnant(record);
    }

    fn keep_remnant(&mut self, record: Record) {
        if let Ok(Want { what: What::Reservation(had), .. }) = Want::try_from(record.want.clone()) {
            let asker = self.asker(record.uid, &record.gids);
            self.books.remains(record.id, &asker, had, remnant(had), clock::now());
            self.remnants.insert(record.id, record);
        }
    }

    /// Strikes out the remnants of threads that have left, ended, or been granted something else.
    pub(super) fn look_at_remnants(&mut self) {
        let (mut left, mut moved) = (Vec::new(), Vec::new());
        for record in self.remnants.values() {
            let (thread, pid) = (record.want.thread(), record.process.pid);
            let stays = Tid::from_raw(thread)
                .is_some_and(|thread| remains(pid, thread, record.thread_start));
            if self.is_granted(record.process, thread) {
                left.push(record.id);
            } else if !stays {
                match moved_to(record) {
                    Some(to) if thread != pid && !self.is_taken(record, pid) => {
                        moved.push(record.left_by(to.thread, to.started));
                    }
                    _ => left.push(record.id),
                }
            }
        }
        for record in moved {
            info!(id = %record.id, pid = record.process.pid, "a remnant went through execve(2)");
            self.remain(record);
        }
        if left.is_empty() {
            return;
        }
        self.strike(&left);
        for id in left {
            self.remnants.remove(&id);
            self.books.has_left(id);
        }
        self.tell_of_room();
    }

    pub(super) fn revoke(&mut self, id: GrantId, why: &str) {
        self.tell(id, &Event::Revoked { why: why.into() });
        self.end(id, why);
    }

    fn take_back(&mut self, id: GrantId) -> Option<Record> {
        let live = self.grants.get(&id)?;
        let peer = Rc::clone(&self.held.get(&live.record.process)?.peer);
        let (record, want) = (live.record.clone(), live.want.clone());
        self.take_from(&peer.process, &record, &want)
    }

    /// Takes back from the thread whatever it has of a grant, which need not be held; what is left.
    pub(super) fn take_from(
        &mut self,
        process: &Process,
        record: &Record,
        want: &Want,
    ) -> Option<Record> {
        let beside = Beside {
            // Only upcalls and bare priority stand on limits.
            limited: self.grants.values().any(|other| {
                other.record.id != record.id
                    && other.record.process == process.id
                    && other.record.old_limits.is_some()
            }),
            leader: self.is_taken(record, process.id.pid),
        };
        if self.means.order == Order::Ceiling && record.old_limits.is_some() && !beside.limited {
            self.lowered.insert(process.id);
        }
        let left = self.means.take_back(process, want, record, beside)?;
        Some(record.left_by(left.thread, left.started))
    }

    fn is_granted(&self, process: ProcessId, thread: i32) -> bool {
        let of =
            |live: &Live| live.record.process == process && live.record.want.thread() == thread;
        self.grants.values().any(of)
    }

    /// Whether a thread of the process has another grant than `record`, or what is left of one.
    fn is_taken(&self, record: &Record, thread: i32) -> bool {
        let live = self.grants.values().map(|live| &live.record);
        live.chain(self.remnants.values()).any(|other| {
            other.id != record.id
                && other.process == record.process
                && other.want.thread() == thread
        })
    }

    fn strike(&self, ids: &[GrantId]) {
        if let Err(why) = self.ledger.strike(ids) {
            // It will be found dead, or taken back, at the next start.
            warn!(%why, "grants stay in the ledger");
        }
    }

    /// Takes out of the books what is in force no longer.
    fn forget(&mut self, ids: &[GrantId]) {
        let now = clock::now();
        for id in ids {
            self.books.release(*id, now);
            self.over.remove(id);
            let Some(live) = self.grants.remove(id) else { continue };
            let process = live.record.process;
            let Some(held) = self.held.get_mut(&process) else { continue };
            held.grants.remove(id);
            if held.grants.is_empty()
                && let Some(held) = self.held.remove(&process)
            {
                self.unwatch(&held.peer.process, held.source);
            }
        }
        self.sweep_now = true;
        self.tell_of_room();
    }

    /// Looks for real-time threads that nobody was granted.
    pub(super) fn sweep(&mut self) {
        self.sweep_now = false;
        // At fixed levels nothing is passed on (SCHED_RESET_ON_FORK).
        if self.watched.is_empty() || self.means.order == Order::Level {
            return;
        }
        let mut allowed = Allowed { old_limits: self.old_limits.clone(), ..Allowed::default() };
        for live in self.grants.values() {
            allowed.threads.insert(live.want.thread.as_raw(), live.record.thread_start);
            if live.want.what.kind() == Kind::Upcalls {
                allowed.processes.insert(live.record.process);
            }
        }
        let swept = sweep(&self.watched, &allowed, &mut self.lowered);
        if swept.put_back > 0 {
            warn!(found = swept.put_back, "threads or limits that no grant covers were put back");
            // What forks while it is looked for is found the next time.
            self.sweep_now = true;
        }
        if swept.put_back + swept.unclear > 0 {
            return;
        }
        self.lowered.clear();
        let holds: BTreeSet<u32> = self.held.values().map(|held| held.peer.uid).collect();
        self.watched.retain(|uid| holds.contains(uid));
        self.old_limits.retain(|uid, _| holds.contains(uid));
    }

    pub(super) fn asker(&self, uid: u32, gids: &[u32]) -> Asker {
        Asker { uid, quota: self.config.quotas.of(uid, gids) }
    }
}
