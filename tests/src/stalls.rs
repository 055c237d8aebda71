//! Detects stalls of the machine itself, with a witness thread above all other threads.
//!
//! An upcall catches up with an absence of 100 ms and skips anything older (`policy::rmdp`,
//! `most_pending`). On a virtual machine the host can take a CPU away for longer. A test that
//! counts jobs must tell such a stall from a fault of Punctual. So a thread at the highest FIFO
//! priority, which nothing in Punctual can hold up, wakes on the same CPU and adds up how late it
//! was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::Duration;

/// How often the witness wakes.
const EVERY: Duration = Duration::from_millis(5);

/// The highest priority (sched(7)); upcalls and dispatchers stay below 90.
const HIGHEST: u8 = 99;

/// A witness, which runs until it is dropped.
pub struct Witness {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    stood_still: AtomicU64,
}

impl Witness {
    /// Starts a witness on `cpu`.
    ///
    /// # Panics
    ///
    /// Panics if this process may not have FIFO threads, or none on that CPU.
    pub fn of(cpu: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let for_thread = Arc::clone(&shared);
        let thread = Builder::new().name("witness".into()).spawn(move || {
            thread::pin_to(cpu).expect("a CPU of ours");
            sched::set(thread::current(), Class::Fifo { priority: HIGHEST }).expect("tried out");
            let mut at = clock::now() + EVERY;
            while !for_thread.stop.load(Ordering::Relaxed) {
                clock::sleep_until(at);
                let now = clock::now();
                let late = now.saturating_since(at);
                if late > EVERY {
                    for_thread.stood_still.fetch_add(late.as_nanos(), Ordering::Relaxed);
                }
                at = now + EVERY;
            }
        });
        Self { shared, thread: Some(thread.expect("one more thread")) }
    }

    /// Returns the total time that the CPU has stood still so far.
    pub fn stood_still(&self) -> Duration {
        Duration::from_nanos(self.shared.stood_still.load(Ordering::Relaxed))
    }

    /// Returns how many releases of a `period` those stalls explain.
    pub fn excuses(&self, period: Duration) -> u64 {
        self.stood_still().as_nanos().div_ceil(period.as_nanos())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the witness panicked");
        }
    }
}
