//! Reports to an owner on an ordinary thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_ring::spsc::Consumer;

use super::Notice;
use crate::run_loop::Shared;

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
                let rings = shared.noticed.rings();
                let is_last = is_over.load(Ordering::Acquire);
                while let Some(notice) = notices.pop() {
                    callback(notice);
                }
                if is_last {
                    return;
                }
                shared.noticed.sleep_until(rings, clock::now() + LOOKS);
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
