//! Limited preemption with a known last segment: each job ends with a stretch of a known least
//! length in which it is not preempted.
//!
//! # The bound
//! `busy_window.rs` has the recurrence: once its last segment has begun a job is delayed no more, so
//! it is the start of that segment that higher priorities push back.
//!
//! # Assumptions
//! - As [`super::floating`]: sporadic, independent tasks; a quantum of a less urgent task may have
//!   begun just before the window.
//! - Every job of task i has a last segment of at least `l_i`, also one that needs less than its
//!   wcet: what comes before it is at most `C_i − l_i`.
//! - A reservation preempts last segments too. With one on the same CPU they protect nothing, and
//!   the answer is that for floating quanta: a bound, no longer exact.
//!
//! # Sources
//! Bril, Lukkien & Verhaegh, Real-Time Systems 42, 2009 (deferred preemption; continuous time);
//! Davis, Burns, Bril & Lukkien, Real-Time Systems 35, 2007 (all jobs of the window); Buttazzo,
//! Bertogna & Yao, IEEE TII 9(1), 2013, §IV (the model).
//!
//! # Units and answers
//! Nanoseconds from the nominal release. No bound above a utilisation of one; what [`Steps`] do not
//! reach stays undecided.

use alloc::vec::Vec;

use punctual_model::Service;

use super::{ResponseTime, of_every_level};
use crate::load::{CpuLoad, Granularity};
use crate::steps::Steps;

/// The response time of each task of `load`, in its order, if the jobs of the task at that position
/// of `last` end with such a segment (cut to its wcet; none where `last` is too short).
pub fn response_times(
    load: &CpuLoad,
    last: &[Service],
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    of_every_level(&load.with_last_segments(last), granularity, steps)
}
