//! What must survive: handlers that spin, sleep, fault and block beside other processes, forks,
//! exhausted limits, stops of one and of all, other clocks, rubbish in what is shared. Each is done
//! again and again; a process that looks on must go on all the while, and nothing may be left.
//!
//! Each process is this program again, told by an environment variable to obey its input. These tests
//! count jobs, never time them. What the host does not allow is skipped, with the reason.

mod actor;
mod clocks;
mod conduct;
mod exhausted;
mod forks;
mod host;
mod rubbish;
mod stops;
mod stubborn;

/// Not a test: what the other processes do.
#[test]
fn other_process() {
    actor::play();
}
