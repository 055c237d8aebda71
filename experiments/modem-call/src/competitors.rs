//! The competition: ordinary threads that never sleep, on every CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_linux::thread;

/// Spinning threads at normal priority, some pinned to each CPU. Dropping it ends them.
pub struct Competitors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Competitors {
    /// Starts `per_cpu` spinners on each CPU that the calling thread may use.
    pub fn start(per_cpu: usize) -> std::io::Result<Self> {
        let mut competitors = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for cpu in thread::affinity() {
            for _ in 0..per_cpu {
                let stop = Arc::clone(&competitors.stop);
                let spin = move || {
                    // Where pinning is not allowed, the load balancer spreads them.
                    let _ = thread::pin_to(cpu);
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let builder = std::thread::Builder::new().name("competitor".into());
                competitors.threads.push(builder.spawn(spin)?);
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
