//! The competing load: ordinary threads that never sleep, on every CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_linux::thread;

use super::Error;

/// Bytes of stack of each spinner.
const STACK: usize = 64 << 10;

/// Spinning threads at normal priority, the same number pinned to each CPU. Dropping it ends them.
pub struct Competitors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Competitors {
    /// Starts `per_cpu` spinners on each CPU that the calling thread may use.
    pub fn start(per_cpu: usize) -> Result<Self, Error> {
        let wanted = per_cpu * thread::affinity().len();
        let mut competitors = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for cpu in thread::affinity() {
            for _ in 0..per_cpu {
                let stop = Arc::clone(&competitors.stop);
                let spin = move || {
                    // If pinning is not allowed, the load balancer spreads the threads.
                    let _ = thread::pin_to(cpu);
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let builder = std::thread::Builder::new().name("competitor".into());
                // The stacks are locked with all other memory, and a spinner needs little.
                let started = builder.stack_size(STACK).spawn(spin);
                let made = competitors.threads.len();
                competitors.threads.push(started.map_err(|why| Error::Competitors {
                    made,
                    wanted,
                    why,
                })?);
            }
        }
        Ok(competitors)
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Nothing in a spinner can panic.
            let _ = thread.join();
        }
    }
}
