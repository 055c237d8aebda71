//! Reports to the owner of upcalls, in addition to the trace, and an owner on an ordinary thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_ring::spsc::Consumer;

use crate::run_loop::Shared;

/// Something that the owner of an upcall may want to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The time at which it was noticed (CLOCK_MONOTONIC).
    pub at: Instant,
    /// The upcall's number.
    pub task: u32,
    /// The kind of event.
    pub kind: NoticeKind,
}

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Jobs were not complete at their absolute deadlines, and go on or will still run.
    Overrun {
        /// The number of jobs.
        jobs: u64,
        /// True if the upcall requested an immediate notice ([`punctual_model::Overrun::Notify`]).
        urgent: bool,
    },
    /// Jobs were dropped before they began.
    Skipped {
        /// The number of jobs.
        jobs: u64,
    },
    /// A job was ended at a yield point before it was complete.
    Aborted,
    /// Its handler did not come to a yield point in time, and was contained.
    Contained {
        /// The number of containments so far.
        times: u32,
    },
    /// The contained handler returned, and will be released again.
    Returned,
    /// It was contained too often, or its handler was lost in a panic while contained: it is
    /// released no more.
    Closed,
}

impl NoticeKind {
    /// Returns whether an observer is woken for it.
    pub(crate) fn is_urgent(self) -> bool {
        !matches!(self, Self::Overrun { urgent: false, .. } | Self::Skipped { .. } | Self::Aborted)
    }
}

/// The state of an upcall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It is released.
    Active,
    /// Its owner suspended it.
    Suspended,
    /// Its handler has not returned.
    Contained,
    /// It is closed.
    Closed,
}

/// The interval at which the observer looks for notices that are not urgent.
const LOOKS: Duration = Duration::from_millis(50);

/// The receiving end of the notices.
pub(super) enum Observer {
    /// Without a thread: the owner takes the notices out itself.
    Polled(Consumer<Notice>),
    /// A thread that calls the owner's function.
    Thread { ends: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Observer {
    pub(super) fn new<H: Send + 'static>(
        callback: Option<Box<dyn FnMut(Notice) + Send>>,
        mut notices: Consumer<Notice>,
        shared: Arc<Shared<H>>,
    ) -> io::Result<Self> {
        let Some(mut callback) = callback else { return Ok(Self::Polled(notices)) };
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let body = move || {
            loop {
                let events = shared.noticed.count();
                let is_last = is_over.load(Ordering::Acquire);
                while let Some(notice) = notices.pop() {
                    callback(notice);
                }
                if is_last {
                    return;
                }
                shared.noticed.sleep_until(events, clock::now() + LOOKS);
            }
        };
        let thread = std::thread::Builder::new().name("upcalls-notices".into()).spawn(body)?;
        Ok(Self::Thread { ends, thread: Some(thread) })
    }

    pub(super) fn pop(&mut self) -> Option<Notice> {
        match self {
            Self::Polled(notices) => notices.pop(),
            Self::Thread { .. } => None,
        }
    }

    /// Reports the last notices and ends. Called when no more notices are made.
    pub(super) fn end(&mut self, wake: impl FnOnce()) {
        let Self::Thread { ends, thread } = self else { return };
        ends.store(true, Ordering::Release);
        wake();
        if let Some(thread) = thread.take() {
            // A panic of the owner's function was printed when it happened.
            let _ = thread.join();
        }
    }
}
