//! Empty jobs with a hundred periods, in one thread of the runtime or in a thread each.

use std::thread::{self as threads, JoinHandle};

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::level_of;
use punctual_runtime::{Placement, Upcalls};

/// A running load. Calling it waits for the end, and returns the processor time and number of all
/// jobs.
pub(crate) type Load = Box<dyn FnOnce() -> (Service, u64)>;

/// Returns 8.00, 8.04, … 11.96 ms: all different, so that the releases spread.
fn periods() -> impl Iterator<Item = Duration> {
    (0..100).map(|i| Duration::from_micros(8_000 + 40 * i))
}

/// Returns how many jobs there are in `length`, with the first of each at its beginning.
pub(crate) fn jobs_in(length: Duration) -> u64 {
    periods().map(|period| length.as_nanos().div_ceil(period.as_nanos())).sum()
}

struct CountJobs(u64);

impl Handler for CountJobs {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.0 += 1;
        pdus
    }
}

pub(crate) fn one_thread(start: Instant, end: Instant) -> Load {
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    for period in periods() {
        let name = String::from("empty");
        let time_per_pdu = Service::from_micros(1);
        let upcall = UpcallSpec { name, period, batch: 1, quantum: 1, time_per_pdu };
        upcalls.create(Upcall::new(upcall).expect("valid"), CountJobs(0)).expect("1 % of a CPU");
    }
    let running = upcalls.run(start).expect("tried out before");
    Box::new(move || {
        clock::sleep_until(end);
        let stopped = running.stop().expect("kept its class");
        let jobs: u64 = stopped.handlers.iter().map(|handler| handler.0).sum();
        // It is stopped a little before or after its last job.
        let expected = jobs_in(end - start);
        assert!(jobs > expected * 9 / 10, "{jobs} jobs of {expected}");
        (stopped.exec_time, jobs)
    })
}

pub(crate) fn a_thread_each(start: Instant, end: Instant) -> Load {
    let waiters: Vec<JoinHandle<Service>> =
        periods().map(|period| threads::spawn(move || wait(period, start, end))).collect();
    Box::new(move || {
        let cpu_time = waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).sum();
        (cpu_time, jobs_in(end - start))
    })
}

fn wait(period: Duration, start: Instant, end: Instant) -> Service {
    let priority = level_of(period);
    sched::set(thread::current(), Class::Fifo { priority }).expect("tried out before");
    let before = clock::thread_cpu_time();
    let mut due = start;
    while due < end {
        clock::sleep_until(due);
        due += period;
    }
    clock::thread_cpu_time() - before
}
