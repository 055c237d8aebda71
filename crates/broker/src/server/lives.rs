//! Processes with grants: they end, lose their connection, come back; and so does the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::rc::Rc;

use punctual_linux::clock;
use punctual_model::Instant;
use tracing::{info, warn};

use super::{Server, Source};
use crate::books::{Asker, Order};
use crate::grant::GrantId;
use crate::kernel::give::{remains, remnant};
use crate::kernel::peer::{Peer, Process};
use crate::kernel::sweep::{Allowed, sweep};
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
    pub(super) meter: Option<Meter>,
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
        for record in records {
            // Its children may live.
            self.watched.insert(record.uid);
            self.remember_limits(&record);
            let (id, pid) = (record.id, record.process.pid);
            if record.remnant {
                self.keep_remnant(record);
                continue;
            }
            match self.adopt_one(record, now) {
                Ok(()) => {}
                Err(why) => {
                    info!(%id, pid, why, "grant not adopted");
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
        let asker = self.asker(record.uid, &record.gids);
        let cpu = match self.books.enter(record.id, &asker, &want.what, now) {
            Ok(cpu) => cpu,
            Err(denied) => {
                let others = self.held.contains_key(&record.process);
                if self.means.take_back(
                    &process,
                    &want,
                    record.thread_start,
                    record.old_limits,
                    others,
                ) {
                    self.remain(record);
                }
                return Err(format!("the host has no room for it any more: {denied}"));
            }
        };
        let peer = Peer { process, uid: record.uid, gids: record.gids.clone() };
        let peer = self
            .held
            .get(&record.process)
            .map_or_else(|| Rc::new(peer), |held| Rc::clone(&held.peer));
        let (id, process) = (record.id, record.process);
        let (started, old_limits) = (record.thread_start, record.old_limits);
        if let Err(why) = self.hold(&peer, record, want.clone(), cpu) {
            let others = self.held.contains_key(&process);
            let _ = self.means.take_back(&peer.process, &want, started, old_limits, others);
            self.books.release(id, now);
            return Err(format!("its process cannot be watched: {why}"));
        }
        if let Some(held) = self.held.get_mut(&process) {
            held.lonely_since = Some(now);
        }
        Ok(())
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
        if !self.held.contains_key(&process) {
            let source = self.watch(peer.process.as_fd(), Source::Process(process))?;
            let held =
                Held { peer: Rc::clone(peer), source, grants: BTreeSet::new(), lonely_since: None };
            self.held.insert(process, held);
        }
        if let Some(held) = self.held.get_mut(&process) {
            held.grants.insert(record.id);
        }
        self.watched.insert(record.uid);
        self.remember_limits(&record);
        let meter = Meter::open(process.pid, want.thread, clock::now()).ok();
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
        self.forget(&ids);
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
        let remnant = self.take_back(id).then(|| live_record(&self.grants, id)).flatten();
        self.forget(&[id]);
        if let Some(record) = remnant {
            self.remain(record);
        }
    }

    /// The grant has ended, and its thread has not left SCHED_DEADLINE yet.
    fn remain(&mut self, record: Record) {
        let record = Record { remnant: true, ..record };
        if let Err(why) = self.ledger.enter(&record) {
            warn!(%why, id = %record.id, "a remnant is not in the ledger");
        }
        self.keep_remnant(record);
    }

    fn keep_remnant(&mut self, record: Record) {
        if let Ok(Want { what: What::Reservation(reservation), .. }) =
            Want::try_from(record.want.clone())
        {
            self.books.remains(record.id, remnant(reservation));
            self.remnants.insert(record.id, record);
        }
    }

    /// Strikes out the remnants of threads that have left, ended, or been granted something else.
    pub(super) fn look_at_remnants(&mut self) {
        let granted = |pid, thread| {
            self.grants
                .values()
                .any(|live| live.record.process.pid == pid && live.want.thread == thread)
        };
        let left = self.remnants.values().filter(|record| {
            let Ok(Want { thread, .. }) = Want::try_from(record.want.clone()) else { return true };
            let pid = record.process.pid;
            granted(pid, thread) || !remains(pid, thread, record.thread_start)
        });
        let left: Vec<GrantId> = left.map(|record| record.id).collect();
        if left.is_empty() {
            return;
        }
        if let Err(why) = self.ledger.strike(&left) {
            warn!(%why, "remnants stay in the ledger");
        }
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

    /// Whether a remnant stays.
    fn take_back(&mut self, id: GrantId) -> bool {
        let Some(live) = self.grants.get(&id) else { return false };
        let Some(held) = self.held.get(&live.record.process) else { return false };
        // Only upcalls and bare priority stand on limits.
        let limited = |other: &GrantId| {
            self.grants.get(other).is_some_and(|other| other.record.old_limits.is_some())
        };
        let others = held.grants.iter().any(|other| *other != id && limited(other));
        let Live { want, record, .. } = live;
        self.means.take_back(
            &held.peer.process,
            want,
            record.thread_start,
            record.old_limits,
            others,
        )
    }

    /// Strikes out what is in force no longer.
    fn forget(&mut self, ids: &[GrantId]) {
        if let Err(why) = self.ledger.strike(ids) {
            // It will be found dead, or taken back, at the next start.
            warn!(%why, "grants stay in the ledger");
        }
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
        if self.watched.is_empty() {
            return;
        }
        let mut allowed = Allowed { old_limits: self.old_limits.clone(), ..Allowed::default() };
        for live in self.grants.values() {
            allowed.threads.insert(live.want.thread.as_raw(), live.record.thread_start);
            if self.means.order == Order::Ceiling && live.want.what.kind() == Kind::Upcalls {
                allowed.processes.insert(live.record.process);
            }
        }
        let found = sweep(&self.watched, &allowed);
        if found > 0 {
            warn!(found, "threads or limits that no grant covers were put back");
            // What forks while it is looked for is found the next time.
            self.sweep_now = true;
            return;
        }
        let holds: BTreeMap<u32, ()> = self.held.values().map(|held| (held.peer.uid, ())).collect();
        self.watched.retain(|uid| holds.contains_key(uid));
        self.old_limits.retain(|uid, _| holds.contains_key(uid));
    }

    pub(super) fn asker(&self, uid: u32, gids: &[u32]) -> Asker {
        Asker { uid, quota: self.config.quotas.of(uid, gids) }
    }
}

fn live_record(grants: &BTreeMap<GrantId, Live>, id: GrantId) -> Option<Record> {
    grants.get(&id).map(|live| live.record.clone())
}
