//! The longest window that holds only work with a deadline up to some `d`, as d grows.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::deadline_points::QUEUE;
use crate::load::CpuLoad;
use crate::steps::{OutOfSteps, Steps};

/// The least `W = B + Σ_j min(⌈(W + J_j)/T_j⌉, N_j)·C_j + Σ_r I_r(W)` while the `N_j` grow.
///
/// W grows with them, so no job is examined twice: a due job that becomes known only after the
/// window waits until the window has grown that far.
pub(super) struct Window<'a> {
    load: &'a CpuLoad,
    blocking: u64,
    /// The number of counted jobs of each task: `min(⌈(W + J_j)/T_j⌉, N_j)`.
    counted: Vec<u64>,
    /// `B` and the work of the counted jobs.
    work: u64,
    /// For each task with more due than counted jobs, the time at which the next becomes known.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    length: u64,
}

impl<'a> Window<'a> {
    pub(super) fn new(load: &'a CpuLoad) -> Self {
        Self {
            load,
            blocking: 0,
            counted: vec![0; load.tasks.len()],
            work: 0,
            waiting: BinaryHeap::new(),
            length: 0,
        }
    }

    /// Returns W for the `N_j` in `jobs_due`.
    pub(super) fn length(
        &mut self,
        blocking: u64,
        jobs_due: &[u64],
        steps: &mut Steps,
    ) -> Result<u64, OutOfSteps> {
        if self.blocking != blocking {
            // Less blocking makes the window shorter, so it is computed from the start.
            self.waiting.clear();
            self.counted.fill(0);
            (self.blocking, self.work, self.length) = (blocking, blocking, 0);
            for (at, &due) in jobs_due.iter().enumerate() {
                if due > 0 {
                    self.wait(at, steps)?;
                }
            }
        }
        loop {
            self.close(steps)?;
            let Some(&Reverse((known, at))) = self.waiting.peek() else { return Ok(self.length) };
            // Every task has a job at the start of a window.
            if known > 0 && known >= self.length {
                return Ok(self.length);
            }
            self.waiting.pop();
            self.work = self.work.checked_add(self.load.tasks[at].work).ok_or(OutOfSteps)?;
            self.counted[at] += 1;
            if self.counted[at] < jobs_due[at] {
                self.wait(at, steps)?;
            }
        }
    }

    /// Adds a due job of the task `at`, which now has `due` of them.
    pub(super) fn add(&mut self, at: usize, due: u64, steps: &mut Steps) -> Result<(), OutOfSteps> {
        // If more jobs are missing, the task already waits.
        if self.counted[at] + 1 == due { self.wait(at, steps) } else { Ok(()) }
    }

    fn wait(&mut self, at: usize, steps: &mut Steps) -> Result<(), OutOfSteps> {
        steps.take(QUEUE)?;
        let task = self.load.tasks[at];
        let nominal = self.counted[at].checked_mul(task.period).ok_or(OutOfSteps)?;
        self.waiting.push(Reverse((nominal.saturating_sub(task.jitter), at)));
        Ok(())
    }

    /// Extends the window to the length that the counted jobs need.
    fn close(&mut self, steps: &mut Steps) -> Result<(), OutOfSteps> {
        self.length = self.length.max(self.work);
        loop {
            steps.take(1 + self.load.reservations.len())?;
            let mut reserved =
                self.load.reservations.iter().map(|r| r.interference_in(self.length));
            let next = reserved
                .try_fold(self.work, |sum, work| sum.checked_add(work?))
                .ok_or(OutOfSteps)?;
            if next <= self.length {
                return Ok(());
            }
            self.length = next;
        }
    }
}
