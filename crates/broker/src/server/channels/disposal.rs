//! Threads that close files of strangers, and channels that had them: that may take as long as their
//! file systems like. One for each user, so that who passes files that never close waits for them alone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Messages of a user whose files may wait to be closed. Of more, none are received.
const WAITING: usize = 64;

#[derive(Debug)]
pub(super) struct Disposal {
    users: BTreeMap<u32, Closer>,
    /// For a user who cannot have a thread just now.
    common: Closer,
}

impl Disposal {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { users: BTreeMap::new(), common: Closer::start()? })
    }

    /// Whether files may be received from a user.
    pub(super) fn has_room(&self, uid: u32) -> bool {
        self.users.get(&uid).is_none_or(|closer| closer.waiting() < WAITING)
            && self.common.waiting() < WAITING
    }

    /// Takes a channel apart sometime.
    pub(super) fn take_apart(&mut self, uid: u32, channel: impl Send + 'static) {
        let closer = match self.users.entry(uid) {
            std::collections::btree_map::Entry::Occupied(own) => own.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => match Closer::start() {
                Ok(own) => place.insert(own),
                Err(_) => &mut self.common,
            },
        };
        closer.take(Box::new(channel));
    }

    /// Closes them sometime.
    pub(super) fn take(&mut self, uid: u32, files: Vec<OwnedFd>) {
        self.take_apart(uid, files);
    }

    /// Ends the threads that have nothing to do.
    pub(super) fn tidy(&mut self) {
        self.users.retain(|_, closer| closer.waiting() > 0);
    }
}

/// A thread. It ends when this was dropped and all is closed.
#[derive(Debug)]
struct Closer {
    to: Sender<Box<dyn Send>>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    fn start() -> io::Result<Self> {
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

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn take(&self, what: Box<dyn Send>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Its thread ends when this is dropped, not before.
        let _ = self.to.send(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closing it takes until somebody says so.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Drop for Stuck {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    fn eventually(mut holds: impl FnMut() -> bool) -> bool {
        (0..10_000).any(|_| {
            punctual_linux::clock::sleep(punctual_model::Duration::from_millis(1));
            holds()
        })
    }

    #[test]
    fn who_passes_what_never_closes_is_the_only_one_to_wait() {
        let mut disposal = Disposal::start().expect("a thread");
        let (release, stuck) = channel();
        disposal.take_apart(1, Stuck(stuck));
        for _ in 1..WAITING {
            assert!(disposal.has_room(1));
            disposal.take(1, Vec::new());
        }
        assert!(!disposal.has_room(1) && disposal.has_room(2));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        disposal.take(2, vec![theirs.into()]);
        ours.set_nonblocking(true).expect("a socket");
        let closed = || matches!(std::io::Read::read(&mut &ours, &mut [0]), Ok(0));
        assert!(eventually(closed), "it waits behind another user");
        disposal.tidy();
        assert!(!disposal.has_room(1), "its files are still to be closed");
        drop(release);
        assert!(eventually(|| disposal.has_room(1)));
        assert!(eventually(|| {
            disposal.tidy();
            disposal.users.is_empty()
        }));
    }
}
