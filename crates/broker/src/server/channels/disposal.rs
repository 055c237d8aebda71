//! A thread that closes files of strangers, and channels that had them: that may take as long as their
//! file systems like.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Messages whose files may wait to be closed. Of more, none are received.
const WAITING: usize = 64;

#[derive(Debug)]
pub(super) struct Disposal {
    to: Sender<Box<dyn Send>>,
    waiting: Arc<AtomicUsize>,
}

impl Disposal {
    pub(super) fn start() -> io::Result<Self> {
        let (to, from) = channel::<Box<dyn Send>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let close = move || {
            for one in from {
                drop(one);
                count.fetch_sub(1, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("disposal".into()).spawn(close)?;
        Ok(Self { to, waiting })
    }

    /// Whether files may be received from strangers.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING
    }

    /// Takes a channel apart sometime.
    pub(super) fn take_apart(&self, channel: impl Send + 'static) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.to.send(Box::new(channel));
    }

    /// Closes them sometime.
    pub(super) fn take(&self, files: Vec<OwnedFd>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread ends when this is dropped, not before.
        let _ = self.to.send(Box::new(files));
    }
}
