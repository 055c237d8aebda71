//! Implements a handle, and the agent that looks after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_runtime::{Running, Upcalls};

use super::handler::{Called, Control};
use super::notice::{activity, punctual_activity};
use super::post::Post;
use super::tally::Tally;
use crate::error::Failure;
use crate::error::punctual_error::*;

/// The interval at which the agent looks without being woken, well before the runtime's ring of
/// events is full.
const LOOKS: Duration = Duration::from_millis(250);

/// The longest time that a thread sleeps before it looks again by itself.
const SLEEPS: Duration = Duration::from_secs(1);

/// The phase in the life of a handle's upcalls.
pub(crate) enum Phase {
    Ready(Box<Upcalls<Called>>),
    Running(Box<Running<Called>>),
    /// Stopped, or being stopped.
    Ended,
}

pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) tally: Tally,
}

/// The state that all threads of a program share. A request locks it until it is carried out, which
/// is when the current turn has ended. Functions that wait or look use the other members.
pub(crate) struct Inner {
    state: Mutex<State>,
    controls: Mutex<Vec<Arc<Control>>>,
    pub(crate) post: Arc<Post>,
    over: AtomicBool,
}

/// The upcalls of a process: created, run, and stopped together.
pub struct punctual_upcalls {
    pub(crate) inner: Arc<Inner>,
    pub(crate) agent: Mutex<Option<JoinHandle<()>>>,
}

impl Inner {
    pub(crate) fn new(upcalls: Upcalls<Called>, post: Arc<Post>) -> Self {
        let state = State { phase: Phase::Ready(Box::new(upcalls)), tally: Tally::new() };
        let (state, controls) = (Mutex::new(state), Mutex::default());
        Self { state, controls, post, over: AtomicBool::new(false) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // After a panic, the next request finds the upcalls ended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn controls(&self) -> MutexGuard<'_, Vec<Arc<Control>>> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, control: Arc<Control>, id: u32) {
        control.id.store(id, Ordering::Release);
        self.controls().push(control);
    }

    pub(crate) fn forget(&self, id: u32) {
        self.controls().retain(|one| one.id.load(Ordering::Acquire) != id);
        self.post.changed.notify();
    }

    pub(crate) fn control(&self, id: u32) -> Option<Arc<Control>> {
        self.controls().iter().find(|one| one.id.load(Ordering::Acquire) == id).cloned()
    }

    /// Returns a `punctual_activity`.
    pub(crate) fn activity(&self, id: u32) -> u32 {
        let closed = punctual_activity::PUNCTUAL_CLOSED as u32;
        self.control(id).map_or(closed, |control| control.activity())
    }

    /// Frees the statistics of a closed upcall.
    pub(crate) fn forget_stats(&self, id: u32) -> Result<(), Failure> {
        // Events that still wait are counted first, so that they are not lost.
        let mut state = self.count();
        if let Phase::Running(running) = &state.phase {
            self.refresh(running);
        }
        let activity = self.activity(id);
        if activity == punctual_activity::PUNCTUAL_CONTAINED as u32 {
            let why = format!(
                "the handler of upcall {id} has not come back: close it first; once all are \
                 stopped, its statistics stay until punctual_free"
            );
            return Err(Failure::new(PUNCTUAL_ESTUCK, why));
        }
        if activity != punctual_activity::PUNCTUAL_CLOSED as u32 {
            let why = format!("upcall {id} is not closed; call punctual_close first");
            return Err(Failure::invalid(why));
        }
        if !state.tally.forget(id) {
            return Err(no_stats(id));
        }
        self.forget(id);
        Ok(())
    }

    /// Gives a request to the running upcalls.
    pub(crate) fn order<T>(
        &self,
        order: impl FnOnce(&mut Running<Called>, &mut Tally) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut state = self.state();
        let State { phase, tally } = &mut *state;
        let outcome = match phase {
            Phase::Running(running) => order(running, tally),
            Phase::Ready(_) => {
                Err(Failure::invalid("the upcalls do not run yet; call punctual_run first"))
            }
            Phase::Ended => {
                Err(Failure::new(PUNCTUAL_EENDED, "the upcalls were stopped, or never ran"))
            }
        };
        if let Phase::Running(running) = phase {
            self.refresh(running);
        }
        outcome
    }

    /// Updates the activities, and wakes waiting threads if any changed.
    fn refresh(&self, running: &Running<Called>) {
        let mut changed = false;
        for control in self.controls().iter() {
            let before = control.activity();
            control.set(activity(running.activity(control.id.load(Ordering::Acquire))));
            changed |= control.activity() != before;
        }
        if changed {
            self.post.changed.notify();
        }
    }

    /// Counts the events so far.
    pub(crate) fn count(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let State { phase, tally } = &mut *state;
        if let Phase::Running(running) = phase {
            tally.count(running.drain());
            tally.lost(running.events_lost());
        }
        state
    }

    /// Suspends upcalls that are done, counts events, and announces changes, or that the upcalls
    /// have ended by themselves.
    fn look(&self) {
        let mut state = self.count();
        let Phase::Running(running) = &mut state.phase else { return };
        let done = |control: &&Arc<Control>| {
            let suspended = running.activity(control.id.load(Ordering::Acquire));
            control.done.load(Ordering::Acquire)
                && activity(suspended) == punctual_activity::PUNCTUAL_ACTIVE
        };
        let done: Vec<u32> = {
            let controls = self.controls();
            let done = controls.iter().filter(done);
            done.map(|control| control.id.load(Ordering::Acquire)).collect()
        };
        for id in done {
            // An upcall that was closed meanwhile needs none. If all have ended, that is noticed
            // below.
            let _ = running.suspend(id);
        }
        // Only once, because it notifies on which the agent sleeps.
        if running.has_ended() && !self.post.has_ended() {
            self.post.end();
        }
        self.refresh(running);
    }

    /// Marks all upcalls as closed, except those with `stuck` handlers, or those that were
    /// contained if that is not known.
    pub(crate) fn closed(&self, stuck: Option<&[u32]>) {
        for control in self.controls().iter() {
            let id = control.id.load(Ordering::Acquire);
            let contained = punctual_activity::PUNCTUAL_CONTAINED;
            let is_out = match stuck {
                Some(stuck) => stuck.contains(&id),
                None => control.activity() == contained as u32,
            };
            control.set(if is_out { contained } else { punctual_activity::PUNCTUAL_CLOSED });
        }
        self.post.changed.notify();
    }

    /// Sleeps until something may have changed, for a limited time, so that a missed event is no
    /// problem.
    pub(crate) fn sleep(&self, seen: u32, until: Instant) {
        self.post.changed.sleep_until(seen, until.min(clock::now() + SLEEPS));
    }
}

/// Makes the error for an unknown number.
pub(crate) fn no_stats(id: u32) -> Failure {
    let why = format!("there never was an upcall {id}, or it was forgotten (punctual_forget)");
    Failure::new(PUNCTUAL_ENOENT, why)
}

impl punctual_upcalls {
    /// Starts the agent. It is an ordinary thread, because suspending is a request and a handler
    /// cannot make one.
    pub(crate) fn start_agent(&self) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let body = move || {
            while !inner.over.load(Ordering::Acquire) {
                let count = inner.post.changed.count();
                inner.look();
                if !inner.over.load(Ordering::Acquire) {
                    inner.post.changed.sleep_until(count, clock::now() + LOOKS);
                }
            }
        };
        let agent = std::thread::Builder::new().name("upcalls-agent".into()).spawn(body)?;
        *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent);
        Ok(())
    }

    /// Ends the agent. The state must not be locked.
    pub(crate) fn end_agent(&self) {
        self.inner.over.store(true, Ordering::Release);
        self.inner.post.changed.notify();
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(agent) = agent {
            // A panic in it was printed when it happened.
            let _ = agent.join();
        }
    }
}
