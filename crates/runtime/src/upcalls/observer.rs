//! Telling an owner, on an ordinary thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_ring::spsc::Consumer;

use super::Notice;
use crate::run_loop::Shared;

/// How often it looks for what is not urgent.
const LOOKS: Duration = Duration::from_millis(50);

/// The other end of the notices.
pub(super) enum Observer {
    /// Nobody: the owner asks.
    Asked(Consumer<Notice>),
    /// A thread that calls the owner's function.
    Tells { ends: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Observer {
    pub(super) fn new<H: Send + 'static>(
        told: Option<Box<dyn FnMut(Notice) + Send>>,
        mut notices: Consumer<Notice>,
        shared: Arc<Shared<H>>,
    ) -> io::Result<Self> {
        let Some(mut told) = told else { return Ok(Self::Asked(notices)) };
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let body = move || {
            loop {
                let rings = shared.noticed.rings();
                let is_last = is_over.load(Ordering::Acquire);
                while let Some(notice) = notices.pop() {
                    told(notice);
                }
                if is_last {
                    return;
                }
                shared.noticed.sleep_until(rings, clock::now() + LOOKS);
            }
        };
        let thread = std::thread::Builder::new().name("upcalls-notices".into()).spawn(body)?;
        Ok(Self::Tells { ends, thread: Some(thread) })
    }

    pub(super) fn pop(&mut self) -> Option<Notice> {
        match self {
            Self::Asked(notices) => notices.pop(),
            Self::Tells { .. } => None,
        }
    }

    /// Tells the last notices and ends, once nobody makes any more.
    pub(super) fn end(&mut self, wake: impl FnOnce()) {
        let Self::Tells { ends, thread } = self else { return };
        ends.store(true, Ordering::Release);
        wake();
        if let Some(thread) = thread.take() {
            // A panic of the owner's function was printed when it happened.
            let _ = thread.join();
        }
    }
}
