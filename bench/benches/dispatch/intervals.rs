//! Runs each task as in an asynchronous program: on an interval of tokio's.
//!
//! tokio's timers have a granularity of a millisecond; all tasks share one SCHED_FIFO thread.

use std::cell::RefCell;
use std::rc::Rc;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::Instant;
use punctual_runtime::level_order::RUNNING;
use punctual_trace::Times;
use tokio::time::{Instant as TokioInstant, interval_at};

use crate::Ran;
use crate::set::Set;

pub(crate) fn run(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    let tasks: Vec<_> = set.tasks().collect();
    let body = move || {
        sched::set(thread::current(), Class::Fifo { priority: RUNNING })
            .map_err(|refused| refused.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| error.to_string())?;
        let late = Rc::new(RefCell::new(Vec::with_capacity(1 << 16)));
        let local = tokio::task::LocalSet::new();
        // tokio's clock has no epoch that could be named: the offset is taken once.
        let (here, there) = (clock::now(), TokioInstant::now());
        let at = |due: Instant| there + std::time::Duration::from_nanos((due - here).as_nanos());
        for (period, phase) in tasks {
            let late = Rc::clone(&late);
            let (first, every) =
                (at(start + phase), std::time::Duration::from_nanos(period.as_nanos()));
            local.spawn_local(async move {
                let mut ticks = interval_at(first, every);
                for due in Set::releases((period, phase), start, end) {
                    ticks.tick().await;
                    late.borrow_mut().push(clock::now().saturating_since(due));
                }
            });
        }
        // The time charged from the first release on: the set-up is not a job's cost.
        let before = Rc::new(RefCell::new(None));
        let noted = Rc::clone(&before);
        let first = at(start);
        local.spawn_local(async move {
            tokio::time::sleep_until(first).await;
            *noted.borrow_mut() = Some(clock::thread_cpu_time());
        });
        runtime.block_on(local);
        let before = before.borrow().unwrap_or_default();
        let charged = (clock::thread_cpu_time() - before).as_nanos() as f64;
        Ok((late.take(), charged))
    };
    let joined = std::thread::spawn(body).join().expect("no panic");
    let (late, charged) = joined.map_err(|why: String| why)?;
    let mut wakeup_latency = Times::new();
    late.iter().for_each(|late| wakeup_latency.record(*late));
    Ok(Ran { jobs: late.len() as u64, charged, wakeup_latency })
}
