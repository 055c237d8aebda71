//! Creation, closing, suspension and change of upcalls, between turns.
//!
//! A new upcall, or one that changes its period, gets a rank among the others (`order`), a few of
//! which may have to move. No other operation moves upcalls, and none allocates.

use punctual_model::{Backlog, Duration, Instant, Rank, Upcall};

use super::state::State;
use super::{CreateError, NoSuchUpcall, Rmdp, first_from, first_release};

impl Rmdp {
    /// Creates `upcall` at `now` with the number `task` and a `requested` first release (see
    /// [`first_release`]). It is less urgent than all others of its period.
    pub fn create(
        &mut self,
        task: u32,
        upcall: &Upcall,
        requested: Instant,
        now: Instant,
    ) -> Result<(), CreateError> {
        if self.numbers.get(task).is_some() {
            return Err(CreateError::Taken { task });
        }
        let Some(place) = self.free.pop() else {
            return Err(CreateError::Full { capacity: self.capacity });
        };
        self.numbers.insert(task, place);
        let state = State::new(task, upcall, first_release(requested, upcall.period(), now));
        match self.upcalls.get_mut(place as usize) {
            Some(gone) => *gone = state,
            // Places are assigned from the first on.
            None => self.upcalls.push(state),
        }
        self.rank(place as usize);
        Ok(())
    }

    /// Closes an upcall. Returns its jobs that were released by `now` and not complete, if there
    /// are any.
    pub fn close(&mut self, task: u32, now: Instant) -> Result<Option<Backlog>, NoSuchUpcall> {
        let left = self.suspend(task, now)?;
        let at = self.find(task)?;
        self.unrank(at);
        self.numbers.remove(task);
        self.free.push(at as u32);
        Ok(left)
    }

    /// Suspends the upcall from `now` on: it is not released, and its incomplete jobs are dropped
    /// and returned. Does nothing to a suspended one.
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

    /// Resumes a suspended upcall and returns its next release: the first at or after `from` in its
    /// original phase. If the upcall is not suspended, its next release stays.
    pub fn resume(&mut self, task: u32, from: Instant) -> Result<Instant, NoSuchUpcall> {
        let at = self.find(task)?;
        let state = &mut self.upcalls[at];
        if state.suspended {
            state.suspended = false;
            state.grid = first_from(state.grid, state.period, from);
        }
        let next = state.grid;
        self.refile(at);
        Ok(next)
    }

    /// Returns each upcall with its period and its next release, the most urgent first. A suspended
    /// one has no next release. O(n) in all.
    pub fn schedule(&self) -> impl Iterator<Item = (u32, Duration, Option<Instant>)> + '_ {
        let states = self.order.places().map(|place| &self.upcalls[place]);
        states.map(|state| (state.task, state.period, state.next_if_any()))
    }

    /// Suspends the running upcall because its handler does not return from its iteration. Its
    /// incomplete jobs are dropped and returned, the running job first, as begun. [`Self::resume`]
    /// takes it back.
    ///
    /// # Panics
    /// If nothing is running.
    pub fn contain(&mut self, now: Instant) -> Backlog {
        let rank = self.running.take().expect("a turn was given by next()");
        let task = self.at(rank).task;
        let left = self.suspend(task, now).expect("it was running");
        Backlog { begun: true, ..left.expect("it was running") }
    }

    /// Changes the upcall's parameters to those of `upcall`.
    ///
    /// With the same period the phase stays, and a job that has begun ends by the new batch (after
    /// at least one more PDU). With another, the first release of the new period is at the end of
    /// the current one. Of several incomplete jobs only one remains, the one that has begun or else
    /// the newest; the others are dropped and returned.
    ///
    /// If both are admitted, its deadlines are guaranteed before and after, but not for jobs whose
    /// busy window contains the change.
    pub fn change(
        &mut self,
        task: u32,
        upcall: &Upcall,
        now: Instant,
    ) -> Result<Option<Backlog>, NoSuchUpcall> {
        self.note_releases(now);
        let at = self.find(task)?;
        let state = &mut self.upcalls[at];
        let same_period = upcall.period() == state.period;
        let dropped = if same_period { None } else { state.drop_all_but_one() };
        let fresh = State::new(task, upcall, state.grid);
        let state = State {
            pending: state.pending,
            index: state.index,
            release: state.release,
            done: state.done.min(fresh.batch - 1),
            reported: state.reported,
            demoted: state.demoted && state.overrun == upcall.overrun(),
            suspended: state.suspended,
            gap: state.gap,
            order: state.order,
            rank: state.rank,
            ..fresh
        };
        if same_period {
            self.upcalls[at] = state;
            self.refile(at);
        } else {
            self.unrank(at);
            self.upcalls[at] = state;
            self.rank(at);
        }
        Ok(dropped)
    }

    /// Gives the upcall at `at` a rank below all others of its period.
    fn rank(&mut self, at: usize) {
        self.orders += 1;
        self.running = None;
        let state = &mut self.upcalls[at];
        state.order = self.orders;
        for rank in self.order.insert((state.period, state.order), at as u32) {
            let rank = Rank(rank as u32);
            self.unfile(rank);
            if let Some(place) = self.order.get(rank) {
                self.upcalls[place].rank = rank;
                self.refile(place);
            }
        }
    }

    /// Removes the upcall at `at` from the order.
    fn unrank(&mut self, at: usize) {
        self.running = None;
        let rank = self.upcalls[at].rank;
        self.order.remove(rank);
        self.unfile(rank);
    }

    fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.numbers.get(task).map(|place| place as usize).ok_or(NoSuchUpcall { task })
    }

    /// Updates the tables after a change of the upcall at `at`.
    fn refile(&mut self, at: usize) {
        let (rank, next) = (self.upcalls[at].rank, self.upcalls[at].next());
        self.running = None;
        self.releases.set(rank, next);
        self.file(rank);
    }
}
