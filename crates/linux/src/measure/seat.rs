//! Threads that measure, their CPUs and their classes, and the reasons they could not measure.

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use punctual_model::time::Duration;
use rustix::io::Errno;
use thiserror::Error;

use crate::clock;
use crate::sched::{self, Class, SchedError};
use crate::thread::{self, AffinityError};

/// The SCHED_FIFO priority of measuring threads: above ordinary real-time work, below anything that
/// an administrator keeps at the top.
pub const PRIORITY: u8 = 90;

/// The most samples that one call returns; they are allocated before anything is timed.
pub(super) const MOST_SAMPLES: usize = 1 << 16;

/// The reason something could not be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A thread may not run under the class that the measurement needs.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// A thread may not run on the CPU that the measurement needs.
    #[error(transparent)]
    Cpu(#[from] AffinityError),
    /// One of two threads could not start, or did not start in time.
    #[error(
        "the thread to take turns with did not get its CPU within seconds: the host is overloaded"
    )]
    NoPartner,
    /// clone(2) failed.
    #[error("no thread could be made: {0}; raise the limit on processes (ulimit -u)")]
    NoThread(io::Error),
    /// fork(2) failed.
    #[error("no process could be made: {0}; raise the limit on processes (ulimit -u)")]
    NoProcess(io::Error),
    /// The CPUs could not be kept from halting, so there is nothing to compare with.
    #[error("the CPUs could not be kept from halting: {0}")]
    Awake(io::Error),
    /// mmap(2) failed.
    #[error("no memory could be mapped: {0}")]
    NoMemory(Errno),
}

/// How long one of two threads waits for the other to be seated: on a loaded host an ordinary
/// thread may have to wait for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which it checks.
const LOOK: Duration = Duration::from_micros(50);

/// The CPU and the class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its CPU; `None` means any. A SCHED_DEADLINE thread may not be bound to one (sched(7)).
    pub cpu: Option<usize>,
    /// Its class.
    pub class: Class,
}

impl Seat {
    /// Returns the seat at SCHED_FIFO, [`PRIORITY`], on `cpu`.
    pub fn fifo(cpu: usize) -> Self {
        Self { cpu: Some(cpu), class: Class::Fifo { priority: PRIORITY } }
    }

    /// Puts the calling thread on this CPU and into this class.
    pub(super) fn take(self) -> Result<(), MeasureError> {
        // The class first: an ordinary thread would have to wait for its new CPU.
        sched::set(thread::current(), self.class)?;
        Ok(self.cpu.map_or(Ok(()), thread::pin_to)?)
    }
}

/// Runs `body` on a thread of its own in `seat`.
pub(super) fn alone<T: Send>(
    seat: Seat,
    body: impl FnOnce() -> Result<T, MeasureError> + Send,
) -> Result<T, MeasureError> {
    scope(|scope| joined(spawn(scope, move || seat.take().and_then(|()| body()))?))
}

/// Runs two bodies at once, each on a thread of its own. They begin when both threads are seated:
/// before that, a body that never sleeps could keep the other thread from its seat.
pub(super) fn together<A: Send, B: Send>(
    [first_seat, second_seat]: [Seat; 2],
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> Result<(A, B), MeasureError> {
    let gate = &Gate::default();
    scope(|scope| {
        let first = spawn(scope, move || gate.enter(first_seat).map(|()| first()))?;
        let second = spawn(scope, move || gate.enter(second_seat).map(|()| second()));
        if second.is_err() {
            gate.closed.store(true, Ordering::Release);
        }
        match (joined(first), second.and_then(joined)) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            // Report the reason, not that the partner is missing.
            (Err(MeasureError::NoPartner), Err(why)) | (Err(why), _) | (_, Err(why)) => Err(why),
        }
    })
}

/// A barrier for two threads.
#[derive(Default)]
struct Gate {
    seated: AtomicU32,
    closed: AtomicBool,
}

impl Gate {
    fn enter(&self, seat: Seat) -> Result<(), MeasureError> {
        let until = clock::now() + PATIENCE;
        if let Err(why) = seat.take() {
            self.closed.store(true, Ordering::Release);
            return Err(why);
        }
        self.seated.fetch_add(1, Ordering::AcqRel);
        while self.seated.load(Ordering::Acquire) < 2 {
            if self.closed.load(Ordering::Acquire) || clock::now() > until {
                return Err(MeasureError::NoPartner);
            }
            clock::sleep(LOOK);
        }
        Ok(())
    }
}

pub(super) fn spawn<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, MeasureError> {
    let thread = Builder::new().name("punctual-measure".to_owned());
    thread.spawn_scoped(scope, body).map_err(MeasureError::NoThread)
}

/// Returns the thread's result, and resumes its panic.
pub(super) fn joined<T>(
    thread: ScopedJoinHandle<'_, Result<T, MeasureError>>,
) -> Result<T, MeasureError> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
