//! Threads that keep CPUs from halting.
//!
//! An idle virtual CPU is given back to its host, which may take milliseconds to run it again.
//! Every timer and packet that this machine has to serve in that time is late, at any priority
//! (`/proc/stat` counts some of the delay as steal). A thread under SCHED_IDLE keeps the CPU busy:
//! real-time and ordinary threads preempt it (sched(7)), and the host sees a CPU that is never
//! idle. [`crate::measure::halting`] measures whether a host needs this.
//!
//! SCHED_IDLE is only a low weight among the threads of one control group, or of one session where
//! the kernel groups threads by session (autogroup). Between groups the fair class shares the CPU
//! by the weights of groups, so a SCHED_IDLE thread would take as much from the ordinary threads of
//! another session as any thread does. Therefore the spinners go to a group of their own, which is
//! idle as a whole (`cpu.idle`, Linux 5.15), at the top of the hierarchy. That needs the right to
//! make such a group, and version 1 of control groups: in version 2 a thread cannot leave the group
//! of its process (cgroups(7), thread mode). [`Awake::gives_way_to_all`] returns whether it worked.
//!
//! The price is a busy CPU: power, and processor time for which the host may charge.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::cgroup::{Group, Hierarchy, sweep};
use crate::sched::{self, Class, SchedAttr, set_current};
use crate::thread::{self, Tid};

/// The size of a spinner's stack in bytes. It is small because locking the memory of the process
/// locks it, too.
const STACK: usize = 128 << 10;

/// Keeps CPUs from halting until it is dropped. Each CPU gets a thread that spins under SCHED_IDLE.
///
/// ```
/// use punctual_linux::awake::Awake;
/// use punctual_linux::thread;
///
/// let mut awake = Awake::start(&thread::affinity())?;
/// assert_eq!(awake.cpus(), thread::affinity());
/// // From here on only that one.
/// let last = *thread::affinity().last().expect("at least one");
/// awake.keep_only(&[last]);
/// assert_eq!(awake.cpus(), [last]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Awake {
    spinners: Vec<Spinner>,
    /// The group below all others, or `None` if it could not be made.
    below: Option<Below>,
}

/// A control group for spinners, below all others. It is made before the process gives up the right
/// to make it.
#[derive(Debug)]
pub struct Below {
    /// Removed on drop if the process still has the right to; otherwise the next `Below::make`
    /// removes it.
    group: Group,
    /// Opened when the group was made: the kernel checks the right to write at open (cgroups(7)).
    members: File,
    others: File,
}

#[derive(Debug)]
struct Spinner {
    cpu: usize,
    tid: Tid,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Starts one spinner on each of these CPUs. All of them spin when this returns.
    ///
    /// # Errors
    /// If `cpus` is empty, or a thread cannot be made, bound to its CPU, or put under SCHED_IDLE.
    /// No spinner remains then.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        Self::start_in(cpus, Below::make())
    }

    /// Starts one spinner on each of these CPUs, in a group that was made before.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(cpus: &[usize], below: Option<Below>) -> io::Result<Self> {
        if cpus.is_empty() {
            let why = "no CPU was given that could be kept from halting";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let spinners: Vec<_> =
            cpus.iter().map(|&cpu| Spinner::start(cpu)).collect::<Result<_, _>>()?;
        let below = below.filter(|below| below.take(&spinners).is_ok());
        Ok(Self { spinners, below })
    }

    /// Returns the CPUs that are kept from halting, in the order in which they were given.
    pub fn cpus(&self) -> Vec<usize> {
        self.spinners.iter().map(|spinner| spinner.cpu).collect()
    }

    /// Returns true if the ordinary threads of all sessions and control groups preempt the
    /// spinners. Otherwise only those of the spinners' own group do, and threads of other groups
    /// share the CPU with them. Real-time threads preempt them in either case.
    pub fn gives_way_to_all(&self) -> bool {
        self.below.is_some()
    }

    /// Lets all other CPUs halt again.
    pub fn keep_only(&mut self, cpus: &[usize]) {
        let (keep, rest) = std::mem::take(&mut self.spinners)
            .into_iter()
            .partition(|spinner| cpus.contains(&spinner.cpu));
        self.spinners = keep;
        self.end(rest);
    }

    fn end(&self, spinners: Vec<Spinner>) {
        for spinner in &spinners {
            spinner.stop.store(true, Ordering::Relaxed);
            if let Some(below) = &self.below {
                // In the idle group, on a busy CPU, the spinner would run, and see the flag, only
                // much later.
                let _ = (&below.others).write_all(spinner.tid.to_string().as_bytes());
            }
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.spinners);
        self.end(all);
    }
}

impl Below {
    /// Makes a group that is idle as a whole. Returns `None` without the right to make one, without
    /// `cpu.idle`, or where the group would only be below the groups of a container. Also removes
    /// groups left by processes that ended without the right to remove them.
    pub fn make() -> Option<Self> {
        let root = Hierarchy::v1("cpu").filter(Hierarchy::is_whole)?.root();
        let group = Group::make_threaded(&root, true).ok()?;
        sweep(&root, true, |_| {});
        group.write("cpu.idle", "1").ok()?;
        let is_idle = std::fs::read_to_string(group.path().join("cpu.idle")).ok()?;
        if is_idle.trim() != "1" {
            return None;
        }
        let open = |path| File::options().write(true).open(path).ok();
        let (members, others) = (open(group.threads_file())?, open(root.join("tasks"))?);
        Some(Self { group, members, others })
    }

    /// Returns the directory of the group.
    pub fn path(&self) -> &std::path::Path {
        self.group.path()
    }

    fn take(&self, spinners: &[Spinner]) -> io::Result<()> {
        let take =
            |spinner: &Spinner| (&self.members).write_all(spinner.tid.to_string().as_bytes());
        spinners.iter().try_for_each(take)
    }
}

impl Spinner {
    fn start(cpu: usize) -> io::Result<Self> {
        let (tell, told) = mpsc::channel();
        let stop = Arc::<AtomicBool>::default();
        let order = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(format!("awake/{cpu}")).stack_size(STACK);
        let thread = thread.spawn(move || {
            let ready = prepare(cpu);
            let goes = ready.is_ok();
            let _ = tell.send(ready.map(|()| thread::current()));
            while goes && !order.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })?;
        match told.recv().map_err(io::Error::other).and_then(|ready| ready) {
            Ok(tid) => Ok(Self { cpu, tid, stop, thread: Some(thread) }),
            Err(why) => {
                // The thread ends by itself.
                let _ = thread.join();
                Err(why)
            }
        }
    }
}

fn prepare(cpu: usize) -> io::Result<()> {
    thread::pin_to(cpu).map_err(io::Error::other)?;
    set_current(&SchedAttr::idle()).map_err(|errno: Errno| io::Error::from(errno))?;
    let is = sched::get(thread::current()).map_err(io::Error::other)?.policy_name();
    if is == "SCHED_IDLE" { Ok(()) } else { Err(io::Error::other(format!("this is {is}"))) }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // On a busy CPU, under SCHED_IDLE, the spinner would see the flag only much later.
        let _ = sched::set(self.tid, Class::Other { nice: 0 });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::time::Duration;

    use super::*;
    use crate::clock;

    /// Waits until /proc no longer shows `tid`: a thread that was joined stays there for a moment.
    fn ends(tid: Tid) -> bool {
        let is_there = || std::path::Path::new(&format!("/proc/self/task/{tid}")).exists();
        (0..2_000).any(|_| {
            let there = is_there();
            if there {
                clock::sleep(Duration::from_millis(5));
            }
            !there
        })
    }

    #[test]
    fn each_cpu_has_a_spinner_that_gives_way_and_none_stays() {
        let cpus = thread::affinity();
        let mut awake = Awake::start(&cpus).expect("needs no privilege");
        let tids: Vec<Tid> = awake.spinners.iter().map(|spinner| spinner.tid).collect();
        assert_eq!((awake.cpus(), tids.len()), (cpus.clone(), cpus.len()));
        for (&tid, &cpu) in tids.iter().zip(&cpus) {
            assert_eq!(sched::get(tid).expect("it lives").policy_name(), "SCHED_IDLE");
            assert_eq!(thread::affinity_of(tid), [cpu]);
        }
        let last = *cpus.last().expect("at least one");
        awake.keep_only(&[last]);
        assert_eq!(awake.cpus(), [last]);
        let (kept, others) = tids.split_last().expect("at least one");
        assert!(others.iter().all(|tid| ends(*tid)));
        assert_eq!(sched::get(*kept).expect("it lives").policy_name(), "SCHED_IDLE");
        let group = awake.below.as_ref().map(|below| below.path().to_owned());
        if group.is_none() {
            println!(
                "not seen: a group below all others, without privilege or cpu.idle of version 1"
            );
        }
        assert_eq!(awake.gives_way_to_all(), group.is_some());
        if let Some(group) = &group {
            let members = std::fs::read_to_string(group.join("tasks")).expect("it is there");
            assert_eq!(members.trim(), kept.to_string());
        }
        drop(awake);
        assert!(ends(*kept) && group.is_none_or(|group| !group.exists()));
    }

    #[test]
    fn a_cpu_that_cannot_be_kept_awake_is_an_error() {
        assert!(Awake::start(&[thread::affinity()[0], 4_095]).is_err(), "a CPU that is not there");
        assert!(Awake::start(&[]).is_err(), "no CPU at all");
    }
}
