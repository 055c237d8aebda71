//! Scheduling classes: ordinary, SCHED_FIFO, and reservations through SCHED_DEADLINE (sched(7)).

mod class;
mod raw;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use punctual_model::time::Duration;
use rustix::io::Errno;

use crate::host::KernelLimits;
use crate::thread::Tid;
use crate::{clock, thread};

pub(crate) use class::of_child;
pub use class::{Class, LEAST_BUDGET, SchedError, bandwidth_cap};
pub(crate) use raw::{SchedAttr, set_current};

/// How long [`set`] retries while the kernel reports no bandwidth. The bandwidth of a thread that
/// left SCHED_DEADLINE or was killed stays allocated until its last deadline, so for up to its
/// period. This covers all but reservations with periods of a second and more.
pub const LINGER: Duration = Duration::from_millis(300);

/// The pause between two retries.
pub(crate) const LINGER_PAUSE: Duration = Duration::from_micros(500);

/// A record of how a thread is scheduled, sufficient to restore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling(SchedAttr);

impl Scheduling {
    /// Returns the class, or `None` for SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_EXT and a
    /// SCHED_DEADLINE thread whose deadline is not its period.
    pub fn class(&self) -> Option<Class> {
        self.0.class()
    }

    /// Returns the policy's name in the manual page.
    pub fn policy_name(&self) -> &'static str {
        self.0.policy_name()
    }
}

/// Returns how `thread` is scheduled now (sched_getattr(2)). Needs no privilege.
pub fn get(thread: Tid) -> Result<Scheduling, SchedError> {
    raw::get(thread).map(Scheduling).map_err(|errno| class::of_get(thread, errno))
}

/// Puts `thread` into `class` (sched_setattr(2)).
///
/// A reservation is first checked against the kernel's own limits, so that the refusal can name the
/// one it breaks. While the kernel returns EBUSY, the call is repeated for up to [`LINGER`]: this
/// may block that long, and is not for the hot path.
///
/// A thread can leave SCHED_DEADLINE only by its own call ([`SchedError::MustLeaveItself`] says
/// why). The flag that [`reset_on_fork`] set stays set.
pub fn set(thread: Tid, class: Class) -> Result<(), SchedError> {
    let attr = SchedAttr::of(class)?;
    let Class::Deadline { reservation, .. } = class else {
        let failed = |errno| class::of_set(thread, class, errno);
        let now = raw::get(thread).map_err(failed)?;
        if thread != thread::current() && now.is_deadline() {
            return Err(SchedError::MustLeaveItself { thread });
        }
        return raw::set(thread, &attr.with_reset_of(now)).map_err(failed);
    };
    KernelLimits::read().check(reservation)?;
    let until = clock::now() + LINGER;
    loop {
        match raw::set(thread, &attr) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if clock::now() < until => clock::sleep(LINGER_PAUSE),
            Err(errno) => return Err(class::of_set(thread, class, errno)),
        }
    }
}

/// Makes all threads and processes that the calling thread makes from now on start under
/// SCHED_OTHER (SCHED_RESET_ON_FORK, sched(7)), even if [`set`] or a priority change alters its
/// class later.
///
/// This is for threads that run foreign code: threads started by that code would otherwise inherit
/// the priority.
pub fn reset_on_fork() -> Result<(), SchedError> {
    let this = thread::current();
    let now = raw::get(this).map_err(|errno| class::of_get(this, errno))?;
    raw::set(this, &now.with_reset()).map_err(SchedError::Failed)
}

/// Finds out by trying whether this process may use `class`: a scratch thread with the caller's
/// CPUs enters and leaves it.
pub fn try_out(class: Class) -> Result<(), SchedError> {
    let body = move || {
        let restore = Restore::current()?;
        set(thread::current(), class)?;
        restore.restore()
    };
    let scratch = std::thread::Builder::new().name("punctual-probe".to_owned()).spawn(body);
    let joined = scratch.map_err(|_| SchedError::CannotFork)?.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Does what [`set`] does, but never sleeps: it returns on the first EBUSY.
///
/// `class` is applied exactly: a flag set by [`reset_on_fork`] or [`set_resetting`] is cleared,
/// which takes CAP_SYS_NICE. A reservation is not checked against the kernel's limits first
/// ([`KernelLimits::check`]), and another thread is moved out of SCHED_DEADLINE, which [`set`]
/// would refuse. The caller has to check both.
pub fn set_without_retry(thread: Tid, class: Class) -> Result<(), SchedError> {
    let attr = SchedAttr::of(class)?;
    raw::set(thread, &attr).map_err(|errno| class::of_set(thread, class, errno))
}

/// Does what [`set_without_retry`] does, with SCHED_RESET_ON_FORK (sched(7)): threads and processes
/// that `thread` makes from now on start under SCHED_OTHER. A thread without CAP_SYS_NICE cannot
/// clear the flag, so it cannot pass the class on. As with [`set`], a thread can leave
/// SCHED_DEADLINE only by its own call.
///
/// ```no_run
/// use punctual_linux::sched::{Class, set_resetting};
/// use punctual_linux::thread;
///
/// // Whatever this thread starts is ordinary.
/// set_resetting(thread::current(), Class::Fifo { priority: 10 })?;
/// # Ok::<(), punctual_linux::sched::SchedError>(())
/// ```
pub fn set_resetting(thread: Tid, class: Class) -> Result<(), SchedError> {
    let attr = SchedAttr::of(class)?.with_reset();
    let failed = |errno| class::of_set(thread, class, errno);
    let leaves = !matches!(class, Class::Deadline { .. });
    if leaves && thread != thread::current() && raw::get(thread).map_err(failed)?.is_deadline() {
        return Err(SchedError::MustLeaveItself { thread });
    }
    raw::set(thread, &attr).map_err(failed)
}

/// Returns the nice value of `thread`, which it keeps while it is under a real-time class
/// (getpriority(2)).
pub fn nice_of(thread: Tid) -> Result<i32, SchedError> {
    let id = rustix::process::Pid::from_raw(thread.as_raw());
    rustix::process::getpriority_process(id).map_err(|errno| class::of_get(thread, errno))
}

/// Changes the priority of a thread that is under SCHED_FIFO already. If it succeeds, it has made
/// one system call, some 1.2 µs, and nothing else.
///
/// It uses sched_setparam(2), which leaves the policy alone: if the id meanwhile belongs to an
/// ordinary thread, the result is an error and not an unwanted real-time thread.
pub fn set_fifo_priority(thread: Tid, priority: u8) -> Result<(), SchedError> {
    raw::set_priority(thread, priority)
        .map_err(|errno| class::of_set(thread, Class::Fifo { priority }, errno))
}

/// Records how the calling thread is scheduled (class, CPUs, timer slack) and restores it on drop.
///
/// It is not `Send`, so its thread still lives, with the same id, when it is restored.
#[derive(Debug)]
#[must_use = "dropping it restores at once"]
pub struct Restore {
    thread: Tid,
    scheduling: SchedAttr,
    cpus: Vec<usize>,
    timer_slack: Duration,
    done: bool,
    not_send: PhantomData<*const ()>,
}

impl Restore {
    /// Records the calling thread's scheduling.
    pub fn current() -> Result<Self, SchedError> {
        let thread = thread::current();
        Ok(Self {
            thread,
            scheduling: raw::get(thread).map_err(|errno| class::of_get(thread, errno))?,
            cpus: thread::affinity(),
            timer_slack: thread::timer_slack(),
            done: false,
            not_send: PhantomData,
        })
    }

    /// Restores now, and returns an error if that failed; dropping ignores it. Giving up a
    /// real-time class needs no privilege, so this fails only if the thread has lost the right to
    /// its original class or nice value.
    pub fn restore(mut self) -> Result<(), SchedError> {
        let outcome = self.apply();
        self.done = true;
        outcome
    }

    fn apply(&self) -> Result<(), SchedError> {
        let failed = |errno| match self.scheduling.class() {
            Some(class) => class::of_set(self.thread, class, errno),
            None => SchedError::Failed(errno),
        };
        let mut now = raw::get(self.thread).map_err(failed)?;
        if thread::affinity() != self.cpus {
            // A thread under SCHED_DEADLINE may not change its CPUs (sched(7)): leave it first.
            if now.is_deadline() {
                let ordinary = SchedAttr::of(Class::Other { nice: 0 })?;
                raw::set(self.thread, &ordinary).map_err(failed)?;
                now = ordinary;
            }
            // A CPU may have gone offline since; the class matters more.
            let _ = thread::set_affinity(&self.cpus);
        }
        if now != self.scheduling {
            set_again(self.thread, &self.scheduling).map_err(failed)?;
        }
        // Entering and leaving a real-time class may reset it.
        thread::set_timer_slack(self.timer_slack);
        Ok(())
    }
}

/// Sets a recorded class again. Since Linux 6.12 a fair thread shows its slice in `runtime`, and
/// setting that makes it a slice of the thread's own. So this sets the default first, and the
/// recorded slice only if it differs.
fn set_again(thread: Tid, recorded: &SchedAttr) -> Result<(), rustix::io::Errno> {
    if !recorded.is_fair() {
        return raw::set(thread, recorded);
    }
    raw::set(thread, &recorded.with_default_slice())?;
    if raw::get(thread)? == *recorded { Ok(()) } else { raw::set(thread, recorded) }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.apply();
        }
    }
}
