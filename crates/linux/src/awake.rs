//! CPUs that never halt.
//!
//! A virtual CPU that has nothing to do is given back to its host, which may take milliseconds to let it
//! run again: what this machine then owes to a timer or a packet is late, at any priority
//! (`/proc/stat` calls some of it steal). A thread under SCHED_IDLE keeps the CPU: real-time threads, and
//! ordinary ones, come before it (sched(7)), and the host sees a CPU that is never idle.
//! [`crate::measure::halting`] tells whether a host needs it.
//!
//! SCHED_IDLE is a low weight among the threads of one control group, or of one session where the kernel
//! groups threads by session (autogroup): between groups the fair class shares by the weights of groups, so
//! such a thread would take as much from the ordinary threads of another session as any. Therefore the
//! spinners go to a group of their own that is idle as a whole (`cpu.idle`, Linux 5.15), at the top of the
//! hierarchy. That takes the right to make one, and version 1 of control groups: in version 2 a thread
//! cannot leave the group of its process (cgroups(7), thread mode). [`Awake::gives_way_to_all`] tells.
//!
//! It costs what the CPU costs: power, and processor time that somebody may charge for.

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

/// A spinner's stack, in bytes: small, as who locks the memory of the process locks it too.
const STACK: usize = 128 << 10;

/// Keeps CPUs from halting until it is dropped: a thread for each, which spins under SCHED_IDLE.
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
    /// Below all other groups; none where that cannot be.
    below: Option<Below>,
}

/// A control group below all others, for spinners: made before the right to make it is given up.
#[derive(Debug)]
pub struct Below {
    /// Removed at the end, if the right is still there; else by the next that makes one.
    group: Group,
    /// Open since then: whoever opened them could write to them (cgroups(7)).
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
    /// One thread on each of these CPUs; all are at it when this returns.
    ///
    /// # Errors
    /// If there is no CPU among them, or a thread cannot be made, bound to its CPU, or put under
    /// SCHED_IDLE. None stays then.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        Self::start_in(cpus, Below::make())
    }

    /// The same, in a group that was made before.
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

    /// Those that are kept from halting, in the order in which they were given.
    pub fn cpus(&self) -> Vec<usize> {
        self.spinners.iter().map(|spinner| spinner.cpu).collect()
    }

    /// Whether the ordinary threads of all sessions and control groups come before it; else only those of
    /// its own, and others share the CPU with it. Real-time threads come before it in any case.
    pub fn gives_way_to_all(&self) -> bool {
        self.below.is_some()
    }

    /// Lets all others halt again.
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
                // In there it would see the order only after a while, on a CPU that others keep busy.
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
    /// A group that is idle as a whole; none where there is no right to make one, or no such group, or where
    /// it would only be below the groups of a container. What a process left that ended without that right
    /// is removed.
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

    /// The folder of the group.
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
                // It ends by itself.
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
        // On a busy CPU it would see the order only after a while.
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

    /// A thread that was joined is in /proc for a moment more.
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
    fn each_cpu_has_one_that_gives_way_and_none_stays() {
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
    fn what_cannot_be_kept_awake_is_an_error() {
        assert!(Awake::start(&[thread::affinity()[0], 4_095]).is_err(), "a CPU that is not there");
        assert!(Awake::start(&[]).is_err(), "no CPU at all");
    }
}
