//! CPUs that never halt.
//!
//! A virtual CPU that has nothing to do is given back to its host, which may take milliseconds to let it
//! run again: what this machine then owes to a timer or a packet is late, at any priority
//! (`/proc/stat` calls some of it steal). A thread under SCHED_IDLE keeps the CPU: whatever else is
//! runnable comes before it at once (sched(7)), and the host sees a CPU that is never idle.
//!
//! It costs what the CPU costs: power, and processor time that somebody may charge for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::sched::{self, Class, SchedAttr, set_current};
use crate::thread::{self, Tid};

/// Keeps CPUs from halting until it is dropped: a thread for each, which spins under SCHED_IDLE.
///
/// ```
/// use punctual_linux::awake::Awake;
/// use punctual_linux::thread;
///
/// let awake = Awake::start(&thread::affinity())?;
/// assert_eq!(awake.cpus(), thread::affinity().len());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    spinners: Vec<(Tid, JoinHandle<()>)>,
}

impl Awake {
    /// One thread on each of these CPUs; all are at it when this returns.
    ///
    /// # Errors
    /// If a thread cannot be made, bound to its CPU, or put under SCHED_IDLE. None stays then.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let mut awake = Self { stop: Arc::default(), spinners: Vec::with_capacity(cpus.len()) };
        for &cpu in cpus {
            let (tell, told) = mpsc::channel();
            let stop = Arc::clone(&awake.stop);
            let spinner =
                std::thread::Builder::new().name(format!("awake/{cpu}")).spawn(move || {
                    let ready = prepare(cpu);
                    let goes = ready.is_ok();
                    let _ = tell.send(ready.map(|()| thread::current()));
                    while goes && !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })?;
            let tid = told.recv().map_err(io::Error::other)??;
            awake.spinners.push((tid, spinner));
        }
        Ok(awake)
    }

    /// How many.
    pub fn cpus(&self) -> usize {
        self.spinners.len()
    }
}

fn prepare(cpu: usize) -> io::Result<()> {
    thread::pin_to(cpu).map_err(io::Error::other)?;
    set_current(&SchedAttr::idle()).map_err(|errno: Errno| io::Error::from(errno))?;
    let is = sched::get(thread::current()).map_err(io::Error::other)?.policy_name();
    if is == "SCHED_IDLE" { Ok(()) } else { Err(io::Error::other(format!("this is {is}"))) }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (tid, spinner) in self.spinners.drain(..) {
            // On a busy CPU it would see the order only after a while.
            let _ = sched::set(tid, Class::Other { nice: 0 });
            let _ = spinner.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spinners() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is mounted");
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        let names = tasks.flatten().filter_map(|task| name(task).ok());
        names.filter(|name| name.starts_with("awake/")).count()
    }

    #[test]
    fn each_cpu_has_one_that_gives_way_and_none_stays() {
        let cpus = thread::affinity();
        let awake = Awake::start(&cpus).expect("needs no privilege");
        assert_eq!((awake.cpus(), spinners()), (cpus.len(), cpus.len()));
        for (tid, _) in &awake.spinners {
            assert_eq!(sched::get(*tid).expect("it lives").policy_name(), "SCHED_IDLE");
        }
        drop(awake);
        assert_eq!(spinners(), 0);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(Awake::start(&[4_095]).is_err());
    }
}
