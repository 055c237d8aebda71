//! Floating quanta: a stretch without a yield point may lie anywhere in a job. This is the default
//! model.
//!
//! # The bound
//! For task i, with hp(i) the more urgent tasks and the window of its job q (from 0) starting when
//! the processor last had nothing of rank i or above to do:
//!
//! ```text
//! w_q = B_i + (q + 1)·C_i + Σ_{j ∈ hp(i)} ⌈(w_q + J_j) / T_j⌉·C_j + Σ_r I_r(w_q)
//! R_i = J_i + max_q (w_q − q·T_i)      over q = 0, 1, … until w_q + J_i ≤ (q + 1)·T_i
//! ```
//!
//! # Assumptions
//! - Tasks are sporadic and independent, and do not suspend themselves; a job's processor time is
//!   at most its wcet (two context switches are charged on top).
//! - `B_i` is the largest quantum of a less urgent task. A quantum may begin anywhere in a job
//!   (floating), so a job's last one does not provably protect it. In continuous time the whole
//!   quantum counts, in ticks all but one. The bound is exact for this model, and an upper bound
//!   for RMDP, where a job's own last quantum is not preempted either. Without quanta the model is
//!   fully preemptive.
//! - A reservation r runs above all tasks ([`crate::reservation::ReservedLoad::interference_in`]).
//!   Its interference is an upper bound, so with reservations the response times are bounds and no
//!   longer exact.
//!
//! # Sources
//! Joseph & Pandya, 1986 (the fixed point); Lehoczky, RTSS 1990, Theorem 1 (deadlines beyond the
//! period: every job of the busy window); Audsley, Burns, Richardson, Tindell & Wellings, 1993
//! (blocking and release jitter).
//!
//! # Units and answers
//! Nanoseconds from the nominal release, so the task's own jitter is in the response. If the
//! utilisation of i and hp(i) is above one, there is no bound. At exactly one or below, the jobs
//! repeat after a hyperperiod (`Level::repetition` in `busy_window.rs` says why). A result that
//! [`Steps`] do not reach is undecided.

use alloc::vec::Vec;

use super::{ResponseTime, of_every_level};
use crate::load::{CpuLoad, Granularity};
use crate::steps::Steps;

/// Returns the response time of each task of `load`, in its order. Last segments are ignored.
pub fn response_times(
    load: &CpuLoad,
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    if load.tasks.iter().all(|task| task.last == 0) {
        return of_every_level(load, granularity, steps);
    }
    let mut floating = load.clone();
    floating.tasks.iter_mut().for_each(|task| task.last = 0);
    of_every_level(&floating, granularity, steps)
}
