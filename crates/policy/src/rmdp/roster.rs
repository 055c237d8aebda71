//! Upcalls come, go, pause and change, between turns.
//!
//! Ranks are positions, so each of these moves what lies below: O(n), without allocation.

use punctual_model::{Backlog, Duration, Instant, Rank, Upcall};
use thiserror::Error;

use super::Rmdp;
use super::state::State;

/// Why an upcall was not taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The policy allocates only when it is made.
    #[error("there is room for {capacity} upcalls and all of it is taken; close one first")]
    Full {
        /// How many there is room for.
        capacity: usize,
    },
    /// Two upcalls of one name cannot be told apart.
    #[error("there is an upcall {task} already; close it first or take another number")]
    Taken {
        /// The number given.
        task: u32,
    },
}

/// There is no upcall of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no upcall {task}: it was closed or never created")]
pub struct NoSuchUpcall {
    /// The number given.
    pub task: u32,
}

impl Rmdp {
    /// Takes on `upcall`, known as `task`, with its first release at `first_release`. Less urgent
    /// than all others of its period.
    pub fn create(
        &mut self,
        task: u32,
        upcall: &Upcall,
        first_release: Instant,
    ) -> Result<(), CreateError> {
        if self.find(task).is_ok() {
            return Err(CreateError::Taken { task });
        }
        if self.upcalls.len() == self.capacity {
            return Err(CreateError::Full { capacity: self.capacity });
        }
        self.insert(State::new(task, upcall, first_release));
        Ok(())
    }

    /// Lets an upcall go; what of it was released by `now` and not complete, if anything was.
    pub fn close(&mut self, task: u32, now: Instant) -> Result<Option<Backlog>, NoSuchUpcall> {
        let left = self.suspend(task, now)?;
        let at = self.find(task)?;
        self.upcalls.remove(at);
        self.rebuild();
        Ok(left)
    }

    /// From `now` on the upcall is not released, and what was released by then and is not complete
    /// (which is returned) is dropped. Does nothing to a suspended one.
    pub fn suspend(&mut self, task: u32, now: Instant) -> Result<Option<Backlog>, NoSuchUpcall> {
        self.note_releases(now);
        let at = self.find(task)?;
        let state = &mut self.upcalls[at];
        let left = state.backlog();
        state.forget();
        state.suspended = true;
        self.refile(at);
        Ok(left)
    }

    /// A suspended upcall is released again, at the instants it would have been had it never been
    /// suspended, the first at or after `from`; that instant. Of one that is not suspended: its
    /// next release, unchanged.
    pub fn resume(&mut self, task: u32, from: Instant) -> Result<Instant, NoSuchUpcall> {
        let at = self.find(task)?;
        let state = &mut self.upcalls[at];
        if state.suspended {
            state.suspended = false;
            let behind = from.saturating_since(state.grid).as_nanos();
            let periods = behind.div_ceil(state.period.as_nanos());
            let passed = state.period.checked_mul(periods).unwrap_or(Duration::MAX);
            state.grid = state.grid.saturating_add(passed);
        }
        let next = state.grid;
        self.refile(at);
        Ok(next)
    }

    /// Each upcall with its period and its next release; none of one that is suspended.
    pub fn schedule(&self) -> impl Iterator<Item = (u32, Duration, Option<Instant>)> + '_ {
        let next = |state: &State| (!state.suspended).then_some(state.grid);
        self.upcalls.iter().map(move |state| (state.task, state.period, next(state)))
    }

    /// The running job does not come back from its iteration: its upcall is suspended, and what was
    /// released of it is dropped (and returned, the running job first, as begun). [`Self::resume`]
    /// takes it back.
    ///
    /// # Panics
    /// If nothing is running.
    pub fn contain(&mut self, now: Instant) -> Backlog {
        let rank = self.running.take().expect("a turn was given by next()");
        let task = self.upcalls[rank.0 as usize].task;
        let left = self.suspend(task, now).expect("it was running");
        Backlog { begun: true, ..left.expect("it was running") }
    }

    /// The upcall's numbers become those of `upcall`.
    ///
    /// With the same period the phase stays, and a job that has begun ends by the new batch (with
    /// one PDU more at least). With another, the first release of the new period is at the end of
    /// the current one; of several jobs released and not complete only one remains, the one that
    /// has begun or else the newest, and the others are dropped. Returns those.
    ///
    /// Its deadlines are proven before and after, if both are admitted; not those of jobs whose
    /// busy window holds the change.
    pub fn change(
        &mut self,
        task: u32,
        upcall: &Upcall,
        now: Instant,
    ) -> Result<Option<Backlog>, NoSuchUpcall> {
        self.note_releases(now);
        let at = self.find(task)?;
        let mut state = self.upcalls.remove(at);
        let dropped = if upcall.period() == state.period { None } else { state.forgive() };
        let same_period = upcall.period() == state.period;
        let fresh = State::new(task, upcall, state.grid);
        let state = State {
            pending: state.pending,
            index: state.index,
            release: state.release,
            done: state.done.min(fresh.batch - 1),
            told: state.told,
            demoted: state.demoted && state.overrun == upcall.overrun(),
            suspended: state.suspended,
            gap: state.gap,
            straddles: state.straddles || (!same_period && state.pending > 0),
            ..fresh
        };
        if same_period {
            self.upcalls.insert(at, state);
            self.rebuild();
        } else {
            self.insert(state);
        }
        Ok(dropped)
    }

    fn insert(&mut self, state: State) {
        let at = self.upcalls.partition_point(|other| other.period <= state.period);
        self.upcalls.insert(at, state);
        self.rebuild();
    }

    fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.upcalls.iter().position(|state| state.task == task).ok_or(NoSuchUpcall { task })
    }

    /// The upcall at `at` wants something else than before.
    fn refile(&mut self, at: usize) {
        let rank = Rank(at as u32);
        self.running = None;
        self.releases.set(rank, self.upcalls[at].next());
        self.file(rank);
    }
}
