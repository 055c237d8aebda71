//! What a handle stands for, and the agent that looks after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_runtime::{OrderError, Running, Upcalls};

use super::handler::{Called, Control};
use super::notice::{activity, punctual_activity};
use super::post::Post;
use super::tally::Tally;
use crate::error::Failure;
use crate::error::punctual_error::*;

/// How often the agent looks unasked: well before the runtime's ring of events is full.
const LOOKS: Duration = Duration::from_millis(250);

/// How often it asks whether they still run.
const ASKS: Duration = Duration::from_secs(1);

/// Where the upcalls of a handle are in their life.
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

/// What all threads of a program share. The state is locked for as long as an order takes, which is
/// until the turn that runs has ended; what waits or looks uses the rest.
pub(crate) struct Inner {
    state: Mutex<State>,
    controls: Mutex<Vec<Arc<Control>>>,
    pub(crate) post: Arc<Post>,
    /// Of a scheduling class that can be taken away.
    pub(crate) has_class: bool,
    over: AtomicBool,
}

/// The upcalls of a process: created, run, and stopped together.
pub struct punctual_upcalls {
    pub(crate) inner: Arc<Inner>,
    pub(crate) agent: Mutex<Option<JoinHandle<()>>>,
}

impl Inner {
    pub(crate) fn new(upcalls: Upcalls<Called>, post: Arc<Post>, has_class: bool) -> Self {
        let state = State { phase: Phase::Ready(Box::new(upcalls)), tally: Tally::new() };
        let (state, controls) = (Mutex::new(state), Mutex::default());
        Self { state, controls, post, has_class, over: AtomicBool::new(false) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // What a panic left half done is found ended by the next order.
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
        self.post.changed.ring();
    }

    pub(crate) fn control(&self, id: u32) -> Option<Arc<Control>> {
        self.controls().iter().find(|one| one.id.load(Ordering::Acquire) == id).cloned()
    }

    /// A `punctual_activity`.
    pub(crate) fn activity(&self, id: u32) -> u32 {
        let closed = punctual_activity::PUNCTUAL_CLOSED as u32;
        self.control(id).map_or(closed, |control| control.activity())
    }

    /// Gives an order to those that run.
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

    /// Counts what happened, and lets waiting threads see what changed.
    fn refresh(&self, running: &Running<Called>) {
        let mut changed = false;
        for control in self.controls().iter() {
            let before = control.activity();
            control.set(activity(running.activity(control.id.load(Ordering::Acquire))));
            changed |= control.activity() != before;
        }
        if changed {
            self.post.changed.ring();
        }
    }

    /// Counts what happened so far.
    pub(crate) fn count(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let State { phase, tally } = &mut *state;
        if let Phase::Running(running) = phase {
            tally.count(running.drain());
        }
        state
    }

    /// Suspends what is done, counts, and says what changed.
    fn look(&self, asks: bool) {
        let mut state = self.count();
        let Phase::Running(running) = &mut state.phase else { return };
        let done = |control: &&Arc<Control>| {
            let suspended = running.activity(control.id.load(Ordering::Acquire));
            control.done.load(Ordering::Acquire)
                && activity(suspended) == punctual_activity::PUNCTUAL_ACTIVE
        };
        let mut done: Vec<u32> = {
            let controls = self.controls();
            let done = controls.iter().filter(done);
            done.map(|control| control.id.load(Ordering::Acquire)).collect()
        };
        if asks {
            // Nobody has this number: only whether there is an answer matters.
            done.push(u32::MAX);
        }
        for id in done {
            if let Err(OrderError::Ended) = running.suspend(id) {
                self.post.end();
            }
        }
        self.refresh(running);
    }

    /// Says that all are gone, but for those of `stuck` handlers, or that were out where that is not
    /// known.
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
        self.post.changed.ring();
    }

    /// Until something may have changed; for a while only, so that none waits for what nobody rang.
    pub(crate) fn sleep(&self, seen: u32, until: Instant) {
        self.post.changed.sleep_until(seen, until.min(clock::now() + ASKS));
    }
}

impl punctual_upcalls {
    /// Starts the agent: an ordinary thread, because suspending is an order and a handler gives none.
    pub(crate) fn start_agent(&self) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let body = move || {
            let mut asked = clock::now();
            while !inner.over.load(Ordering::Acquire) {
                let rings = inner.post.changed.rings();
                let asks = inner.has_class && clock::now().saturating_since(asked) >= ASKS;
                if asks {
                    asked = clock::now();
                }
                inner.look(asks && !inner.post.has_ended());
                if !inner.over.load(Ordering::Acquire) {
                    inner.post.changed.sleep_until(rings, clock::now() + LOOKS);
                }
            }
        };
        let agent = std::thread::Builder::new().name("upcalls-agent".into()).spawn(body)?;
        *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent);
        Ok(())
    }

    /// The state must not be locked.
    pub(crate) fn end_agent(&self) {
        self.inner.over.store(true, Ordering::Release);
        self.inner.post.changed.ring();
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(agent) = agent {
            // A panic in it was printed when it happened.
            let _ = agent.join();
        }
    }
}
