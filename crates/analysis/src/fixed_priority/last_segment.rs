//! Limited preemption with a known last segment: each job ends with a stretch of a known least
//! length in which it is not preempted.
//!
//! # The bound
//! The recurrence is in `busy_window.rs`. Once its last segment has begun, a job is delayed no
//! more, so higher priorities delay only the start of that segment.
//!
//! # Assumptions
//! - As in [`super::floating`]: sporadic, independent tasks; a quantum of a less urgent task may
//!   have begun just before the window.
//! - Every job of task i has a last segment of at least `l_i`, even if it needs less than its wcet:
//!   the work before the segment is at most `C_i − l_i`.
//! - A reservation preempts last segments too. With one on the same CPU they protect nothing, and
//!   the result is that for floating quanta: a bound, no longer exact.
//!
//! # Sources
//! Bril, Lukkien & Verhaegh, Real-Time Systems 42, 2009 (deferred preemption; continuous time);
//! Davis, Burns, Bril & Lukkien, Real-Time Systems 35, 2007 (all jobs of the window); Buttazzo,
//! Bertogna & Yao, IEEE TII 9(1), 2013, §IV (the model).
//!
//! # Units and answers
//! Nanoseconds from the nominal release. There is no bound above a utilisation of one; a result
//! that [`Steps`] do not reach is undecided.

use alloc::vec::Vec;

use punctual_model::Service;

use super::{ResponseTime, of_every_level};
use crate::load::{CpuLoad, Granularity};
use crate::steps::Steps;

/// Returns the response time of each task of `load`, in its order, if its jobs end with the segment
/// at the same position of `last` (cut to the task's wcet; none if `last` is too short).
pub fn response_times(
    load: &CpuLoad,
    last: &[Service],
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    of_every_level(&load.with_last_segments(last), granularity, steps)
}
