//! Survival tests: handlers that spin, sleep, fault and block beside other processes, forks,
//! exhausted limits, stops of one process and of all, other clocks, and garbage in shared memory.
//! Each fault is repeated; an onlooking process must go on all the while, and nothing may be left.
//!
//! Each process is this program again, with its role in an environment variable, controlled through
//! its input. These tests count jobs and never time them. What the host does not allow is skipped,
//! with the reason.

mod actor;
mod clocks;
mod conduct;
mod exhausted;
mod forks;
mod host;
mod rubbish;
mod stops;
mod stubborn;

/// Plays the role of another process; not a test.
#[test]
fn other_process() {
    actor::play();
}
