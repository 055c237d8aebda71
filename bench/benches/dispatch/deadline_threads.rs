//! Runs each task in a SCHED_DEADLINE thread, which gives the rest of its budget back by
//! sched_yield(2).
//!
//! It is woken at its next replenishment, whose grid is the kernel's: so it reads the clock, and
//! sleeps if it was woken too early. Its threads may run on every CPU, as the kernel demands: the
//! loss of the busy thread on one CPU says little about them.

use punctual_linux::sched::Class;
use punctual_linux::{clock, host, thread};
use punctual_model::{Instant, Reservation, Service};

use crate::Ran;
use crate::fifo_threads::each_in_a_thread;
use crate::set::Set;

/// Enough for an empty job and a preemption, and little enough that a thousand fit.
const BUDGET: Service = Service::from_micros(20);

/// Ten thousand did not finish one round in ten minutes.
const MOST: usize = 1_000;

pub(crate) fn run(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    if set.len() > MOST {
        return Err(format!("at most {MOST} such threads are asked for here"));
    }
    let class = |(period, _)| {
        let reservation = Reservation::new(BUDGET, period).expect("periods are far longer");
        Class::Deadline { reservation, reset_on_fork: true }
    };
    let here = thread::affinity();
    let all: Vec<usize> = (0..host::cpus_online()).collect();
    thread::set_affinity(&all).map_err(|error| error.to_string())?;
    let ran = each_in_a_thread(set, start, end, class, |due| {
        std::thread::yield_now();
        clock::sleep_until(due);
    });
    thread::set_affinity(&here).map_err(|error| error.to_string())?;
    ran
}
