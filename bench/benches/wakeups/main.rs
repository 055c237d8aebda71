//! Live: measures the cost of waking up for a job that does nothing.
//!
//! A hundred upcalls that share one thread of the runtime are compared with a thread each: the same
//! periods, the same SCHED_FIFO priorities while they wait, all on one CPU. The cost is measured in
//! two ways:
//!
//! - The time that the kernel charges to the threads. It leaves out timer interrupts on an idle
//!   CPU, which favours a thread each: there mostly the interrupt that wakes one thread sets the
//!   timer for the next, while a single thread sets it itself before each sleep.
//! - The loss of a busy thread of the lowest real-time priority: everything.

mod load;
mod soaker;

use punctual_bench::pairs::compare;
use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order::RUNNING;

use crate::load::{Load, a_thread_each, jobs_in, one_thread};

/// Time for all threads to wait before the first is released.
const HEAD_START: Duration = Duration::from_millis(50);

fn main() {
    if let Err(refused) = sched::try_out(Class::Fifo { priority: RUNNING }) {
        println!("wake-ups: skipped: {refused}");
        return;
    }
    // Threads inherit it. The last CPU, because the first one serves most interrupts.
    let cpu = *thread::affinity().last().expect("this thread runs on one");
    thread::pin_to(cpu).expect("one of our own CPUs");
    let loads = "100 upcalls in one thread (A) / in a thread each (B)";
    compare(
        &format!("CPU time charged for an empty job, {loads}"),
        4,
        || charged(one_thread),
        || charged(a_thread_each),
    );
    compare(
        &format!("CPU time lost by a busy thread for an empty job, {loads}"),
        21,
        || lost(one_thread),
        || lost(a_thread_each),
    );
}

fn charged(load: fn(Instant, Instant) -> Load) -> f64 {
    let length = Duration::from_secs(3);
    let start = clock::now() + HEAD_START;
    let (cpu_time, jobs) = load(start, start + length)();
    cpu_time.as_nanos() as f64 / jobs as f64
}

fn lost(load: fn(Instant, Instant) -> Load) -> f64 {
    let length = Duration::from_millis(200);
    // With an equal pause before it, real-time threads stay below their 95 % of each second.
    let next_window = || clock::now() + length;
    let alone = next_window();
    let alone = soaker::progress(alone, alone + length);
    let start = next_window();
    let finish = load(start, start + length);
    let beside = soaker::progress(start, start + length);
    finish();
    (1.0 - beside / alone) * length.as_nanos() as f64 / jobs_in(length) as f64
}
