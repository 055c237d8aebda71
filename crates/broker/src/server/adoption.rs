//! Adoption of the grants of an earlier broker.

use std::rc::Rc;

use punctual_analysis::UpcallOrder;
use punctual_linux::clock;
use punctual_model::Instant;
use tracing::info;

use super::feedback::watched;
use super::{ServeError, Server};
use crate::guard::{self, Keeper};
use crate::kernel::peer::{Peer, Process};
use crate::kernel::persons::Persons;
use crate::ledger::{Ledger, LedgerError, Record};
use punctual_client::want::{Kind, Want};

/// Has this broker's own guard watch everything that was granted before, and then ends the guards
/// of earlier brokers. So the grants are policed at every moment, and no old guard takes back a
/// grant that is adopted afterwards.
///
/// Call this while all privileges are there: those guards may run as another user.
pub(super) fn relieve_guards(
    guard: &mut Keeper,
    ledger: &Ledger,
    records: &[Record],
    persons: &Persons,
    order: UpcallOrder,
) -> Result<(), ServeError> {
    let mut guards = ledger.guards()?;
    let ours = guard.id();
    // The next broker ends all of them, even if this one ends in the middle of this.
    guards.push(ours);
    ledger.set_guards(&guards)?;
    for record in records.iter().filter(|record| !record.residual) {
        if let Ok(want) = Want::try_from(record.want.clone())
            && want.what.kind() != Kind::Program
        {
            // Its CPU is decided when it is adopted.
            let watched = watched(record, &want, persons.of(record.uid), order);
            guard.order(&guard::Order::Watch(watched));
        }
    }
    guard.sync().map_err(ServeError::NoGuard)?;
    for id in guards.into_iter().filter(|id| *id != ours) {
        if !guard::end(id) {
            let why = format!("the guard {} of a broker before cannot be ended", id.pid);
            return Err(ServeError::GuardLost { why });
        }
    }
    Ok(ledger.set_guards(&[ours])?)
}

impl Server {
    /// Adopts the grants of an earlier broker.
    pub(super) fn adopt(&mut self, records: Vec<Record>) -> Result<(), LedgerError> {
        let now = clock::now();
        let mut gone = Vec::new();
        // Residuals are there whatever is decided about the others.
        let (left, records): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.residual);
        for record in left {
            self.keep_residual(record);
        }
        for record in records {
            // Its children may be alive.
            self.watched.insert(record.uid);
            self.remember_limits(&record);
            let (id, pid) = (record.id, record.process.pid);
            if let Err(why) = self.adopt_one(record, now) {
                info!(%id, pid, why, "grant not adopted");
                self.guard.order(&guard::Order::Forget(id));
                // Its residual keeps its place in the ledger.
                if !self.residuals.contains_key(&id) {
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
        let requester = self.requester(record.uid, &record.gids);
        let cpu = match self.admission.enter(id, &requester, &want.what, now) {
            Ok(cpu) => cpu,
            Err(denied) => {
                self.not_adopted(&process, &record, &want, now);
                return Err(format!("the host has no room for it any more: {denied}"));
            }
        };
        // The earlier broker may have died in the middle of a change: the ledger decides.
        if let Err(why) = self.put_in_force(id, &process, record.uid, &want, started, cpu) {
            self.not_adopted(&process, &record, &want, now);
            return Err(format!("it cannot be put in force again: {why}"));
        }
        let peer = Peer { process, uid: record.uid, gids: record.gids.clone() };
        let peer = self
            .held
            .get(&record.process)
            .map_or_else(|| Rc::new(peer), |held| Rc::clone(&held.peer));
        let process = record.process;
        let held = match self.police(&record, &want, cpu) {
            true => self.hold(&peer, record.clone(), want.clone(), cpu),
            false => Err(rustix::io::Errno::PIPE),
        };
        if let Err(why) = held {
            self.not_adopted(&peer.process, &record, &want, now);
            return Err(format!("its process cannot be watched: {why}"));
        }
        if let Some(held) = self.held.get_mut(&process) {
            held.disconnected_since = Some(now);
        }
        Ok(())
    }

    fn not_adopted(&mut self, process: &Process, record: &Record, want: &Want, now: Instant) {
        match self.take_from(process, record, want) {
            Some(residual) => self.remain(residual),
            None => self.admission.release(record.id, now),
        }
    }
}
