//! Certificates of many tasks at few instants.

use super::bands::floor;
use super::certificate::{Certificate, Point};
use super::window::AMPLE;
use crate::load::CpuLoad;
use crate::reservation::interference_of;
use crate::steps::Steps;

/// A pass over tasks, the most urgent first, that proves neighbours at the same instant.
///
/// Tasks of a band have the same instant: the floor of the band of their longest window (see
/// [`super::Bands`]). The work above one of them at that instant is that of the one before and the
/// tasks between them. So a pass over n tasks of b bands evaluates about b·n terms, where a look at
/// each task alone evaluates n²/2.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    at: u64,
    /// The number of the tasks whose work is in `work`.
    counted: usize,
    /// The work of those tasks and of all reservations up to `at`; `None` beyond 64 bits.
    work: Option<u64>,
}

impl Sweep {
    /// Returns a certificate of the task at a position, if one job of it and everything above it
    /// leave ample spare at the instant of its band. If not, the task may still be in time.
    pub(super) fn certificate(
        &mut self,
        load: &CpuLoad,
        position: usize,
        blocking: u64,
        steps: &mut Steps,
    ) -> Option<Certificate> {
        let task = &load.tasks[position];
        let longest = task.period.min(task.deadline).checked_sub(task.jitter)?;
        let at = floor(longest.max(1)).min(longest);
        if at != self.at || self.counted > position {
            steps.take(load.reservations.len()).ok()?;
            let work = interference_of(&load.reservations, at);
            *self = Self { at, counted: 0, work };
        }
        let between = &load.tasks[self.counted..position];
        steps.take(between.len() + 1).ok()?;
        self.work =
            between.iter().try_fold(self.work?, |sum, task| sum.checked_add(task.work_in(at)?));
        self.counted = position;
        let spare = at.checked_sub(self.work?.checked_add(task.work)?.checked_add(blocking)?)?;
        (spare >= at / AMPLE).then_some(Certificate::One(Point { at, spare, start: false }))
    }
}
