//! Trouble by a thread of ours.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};

use super::{InjectError, Injected, Plan, Trouble};

/// The interval at which the caller is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// A page, and a cache line, of common machines.
const PAGE: usize = 4096;
const LINE: usize = 64;
/// More than the caches of most machines.
const SWEPT: usize = 64 << 20;
/// The number of lines touched between looks at the clock.
const AT_A_GO: usize = 256;
/// The size of memory that is allocated, touched and freed at once: the allocator never keeps that
/// much (mallopt(3), M_MMAP_THRESHOLD).
const FRESH: usize = 64 << 20;

/// Runs in a thread of its own, so that the caller keeps its class and its CPUs.
pub(super) fn run(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(plan, &stop));
        while !worker.is_finished() && goes_on() {
            clock::sleep(LOOK);
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn work(plan: Plan, stop: &AtomicBool) -> Result<Injected, InjectError> {
    thread::pin_to(plan.cpu).map_err(|_| InjectError::NoCpu { cpu: plan.cpu })?;
    if let Trouble::Fifo(priority) = plan.trouble {
        sched::set(thread::current(), Class::Fifo { priority })
            .map_err(|why| InjectError::Priority { priority, why: why.to_string() })?;
    }
    let mut burner = Burner::new(plan.trouble);
    let mut done = Injected::default();
    let mut due = clock::now();
    let end = due + plan.length;
    while due < end && !stop.load(Ordering::Relaxed) {
        clock::sleep_until(due);
        let begun = clock::now();
        burner.until(begun + plan.burn);
        done.times += 1;
        done.burnt = done.burnt.saturating_add(clock::now().saturating_since(begun));
        due = (due + plan.period).max(begun + plan.burn);
    }
    Ok(done)
}

enum Burner {
    Spin,
    Faults,
    Sweep { memory: Vec<u8>, at: usize },
}

impl Burner {
    fn new(trouble: Trouble) -> Self {
        match trouble {
            Trouble::PageFaults => Self::Faults,
            Trouble::Cache => Self::Sweep { memory: vec![1; SWEPT], at: 0 },
            _ => Self::Spin,
        }
    }

    fn until(&mut self, end: Instant) {
        while clock::now() < end {
            match self {
                Self::Spin => std::hint::spin_loop(),
                Self::Faults => {
                    let mut fresh = vec![0_u8; FRESH];
                    let pages = fresh.iter_mut().step_by(PAGE);
                    pages.take_while(|_| clock::now() < end).for_each(|byte| *byte = 1);
                    std::hint::black_box(&fresh);
                }
                Self::Sweep { memory, at } => {
                    for _ in 0..AT_A_GO {
                        memory[*at] = memory[*at].wrapping_add(1);
                        *at = (*at + LINE) % SWEPT;
                    }
                }
            }
        }
    }
}
