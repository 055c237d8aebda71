//! A periodic callback that measures how late it is woken: the study's coexisting thread.
//!
//! The soft modem study (§6.3) asks how a driver affects the rest of the system, and measures it as
//! the wake-up latency of a 1 ms callback at the highest real-time priority.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::park::Park;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread;
use punctual_model::Duration;
use punctual_trace::Times;

use crate::upcalls::StartError;

/// The callback's priority: above every upcall, and below only the kernel's own threads.
pub const PRIORITY: u8 = 98;

/// The shortest period that is accepted. Waking takes longer than a shorter one, and the thread
/// would spin above every upcall.
const LEAST_PERIOD: Duration = Duration::from_micros(10);

/// A callback that runs until it is stopped or dropped.
pub struct Callback {
    stop: Arc<Park>,
    thread: Option<JoinHandle<Times>>,
}

impl Callback {
    /// Starts a thread at SCHED_FIFO priority [`PRIORITY`] that wakes at each multiple of `period`
    /// from now on and records how late it was. After a wake-up that comes more than a period late
    /// the missed ones follow, each counted with its own lateness.
    ///
    /// A period below 10 µs is refused ([`StartError::Period`]).
    ///
    /// ```
    /// use punctual_model::Duration;
    /// use punctual_runtime::{Callback, StartError};
    ///
    /// assert!(matches!(Callback::start(Duration::ZERO), Err(StartError::Period { .. })));
    /// ```
    pub fn start(period: Duration) -> Result<Self, StartError> {
        if period < LEAST_PERIOD {
            return Err(StartError::Period { period, least: LEAST_PERIOD });
        }
        let stop = Arc::new(Park::new());
        let stopped = Arc::clone(&stop);
        let (ready_tx, ready) = mpsc::sync_channel::<Result<(), SchedError>>(1);
        let body = move || {
            let entered = sched::set(thread::current(), Class::Fifo { priority: PRIORITY });
            let may_run = entered.is_ok();
            let mut latencies = Times::new();
            // The receiver waits for exactly this message.
            let _ = ready_tx.send(entered);
            let mut due = clock::now().saturating_add(period);
            while may_run && stopped.sleep_until(due) {
                latencies.record(clock::now().saturating_since(due));
                due = due.saturating_add(period);
            }
            latencies
        };
        let thread = std::thread::Builder::new().name("callback".into()).spawn(body)?;
        let callback = Self { stop, thread: Some(thread) };
        match ready.recv() {
            Ok(Ok(())) => Ok(callback),
            Ok(Err(refused)) => Err(refused.into()),
            Err(mpsc::RecvError) => unreachable!("the thread says whether it has its class first"),
        }
    }

    /// Stops the callback and returns the latencies that it measured.
    pub fn stop(mut self) -> Times {
        self.stop.wake();
        let thread = self.thread.take().expect("taken only here and in drop");
        thread.join().expect("the callback does not panic")
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
