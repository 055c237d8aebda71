//! Threads for work that may take as long as a client likes: sealing memory that it writes, and
//! taking apart channels that share memory with it. There is one for each user, so that a client
//! that holds one up harms only its own user.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// The most jobs that wait for a user's thread. Beyond that, no queue is made for that user.
const WAITING: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) struct Disposal {
    users: BTreeMap<u32, Closer>,
    /// For a user for whom no thread can be made now.
    common: Closer,
}

impl Disposal {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { users: BTreeMap::new(), common: Closer::start()? })
    }

    /// Returns whether a queue may be made for a user.
    pub(super) fn has_room(&self, uid: u32) -> bool {
        self.users.get(&uid).is_none_or(|closer| closer.waiting() < WAITING)
            && self.common.waiting() < WAITING
    }

    /// Takes a channel apart, at some later time.
    pub(super) fn take_apart(&mut self, uid: u32, channel: impl Send + 'static) {
        let closer = Self::of(&mut self.users, uid).unwrap_or(&self.common);
        closer.run(Box::new(move || drop(channel)));
    }

    /// Runs a job that may wait for a client of this user.
    ///
    /// # Errors
    /// If no thread can be made for it.
    pub(super) fn run(&mut self, uid: u32, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        match Self::of(&mut self.users, uid) {
            Some(closer) => {
                closer.run(Box::new(job));
                Ok(())
            }
            None => Err(io::Error::other("no thread is left")),
        }
    }

    fn of(users: &mut BTreeMap<u32, Closer>, uid: u32) -> Option<&Closer> {
        match users.entry(uid) {
            std::collections::btree_map::Entry::Occupied(own) => Some(own.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                Closer::start().ok().map(|own| &*place.insert(own))
            }
        }
    }

    /// Ends the threads that have nothing to do.
    pub(super) fn tidy(&mut self) {
        self.users.retain(|_, closer| closer.waiting() > 0);
    }
}

/// A thread. It ends when this is dropped and all jobs are done.
#[derive(Debug)]
struct Closer {
    to: Sender<Job>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    fn start() -> io::Result<Self> {
        let (to, from) = channel::<Job>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let close = move || {
            for one in from {
                one();
                count.fetch_sub(1, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("disposal".into()).spawn(close)?;
        Ok(Self { to, waiting })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn run(&self, what: Job) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Its thread ends when this is dropped, not before.
        let _ = self.to.send(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closing it takes until the test releases it.
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
    fn a_user_whose_file_never_closes_delays_no_other_user() {
        let mut disposal = Disposal::start().expect("a thread");
        let (release, stuck) = channel();
        disposal.take_apart(1, Stuck(stuck));
        for _ in 1..WAITING {
            assert!(disposal.has_room(1));
            disposal.take_apart(1, ());
        }
        assert!(!disposal.has_room(1) && disposal.has_room(2));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        disposal.take_apart(2, theirs);
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
