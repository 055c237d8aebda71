//! Makes a handler from two C functions.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use punctual_model::{Handler, Instant};

use super::notice::punctual_activity;
use super::post::Post;
use crate::error::{Failure, Inside};
use crate::sized::Record;

/// The result of `iterate` if there is nothing more to do until punctual_resume. It ends the job
/// and suspends the upcall, and so ends a punctual_wait for it.
pub const PUNCTUAL_DONE: u32 = u32::MAX;

/// Processes up to `pdus` PDUs with the input available at `now_ns`, and returns how many it
/// processed. Zero ends the job; PUNCTUAL_DONE ends it and suspends the upcall. No other handler of
/// the process runs between a call and its return, so handlers need no locks between them.
///
/// It runs on a real-time thread of the library, never on two at once. It must not wait for other
/// threads, and neither throw nor longjmp.
pub type punctual_iterate =
    Option<unsafe extern "C" fn(arg: *mut c_void, now_ns: u64, pdus: u32) -> u32>;

/// The work of the last `iterate` was finished at `now_ns`: its output takes effect. Called after
/// each `iterate`, before any other handler runs. The same rules hold.
pub type punctual_commit = Option<unsafe extern "C" fn(arg: *mut c_void, now_ns: u64)>;

/// The code of an upcall. The object at `arg` must stay until the upcall is closed, or all are
/// stopped, and its handler is not stuck (PUNCTUAL_ESTUCK, punctual_stopped.stuck).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_handler {
    /// sizeof(punctual_handler).
    pub size: usize,
    /// Must not be null.
    pub iterate: punctual_iterate,
    /// May be null.
    pub commit: punctual_commit,
    /// Passed to both functions.
    pub arg: *mut c_void,
}

// SAFETY: nullable functions and a pointer, a size first.
unsafe impl Record for punctual_handler {
    const NAME: &'static str = "punctual_handler";
    const FIRST: usize = offset_of!(Self, arg) + size_of::<*mut c_void>();
}

/// The state of an upcall that is known without a request to the run loop.
#[derive(Debug)]
pub(crate) struct Control {
    /// Its number, once it has one.
    pub(crate) id: AtomicU32,
    /// Its handler returned PUNCTUAL_DONE, and it has not been resumed since.
    pub(crate) done: AtomicBool,
    activity: AtomicU32,
}

impl Control {
    pub(crate) fn new() -> Self {
        let activity = AtomicU32::new(punctual_activity::PUNCTUAL_ACTIVE as u32);
        Self { id: AtomicU32::new(u32::MAX), done: AtomicBool::new(false), activity }
    }

    /// Returns a `punctual_activity`. It is as of the last look, except that PUNCTUAL_DONE shows at
    /// once.
    pub(crate) fn activity(&self) -> u32 {
        let activity = self.activity.load(Ordering::Acquire);
        let active = activity == punctual_activity::PUNCTUAL_ACTIVE as u32;
        if active && self.done.load(Ordering::Acquire) {
            return punctual_activity::PUNCTUAL_SUSPENDED as u32;
        }
        activity
    }

    pub(crate) fn set(&self, activity: punctual_activity) {
        self.activity.store(activity as u32, Ordering::Release);
    }
}

/// A handler of a C program.
pub(crate) struct Called {
    iterate: unsafe extern "C" fn(*mut c_void, u64, u32) -> u32,
    commit: punctual_commit,
    arg: *mut c_void,
    /// True if there is something to commit.
    iterated: bool,
    control: Arc<Control>,
    post: Arc<Post>,
}

// SAFETY: one thread at a time uses the functions and `arg`; it need not be the one that made this.
// `punctual_handler` says so, and the program agreed by passing them.
unsafe impl Send for Called {}

impl Called {
    pub(crate) fn new(
        handler: punctual_handler,
        control: Arc<Control>,
        post: Arc<Post>,
    ) -> Result<Self, Failure> {
        let punctual_handler { iterate, commit, arg, .. } = handler;
        let iterate =
            iterate.ok_or_else(|| Failure::invalid("punctual_handler.iterate is null"))?;
        Ok(Self { iterate, commit, arg, iterated: false, control, post })
    }
}

impl Handler for Called {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        self.iterated = !self.control.done.load(Ordering::Acquire);
        if !self.iterated {
            return 0;
        }
        let inside = Inside::Handler.enter();
        // SAFETY: the program promised that the function may be called with `arg` until the upcall
        // is given back, from one thread at a time.
        let processed = unsafe { (self.iterate)(self.arg, now.as_nanos(), pdus) };
        drop(inside);
        if processed == PUNCTUAL_DONE {
            self.control.done.store(true, Ordering::Release);
            self.post.changed.notify();
            return 0;
        }
        processed.min(pdus)
    }

    fn commit(&mut self, now: Instant) {
        let (Some(commit), true) = (self.commit, self.iterated) else { return };
        let _inside = Inside::Handler.enter();
        // SAFETY: as in `iterate`.
        unsafe { commit(self.arg, now.as_nanos()) }
    }
}
