//! Restoring a thread's scheduling.

use std::marker::PhantomData;

use punctual_model::time::Duration;

use super::{Class, SchedAttr, SchedError, error, raw};
use crate::thread::{self, Tid};

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
            scheduling: raw::get(thread).map_err(|errno| error::of_get(thread, errno))?,
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
            Some(class) => error::of_set(self.thread, class, errno),
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
