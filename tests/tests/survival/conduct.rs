//! The handlers of an actor: those that keep their promises, and those that do not.

use std::io::{PipeReader, PipeWriter, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant, Service};

/// Longer than any grace, shorter than a test.
const TOO_LONG: u64 = 25;

/// The size of a fresh mapping from the kernel: more than an allocator keeps (mallopt(3),
/// M_MMAP_THRESHOLD is 32 MiB at most).
const FRESH: usize = 33 << 20;

/// The part of it that is touched.
const TOUCHED: usize = 1 << 20;

/// The behaviour of a handler in each iteration.
enum Conduct {
    Counts,
    Faults,
    Spins,
    Sleeps,
    /// Reads until data arrive, or the writing end is closed.
    Blocks(PipeReader),
    /// Starts a program, once.
    Spawns(Arc<Mutex<Option<Child>>>),
}

/// A handler that counts the iterations from which it returned.
pub(crate) struct Worker {
    conduct: Conduct,
    pub(crate) jobs: Arc<AtomicU64>,
}

/// The owner's ends of the pipes and handles of the handlers.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) pipes: Mutex<Vec<PipeWriter>>,
    pub(crate) spawned: Arc<Mutex<Option<Child>>>,
}

impl Worker {
    pub(crate) fn new(conduct: &str, ends: &Ends) -> Self {
        let conduct = match conduct {
            "counts" => Conduct::Counts,
            "faults" => Conduct::Faults,
            "spins" => Conduct::Spins,
            "sleeps" => Conduct::Sleeps,
            "blocks" => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                ends.pipes.lock().expect("whole").push(writer);
                Conduct::Blocks(reader)
            }
            "spawns" => Conduct::Spawns(Arc::clone(&ends.spawned)),
            other => panic!("{other}"),
        };
        Self { conduct, jobs: Arc::default() }
    }

    /// Returns the processor time that a handler promises: little for those that break the promise.
    pub(crate) fn promise(conduct: &str) -> Service {
        Service::from_micros(if conduct == "faults" { 4_000 } else { 100 })
    }
}

/// Returns a program that does nothing for a while.
pub(crate) fn idle_program() -> Command {
    let mut command = Command::new("sleep");
    command.arg("20").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Handler for Worker {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        match &mut self.conduct {
            Conduct::Counts => {}
            Conduct::Faults => {
                let mut fresh = vec![0_u8; FRESH];
                fresh[..TOUCHED].iter_mut().step_by(4096).for_each(|byte| *byte = 1);
                std::hint::black_box(&fresh);
            }
            Conduct::Spins => {
                let until = clock::now() + Duration::from_millis(TOO_LONG);
                while clock::now() < until {}
            }
            Conduct::Sleeps => clock::sleep(Duration::from_millis(TOO_LONG)),
            Conduct::Blocks(pipe) => _ = pipe.read(&mut [0]),
            Conduct::Spawns(child) => {
                let mut child = child.lock().expect("whole");
                child.get_or_insert_with(|| idle_program().spawn().expect("sleep is there"));
            }
        }
        self.jobs.fetch_add(1, Ordering::Relaxed);
        pdus
    }
}
