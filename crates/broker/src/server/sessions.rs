//! Client sessions: processes with grants end, lose their connection, come back.

use std::collections::BTreeSet;
use std::rc::Rc;

use punctual_analysis::UpcallOrder;
use punctual_linux::clock;
use punctual_model::Instant;
use tracing::{info, warn};

use super::{Held, Live, Server};
use crate::admission::Requester;
use crate::guard;
use crate::kernel::peer::{Peer, Process};
use crate::kernel::sweep::{Allowed, sweep};
use crate::kernel::take::Beside;
use crate::ledger::{ProcessId, Record};
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, Kind, Want};
use punctual_client::wire::Event;

impl Server {
    /// Keeps a grant that is in force, and watches its process.
    pub(super) fn hold(
        &mut self,
        peer: &Rc<Peer>,
        record: Record,
        want: Want,
        cpu: Option<u32>,
    ) -> rustix::io::Result<()> {
        let held = self.hold_process(peer)?;
        held.grants.insert(record.id);
        held.disconnected_since = None;
        self.watched.insert(record.uid);
        self.remember_limits(&record);
        self.grants.insert(record.id, Live { record, want, cpu, used_ppm: None });
        Ok(())
    }

    pub(super) fn remember_limits(&mut self, record: &Record) {
        if let Some(old) = record.old_limits {
            self.old_limits.entry(record.uid).or_insert((old, record.process.start));
        }
    }

    /// Handles the end of a process with grants; the kernel has taken everything back with it.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        let Some(held) = self.held.get(&process) else { return };
        let ids: Vec<GrantId> = held.grants.iter().copied().collect();
        let channels = held.channels.clone();
        let (uid, grants) = (held.peer.uid, ids.len());
        info!(pid = process.pid, uid, grants, channels = channels.len(), "process ended");
        let source = held.source;
        self.process_of_channels_ended(&channels);
        // Its children may be alive.
        for id in &ids {
            if let Some(what) = self.grants.get(id).map(|live| live.want.what.clone()) {
                self.let_program_go(*id, &what);
            }
        }
        self.strike(&ids);
        self.forget(&ids);
        // Its end is reported once; messages of its channels that still leave need no process.
        if let Some(held) = self.held.remove(&process) {
            self.unwatch(&held.peer.process, source);
        }
    }

    /// Notes that a process is connected: it has asked for one of its grants.
    pub(super) fn is_back(&mut self, peer: &Peer) {
        if let Some(held) = self.held.get_mut(&peer.process.id) {
            held.disconnected_since = None;
        }
    }

    /// Ends the grants of processes whose connection did not come back in time.
    pub(super) fn end_disconnected(&mut self, now: Instant) {
        let grace = self.config.grace;
        let late = |held: &&Held| {
            held.disconnected_since.is_some_and(|since| now.saturating_since(since) >= grace)
        };
        let ids: Vec<GrantId> =
            self.held.values().filter(late).flat_map(|held| held.grants.iter().copied()).collect();
        self.end_all(&ids, "no connection within the grace period");
        let late = |held: &&Held| {
            held.disconnected_since.is_some_and(|since| now.saturating_since(since) >= grace)
        };
        let ids: Vec<GrantId> = self
            .held
            .values()
            .filter(late)
            .flat_map(|held| held.channels.iter().copied())
            .collect();
        self.end_all_channels(&ids, "no connection within the grace period");
    }

    /// Takes a grant back from a process that may be alive.
    pub(super) fn end(&mut self, id: GrantId, why: &str) {
        self.end_all(&[id], why);
    }

    /// Takes grants back from processes that may be alive.
    fn end_all(&mut self, ids: &[GrantId], why: &str) {
        let (mut struck, mut left) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(live) = self.grants.get(id) else { continue };
            info!(%id, uid = live.record.uid, pid = live.record.process.pid, why, "grant ends");
            match self.take_back(*id) {
                Some(record) => {
                    self.keep_residual(record.clone());
                    left.push(record);
                }
                None => struck.push(*id),
            }
            // Forget it before the next one is taken back: that one may then be the last to use the
            // same limits.
            self.forget_one(*id);
        }
        if struck.is_empty() && left.is_empty() {
            return;
        }
        // One commit for all, because each takes time for which other clients wait. It strikes out
        // and enters together, so that the ledger never lacks both a grant and its residual.
        if let Err(why) = self.ledger.strike_and_keep(&struck, &left) {
            warn!(%why, "grants stay in the ledger");
        }
        self.after_forgetting();
    }

    pub(super) fn revoke(&mut self, id: GrantId, why: &str) {
        self.tell_holder(id, &Event::Revoked { why: why.into() });
        self.end(id, why);
    }

    fn take_back(&mut self, id: GrantId) -> Option<Record> {
        let live = self.grants.get(&id)?;
        let peer = Rc::clone(&self.held.get(&live.record.process)?.peer);
        let (record, want) = (live.record.clone(), live.want.clone());
        self.take_from(&peer.process, &record, &want)
    }

    /// Takes back everything that the thread has of a grant, which need not be held. Returns the
    /// residual.
    pub(super) fn take_from(
        &mut self,
        process: &Process,
        record: &Record,
        want: &Want,
    ) -> Option<Record> {
        self.let_program_go(record.id, &want.what);
        let beside = Beside {
            // Only upcalls and bare priority use limits.
            limited: self
                .records_of(process.id)
                .any(|other| other.id != record.id && other.old_limits.is_some()),
            leader: self.is_taken(record, process.id.pid),
        };
        if self.means.order == UpcallOrder::LevelOrder
            && record.old_limits.is_some()
            && !beside.limited
        {
            self.lowered.insert(process.id);
        }
        let left = self.means.take_back(process, want, record, beside)?;
        Some(record.left_by(left.thread, left.started))
    }

    /// Returns whether a thread of the process has another grant than `record`, or the residual of
    /// one.
    pub(super) fn is_taken(&self, record: &Record, thread: i32) -> bool {
        let left = self.residuals.values().filter(|other| other.process == record.process);
        self.records_of(record.process)
            .chain(left)
            .any(|other| other.id != record.id && other.want.thread() == thread)
    }

    /// Returns the ledger's record of each grant of a process.
    pub(super) fn records_of(&self, process: ProcessId) -> impl Iterator<Item = &Record> {
        let ids = self.held.get(&process).into_iter().flat_map(|held| &held.grants);
        ids.filter_map(|id| Some(&self.grants.get(id)?.record))
    }

    pub(super) fn strike(&self, ids: &[GrantId]) {
        if ids.is_empty() {
            return;
        }
        if let Err(why) = self.ledger.strike(ids) {
            // The next broker will find it dead, or take it back.
            warn!(%why, "grants stay in the ledger");
        }
    }

    /// Takes grants that are no longer in force out of the admission state.
    fn forget(&mut self, ids: &[GrantId]) {
        ids.iter().for_each(|id| self.forget_one(*id));
        self.after_forgetting();
    }

    fn forget_one(&mut self, id: GrantId) {
        self.guard.order(&guard::Order::Forget(id));
        self.admission.release(id, clock::now());
        self.over.remove(&id);
        let Some(live) = self.grants.remove(&id) else { return };
        let process = live.record.process;
        let Some(held) = self.held.get_mut(&process) else { return };
        held.grants.remove(&id);
        self.forget_process_if_idle(process);
    }

    /// Has the dispatcher let a program go, if the grant is for one, and tells the holder what it used.
    fn let_program_go(&mut self, id: GrantId, what: &Guarantee) {
        if let (Guarantee::Program { .. }, Some(dispatcher)) = (what, &mut self.dispatcher)
            && let Some(used) = dispatcher.release(id)
        {
            self.tell_holder(id, &Event::Used { inside_ns: used.inside, used_ns: used.all });
        }
    }

    /// Follows up on forgotten grants: there may be room for a refused request.
    fn after_forgetting(&mut self) {
        self.sweep_now = true;
        self.tell_of_room();
    }

    /// Looks for real-time threads without a grant.
    pub(super) fn sweep(&mut self) {
        self.sweep_now = false;
        // At fixed levels children inherit nothing (SCHED_RESET_ON_FORK).
        if self.watched.is_empty() || self.means.order == UpcallOrder::FixedLevel {
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
            // A process that forks during the sweep is found the next time.
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

    /// Returns the user whose quota applies: the person's, whichever of its ids it uses.
    pub(super) fn requester(&self, uid: u32, gids: &[u32]) -> Requester {
        let uid = self.persons.of(uid);
        Requester { uid, quota: self.config.quotas.of(uid, gids) }
    }
}
