//! Residuals: reservations that have ended and whose threads have not left SCHED_DEADLINE.

use punctual_analysis::Steps;
use punctual_model::{Instant, Reservation};

use super::AdmissionState;
use super::terms::{Requester, Residual, Sum};
use punctual_client::grant::GrantId;

impl AdmissionState {
    /// Records that the reservation `had` of `id` has ended, and that its thread keeps `keeps` of
    /// it until it has left.
    ///
    /// The residual counts as a grant in the quota of `requester`; and until the thread has left, the
    /// upcalls of all CPUs are admitted as if it had the former reservation. `id` need not be
    /// entered: after a restart it is not.
    pub fn remains(
        &mut self,
        id: GrantId,
        requester: &Requester,
        had: Reservation,
        keeps: Reservation,
        now: Instant,
    ) {
        self.catch_up(now);
        // It does not leave yet, so nothing of it is to count beside what its thread keeps.
        self.system.release(id);
        self.uncount(id);
        let steps = &mut Steps::new(self.steps);
        // It was admitted above the upcalls a moment ago, so it fits again; a failure hardly
        // matters.
        let above = self.system.reserve_above(had, steps).is_ok().then_some(had);
        let (uid, group) = (requester.uid, requester.quota.group);
        let residual = Residual { uid, group, share_ppm: keeps.utilisation_ppm(), above };
        if let Some(before) = self.residuals.insert(id, residual) {
            self.let_go(before, now);
        }
    }

    /// Records that the thread has left, before `now`. Its reservation counts as long as it affects
    /// others.
    pub fn has_left(&mut self, id: GrantId, now: Instant) {
        if let Some(residual) = self.residuals.remove(&id) {
            self.let_go(residual, now);
        }
    }

    fn let_go(&mut self, residual: Residual, now: Instant) {
        if let Some(above) = residual.above {
            self.system.retire_above(above, now);
        }
    }

    /// Returns the sum of the residuals that `of` selects.
    pub(super) fn left_behind(&self, of: impl Fn(&Residual) -> bool) -> Sum {
        let mut sum = Sum::default();
        for residual in self.residuals.values().filter(|residual| of(residual)) {
            sum.ppm += residual.share_ppm;
            sum.grants += 1;
        }
        sum
    }
}
