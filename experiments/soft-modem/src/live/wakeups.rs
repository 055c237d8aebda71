//! The coexisting callback (§6.3): every millisecond at the highest real-time priority.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use punctual_linux::park::Park;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::Duration;
use punctual_runtime::callback;

use super::Error;

/// The callback's period, as the study requested it from its timer.
pub const PERIOD: Duration = Duration::from_millis(1);

/// The wake-ups of the callback, in ns.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The lateness of each wake-up after its due time.
    pub latencies: Vec<u64>,
    /// The time of each wake-up since the previous one: the data of the study's histograms.
    pub gaps: Vec<u64>,
}

/// A callback that runs until it is stopped or dropped.
pub struct Wakeups {
    stop: Arc<Park>,
    thread: Option<JoinHandle<Seen>>,
}

impl Wakeups {
    /// Starts it on `cpu`, with room for `length`. Due times that passed while it could not run are
    /// not made up for: each gap is one between two wake-ups.
    pub fn start(cpu: usize, length: Duration) -> Result<Self, Error> {
        let stop = Arc::new(Park::new());
        let stopped = Arc::clone(&stop);
        let room = (length / PERIOD) as usize + 1;
        let (say, told) = mpsc::sync_channel(1);
        let body = move || {
            let mut seen =
                Seen { latencies: Vec::with_capacity(room), gaps: Vec::with_capacity(room) };
            let enter = || -> Result<(), Error> {
                thread::pin_to(cpu)?;
                sched::set(thread::current(), Class::Fifo { priority: callback::PRIORITY })?;
                Ok(())
            };
            let entered = enter();
            let may_run = entered.is_ok();
            // The other end waits for exactly this message.
            let _ = say.send(entered);
            let mut before = clock::now();
            let mut due = before + PERIOD;
            while may_run && seen.gaps.len() < room && stopped.sleep_until(due) {
                let now = clock::now();
                seen.latencies.push(now.saturating_since(due).as_nanos());
                seen.gaps.push(now.saturating_since(before).as_nanos());
                before = now;
                while due <= now {
                    due += PERIOD;
                }
            }
            seen
        };
        let thread = std::thread::Builder::new().name("callback".into()).spawn(body)?;
        let wakeups = Self { stop, thread: Some(thread) };
        match told.recv() {
            Ok(Ok(())) => Ok(wakeups),
            Ok(Err(why)) => Err(why),
            Err(mpsc::RecvError) => unreachable!("the thread says whether it has its class first"),
        }
    }

    /// Stops it and returns its wake-ups.
    pub fn stop(mut self) -> Seen {
        self.stop.wake();
        let thread = self.thread.take().expect("taken only here and in drop");
        thread.join().expect("the callback does not panic")
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
