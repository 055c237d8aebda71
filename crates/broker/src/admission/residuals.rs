//! Reservations that have ended and whose threads have not left SCHED_DEADLINE.

use punctual_analysis::Steps;
use punctual_model::{Instant, Reservation};

use super::{AdmissionState, Asker, Sum};
use crate::grant::GrantId;

/// What an ended reservation has left behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residual {
    pub(super) uid: u32,
    pub(super) group: Option<u32>,
    /// What its thread keeps.
    share_ppm: u64,
    /// What stands above the upcalls of all CPUs until it has left: what it had, which is more than
    /// what it keeps.
    above: Option<Reservation>,
}

impl AdmissionState {
    /// The reservation `had` of `id` has ended, and its thread keeps `keeps` of it until it has left.
    ///
    /// That counts as a grant in the quota of `asker`; and until then the upcalls of all CPUs are
    /// admitted as if the thread had it all. `id` need not be entered: after a restart it is not.
    pub fn remains(
        &mut self,
        id: GrantId,
        asker: &Asker,
        had: Reservation,
        keeps: Reservation,
        now: Instant,
    ) {
        self.release(id, now);
        let steps = &mut Steps::new(self.steps);
        // It stood there a moment ago, so it does again; and where it did not it hardly matters.
        let above = self.system.reserve_above(had, steps).is_ok().then_some(had);
        let (uid, group) = (asker.uid, asker.quota.group);
        let residual = Residual { uid, group, share_ppm: keeps.utilisation_ppm(), above };
        if let Some(before) = self.residuals.insert(id, residual) {
            self.let_go(before);
        }
    }

    /// The thread has left.
    pub fn has_left(&mut self, id: GrantId) {
        if let Some(residual) = self.residuals.remove(&id) {
            self.let_go(residual);
        }
    }

    fn let_go(&mut self, residual: Residual) {
        if let Some(above) = residual.above {
            self.system.unreserve_above(above);
        }
    }

    /// What is left behind by those of whom `of` says so.
    pub(super) fn left_behind(&self, of: impl Fn(&Residual) -> bool) -> Sum {
        let mut sum = Sum::default();
        for residual in self.residuals.values().filter(|residual| of(residual)) {
            sum.ppm += residual.share_ppm;
            sum.grants += 1;
        }
        sum
    }
}
