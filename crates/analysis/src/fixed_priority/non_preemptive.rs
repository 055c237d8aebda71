//! Fully non-preemptive: a job that has begun is not taken off the processor by another task.
//!
//! # The bound
//! [`super::last_segment`] with one segment per job: `l_i` is the wcet, and a less urgent task
//! blocks for all of its work, switches included.
//!
//! # Assumptions, units and answers
//! As there. The switches charged to a job are not protected: a more urgent release during the
//! switch towards a job counts against it.
//!
//! # Sources
//! George, Rivierre & Spuri, INRIA RR-2966, 1996, Theorem 15 (every job of the busy window, from
//! its start time); Davis, Burns, Bril & Lukkien, Real-Time Systems 35, 2007 (the same for messages
//! on CAN, and why the first job is not enough).

use alloc::vec::Vec;

use super::{ResponseTime, of_every_level};
use crate::load::{CpuLoad, Granularity};
use crate::steps::Steps;

/// Returns the response time of each task of `load`, in its order, if none is ever preempted by
/// another. The quanta of `load` are ignored.
pub fn response_times(
    load: &CpuLoad,
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    of_every_level(&load.non_preemptive(), granularity, steps)
}
