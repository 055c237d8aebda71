//! Runs each task without a library: in a SCHED_FIFO thread that sleeps till its release.

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order::level_of;
use punctual_trace::Times;

use crate::Ran;
use crate::set::Set;

/// Small enough that ten thousand of them fit.
const STACK: usize = 64 << 10;

pub(crate) fn run(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    each_in_a_thread(
        set,
        start,
        end,
        |(period, _)| Class::Fifo { priority: level_of(period) },
        |due| {
            clock::sleep_until(due);
        },
    )
}

/// Runs each task in a thread of its class, which waits for each release with `wait`.
pub(crate) fn each_in_a_thread(
    set: &Set,
    start: Instant,
    end: Instant,
    class: impl Fn((Duration, Duration)) -> Class,
    wait: fn(Instant),
) -> Result<Ran, String> {
    let mut threads = Vec::with_capacity(set.len());
    for task in set.tasks() {
        let class = class(task);
        let body = move || {
            sched::set(thread::current(), class).map_err(|refused| refused.to_string())?;
            let mut late = Vec::new();
            let mut charged = 0;
            for due in Set::releases(task, start, end) {
                wait(due);
                late.push(clock::now().saturating_since(due));
                if charged == 0 {
                    // From the first job on: the start-up is not a job's cost.
                    charged = clock::thread_cpu_time().as_nanos();
                }
            }
            let charged = clock::thread_cpu_time().as_nanos().saturating_sub(charged);
            Ok((late, charged))
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(body);
        threads.push(thread.map_err(|error| error.to_string())?);
    }
    let mut ran = Ran { jobs: 0, charged: 0.0, wakeup_latency: Times::new() };
    let mut refused = None;
    for thread in threads {
        match thread.join().expect("no panic") {
            Ok((late, charged)) => {
                ran.jobs += late.len() as u64;
                ran.charged += charged as f64;
                late.into_iter().for_each(|late| ran.wakeup_latency.record(late));
            }
            Err::<_, String>(why) => refused = Some(why),
        }
    }
    refused.map_or(Ok(ran), Err)
}
