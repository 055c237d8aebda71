//! Threads that wake clients, one for each user, so that the threads that carry messages need not.
//!
//! A thread on which others depend must not wake a process. The woken process can make that take
//! long, by everything that waits for its end of the bell (epoll(7)) and by the signals that it has
//! requested for it (fcntl(2), F_SETOWN). So such a thread only sets a mark, which takes a few
//! atomic steps and, if the ringer sleeps, one wake-up of a thread of our own. A slow ringer harms
//! only its own user.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, Thread};

use punctual_linux::pass::Bell;

/// The largest number of bells of one ringer.
const PLACES: usize = 1024;

/// The places of a word.
const WORD: usize = u64::BITS as usize;

/// The marks that a ringer's thread shares with its notifiers.
#[derive(Debug)]
struct Marks {
    /// Bells to be rung, one bit each.
    due: [AtomicU64; PLACES / WORD],
    /// Places that are taken, one bit each.
    taken: [AtomicU64; PLACES / WORD],
}

#[derive(Debug)]
enum Change {
    Enter(usize, Bell),
    Leave(usize),
}

/// A thread that rings up to 1024 bells. It ends when this and all its notifiers are dropped, and
/// closes its bells itself.
#[derive(Debug)]
struct Ringer {
    marks: Arc<Marks>,
    thread: Thread,
    /// `None` while this is dropped.
    to: Option<Sender<Change>>,
}

/// Has the bell of one client rung. Dropping it has the bell closed.
#[derive(Debug)]
pub struct Notifier {
    marks: Arc<Marks>,
    thread: Thread,
    at: usize,
    /// `None` while this is dropped.
    to: Option<Sender<Change>>,
}

impl Notifier {
    /// Has the bell rung soon. Neither waits nor allocates; the client may see several rings in
    /// quick succession as one.
    pub fn ring(&self) {
        let bit = 1 << (self.at % WORD);
        // The ringer sees what was published before, and so does the client that it wakes.
        let before = self.marks.due[self.at / WORD].fetch_or(bit, Ordering::AcqRel);
        if before & bit == 0 {
            self.thread.unpark();
        }
    }
}

#[cfg(test)]
impl Notifier {
    /// Creates a notifier that only sets the mark: for step-by-step tests.
    pub(in crate::server) fn without_a_thread() -> Self {
        let zeroes = || [const { AtomicU64::new(0) }; PLACES / WORD];
        let marks = Arc::new(Marks { due: zeroes(), taken: zeroes() });
        Self { marks, thread: thread::current(), at: 0, to: None }
    }

    /// Returns whether it was rung since the last call.
    pub(in crate::server) fn was_rung(&self) -> bool {
        self.marks.due[0].swap(0, Ordering::AcqRel) != 0
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            // This fails only if the thread has panicked.
            let _ = to.send(Change::Leave(self.at));
        }
        self.thread.unpark();
    }
}

impl Ringer {
    fn start() -> io::Result<Self> {
        let zeroes = || [const { AtomicU64::new(0) }; PLACES / WORD];
        let marks = Arc::new(Marks { due: zeroes(), taken: zeroes() });
        let (to, changes) = channel();
        let own = Arc::clone(&marks);
        let run = move || ring_all(&own, &changes);
        let thread = thread::Builder::new().name("ringer".into()).spawn(run)?.thread().clone();
        Ok(Self { marks, thread, to: Some(to) })
    }

    /// Rings this bell from here on.
    ///
    /// # Errors
    /// Returns the bell if there are as many as the thread can ring.
    fn enter(&mut self, bell: Bell) -> Result<Notifier, Bell> {
        let free = |word: &AtomicU64| word.load(Ordering::Acquire) != u64::MAX;
        let Some(word) = self.marks.taken.iter().position(free) else { return Err(bell) };
        let taken = &self.marks.taken[word];
        // Only this takes places; other threads only give them back.
        let bit = taken.load(Ordering::Acquire).trailing_ones();
        taken.fetch_or(1 << bit, Ordering::AcqRel);
        let at = word * WORD + bit as usize;
        if let Some(to) = &self.to {
            // This fails only if the thread has panicked.
            let _ = to.send(Change::Enter(at, bell));
        }
        self.thread.unpark();
        let (marks, thread) = (Arc::clone(&self.marks), self.thread.clone());
        Ok(Notifier { marks, thread, at, to: self.to.clone() })
    }

    fn is_idle(&self) -> bool {
        self.marks.taken.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        drop(self.to.take());
        // This ends the thread if no notifier is left.
        self.thread.unpark();
    }
}

/// The body of the thread.
fn ring_all(marks: &Marks, changes: &Receiver<Change>) {
    let mut bells: BTreeMap<usize, Bell> = BTreeMap::new();
    loop {
        let mut rang = false;
        for (at, word) in marks.due.iter().enumerate() {
            let mut due = word.swap(0, Ordering::AcqRel);
            if due == 0 {
                continue;
            }
            rang = true;
            // Taken after the marks: a bell whose mark is seen was entered before.
            if take_changes(marks, changes, &mut bells) {
                return;
            }
            while due != 0 {
                let place = at * WORD + due.trailing_zeros() as usize;
                due &= due - 1;
                // Without its client a bell is useless; the client's end closes its channel
                // elsewhere.
                if bells.get(&place).is_some_and(|bell| bell.ring().is_err()) {
                    bells.remove(&place);
                }
            }
        }
        if take_changes(marks, changes, &mut bells) {
            return;
        }
        if !rang {
            thread::park();
        }
    }
}

/// Takes the changes. Returns whether the ringer and all its notifiers are gone.
fn take_changes(
    marks: &Marks,
    changes: &Receiver<Change>,
    bells: &mut BTreeMap<usize, Bell>,
) -> bool {
    loop {
        match changes.try_recv() {
            Ok(Change::Enter(at, bell)) => _ = bells.insert(at, bell),
            Ok(Change::Leave(at)) => {
                bells.remove(&at);
                marks.taken[at / WORD].fetch_and(!(1 << (at % WORD)), Ordering::AcqRel);
            }
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => return true,
        }
    }
}

/// The ringers of all users.
#[derive(Debug, Default)]
pub struct Ringers {
    users: BTreeMap<u32, Vec<Ringer>>,
}

impl Ringers {
    /// Has a bell of a user rung, by a thread of that user.
    ///
    /// # Errors
    /// Returns an error if no thread can be created.
    pub fn enter(&mut self, user: u32, mut bell: Bell) -> io::Result<Notifier> {
        let own = self.users.entry(user).or_default();
        for ringer in &mut *own {
            match ringer.enter(bell) {
                Ok(notifier) => return Ok(notifier),
                Err(back) => bell = back,
            }
        }
        let mut ringer = Ringer::start()?;
        let notifier = ringer.enter(bell).map_err(|_| io::Error::other("a ringer without room"));
        own.push(ringer);
        notifier
    }

    /// Ends the threads that have nothing to ring.
    pub fn tidy(&mut self) {
        self.users.retain(|_, own| {
            own.retain(|ringer| !ringer.is_idle());
            !own.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::clock;
    use punctual_linux::pass::WaitOutcome;
    use punctual_model::{Duration, Instant};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    fn patience() -> Instant {
        clock::now() + Duration::from_secs(20)
    }

    fn entered(ringers: &mut Ringers, user: u32) -> (Notifier, Bell) {
        let (ours, theirs) = Bell::pair().expect("descriptors");
        (ringers.enter(user, ours).expect("a thread"), theirs)
    }

    #[test]
    fn each_ring_reaches_its_own_client() {
        let mut ringers = Ringers::default();
        let all: Vec<_> = (0..100).map(|n| entered(&mut ringers, n % 3)).collect();
        for (notifier, client) in &all {
            notifier.ring();
            assert_eq!(client.wait(patience()), Ok(WaitOutcome::Rung));
        }
        for (_, client) in &all {
            assert_eq!(client.wait(Instant::ZERO), Ok(WaitOutcome::TimedOut), "another's");
        }
        assert_eq!(ringers.users.len(), 3);
    }

    /// Rings again only when the previous ring has come: a lost ring fails the test.
    #[test]
    fn no_ring_is_lost_while_the_ringer_falls_asleep() {
        let mut ringers = Ringers::default();
        let (notifier, client) = entered(&mut ringers, 1);
        for round in 0..5_000 {
            notifier.ring();
            assert_eq!(client.wait(patience()), Ok(WaitOutcome::Rung), "round {round}");
            if round % 7 == 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_bell_is_closed_with_its_notifier_and_a_thread_with_its_last() {
        let mut ringers = Ringers::default();
        let (one, first) = entered(&mut ringers, 1);
        let (two, second) = entered(&mut ringers, 1);
        drop(one);
        assert_eq!(first.wait(patience()), Ok(WaitOutcome::Closed));
        two.ring();
        assert_eq!(second.wait(patience()), Ok(WaitOutcome::Rung));
        ringers.tidy();
        assert_eq!(ringers.users.len(), 1, "one is left");
        drop(ringers);
        two.ring();
        assert_eq!(second.wait(patience()), Ok(WaitOutcome::Rung), "its notifier keeps it alive");
        drop(two);
        assert_eq!(second.wait(patience()), Ok(WaitOutcome::Closed));
    }

    #[test]
    fn places_are_used_again_and_a_user_may_have_more_than_a_thread_rings() {
        // Sessions start with a soft limit of 1,024 descriptors.
        let limit = getrlimit(Resource::Nofile);
        let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, most).expect("up to the hard limit");
        let mut ringers = Ringers::default();
        let all: Vec<_> = (0..PLACES + 1).map(|_| entered(&mut ringers, 7)).collect();
        assert_eq!(ringers.users[&7].len(), 2);
        let (last, client) = &all[PLACES];
        last.ring();
        assert_eq!(client.wait(patience()), Ok(WaitOutcome::Rung));
        drop(all);
        while !ringers.users.is_empty() {
            assert!(clock::now() < patience());
            ringers.tidy();
            std::thread::yield_now();
        }
        let (again, client) = entered(&mut ringers, 7);
        again.ring();
        assert_eq!(client.wait(patience()), Ok(WaitOutcome::Rung));
    }

    /// Checks that a client that never listens, or is gone, does not delay the rings of others.
    #[test]
    fn a_client_that_never_listens_delays_no_other() {
        let mut ringers = Ringers::default();
        let (deaf, _never_heard) = entered(&mut ringers, 1);
        let (gone, end) = entered(&mut ringers, 1);
        drop(end);
        let (notifier, client) = entered(&mut ringers, 1);
        for _ in 0..2_000 {
            deaf.ring();
            gone.ring();
            notifier.ring();
            assert_eq!(client.wait(patience()), Ok(WaitOutcome::Rung));
        }
    }
}
