//! Residuals: what threads keep that have not left SCHED_DEADLINE when their reservation ended.

use punctual_linux::clock;
use punctual_linux::thread::Tid;
use tracing::{info, warn};

use super::Server;
use crate::kernel::class::residual;
use crate::kernel::take::{moved_to, remains};
use crate::ledger::{ProcessId, Record};
use punctual_client::want::{Guarantee, Want};

impl Server {
    /// Enters the residual of a grant that has ended, whose thread has not left SCHED_DEADLINE yet.
    pub(super) fn remain(&mut self, record: Record) {
        if let Err(why) = self.ledger.enter(&record) {
            warn!(%why, id = %record.id, "a residual reservation is not in the ledger");
        }
        self.keep_residual(record);
    }

    pub(super) fn keep_residual(&mut self, record: Record) {
        if let Ok(Want { what: Guarantee::Reservation(had), .. }) =
            Want::try_from(record.want.clone())
        {
            let requester = self.requester(record.uid, &record.gids);
            self.admission.remains(record.id, &requester, had, residual(had), clock::now());
            self.residuals.insert(record.id, record);
        }
    }

    /// Strikes out the residuals of threads that have left, ended, or been granted something else.
    pub(super) fn look_at_residuals(&mut self) {
        let (mut left, mut moved) = (Vec::new(), Vec::new());
        for record in self.residuals.values() {
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
            info!(id = %record.id, pid = record.process.pid, "a residual reservation went through execve(2)");
            self.remain(record);
        }
        if left.is_empty() {
            return;
        }
        self.strike(&left);
        for id in left {
            self.residuals.remove(&id);
            self.admission.has_left(id, clock::now());
        }
        self.tell_of_room();
    }

    fn is_granted(&self, process: ProcessId, thread: i32) -> bool {
        self.records_of(process).any(|record| record.want.thread() == thread)
    }
}
