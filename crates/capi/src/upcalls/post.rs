//! Carries notices and wake-ups from the threads that run upcalls to the owner's threads.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use punctual_linux::park::EventCount;
use punctual_runtime::Notice;

use super::notice::{self, punctual_notice, punctual_on_notice};
use crate::error::Inside;

/// The number of notices that wait for a program that polls for them.
const WAITING: usize = 4096;

/// Notices and a count of changes. Handlers only count, and so take no lock.
pub(crate) struct Post {
    /// Rung when the activity of an upcall may have changed.
    pub(crate) changed: EventCount,
    /// The upcalls do not run any more.
    ended: AtomicBool,
    notices: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    notices: VecDeque<punctual_notice>,
    lost: u64,
}

impl Post {
    pub(crate) fn new() -> Self {
        let (changed, ended) = (EventCount::new(), AtomicBool::new(false));
        Self { changed, ended, notices: Mutex::default() }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.changed.notify();
    }

    fn keep(&self, notice: punctual_notice) {
        let mut waiting = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.notices.len() == WAITING {
            waiting.notices.pop_front();
            waiting.lost += 1;
        }
        waiting.notices.push_back(notice);
    }

    /// Takes the oldest notices, at most `most`, and the number lost since the last call.
    pub(crate) fn take(&self, most: usize) -> (Vec<punctual_notice>, u64) {
        let mut waiting = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = std::mem::take(&mut waiting.lost);
        let most = most.min(waiting.notices.len());
        (waiting.notices.drain(..most).collect(), lost)
    }
}

/// The program's function for notices, if it has one.
pub(crate) struct NoticeFunction {
    function: punctual_on_notice,
    arg: *mut c_void,
}

// SAFETY: one thread at a time uses it; `punctual_on_notice` says that it is one of the library's.
unsafe impl Send for NoticeFunction {}

impl NoticeFunction {
    pub(crate) fn new(function: punctual_on_notice, arg: *mut c_void) -> Self {
        Self { function, arg }
    }

    pub(crate) fn deliver(&self, notice: Notice, post: &Post) {
        let notice = notice::notice(notice);
        match self.function {
            None => post.keep(notice),
            Some(function) => {
                let _inside = Inside::Notice.enter();
                // SAFETY: the program promised that the function may be called with `arg` until the
                // upcalls are stopped; the notice lives as long as the call.
                unsafe { function(self.arg, &raw const notice) }
            }
        }
        post.changed.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_notices_are_lost_and_counted() {
        let post = Post::new();
        for at_ns in 0..WAITING as u64 + 3 {
            post.keep(punctual_notice { at_ns, count: 1, id: 0, kind: 0 });
        }
        let (first, lost) = post.take(2);
        assert_eq!((first[0].at_ns, first.len(), lost), (3, 2, 3));
        let (rest, lost) = post.take(usize::MAX);
        assert_eq!((rest.len(), lost), (WAITING - 2, 0));
    }
}
