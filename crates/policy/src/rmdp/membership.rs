//! Upcalls come, go, pause and change, between turns.
//!
//! An upcall that comes, or changes its period, gets a rank among the others (`order`), of whom a few
//! may have to move. Nothing else moves anybody, and nothing allocates.

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

/// Of releases at `first` and each `period` after it, the first at or after `from`: where an upcall
/// goes on, in the phase that it was given.
///
/// ```
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::rmdp::first_from;
///
/// let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
/// let period = Duration::from_millis(10);
/// assert_eq!(first_from(ms(3), period, ms(2)), ms(3));
/// assert_eq!(first_from(ms(3), period, ms(40)), ms(43));
/// ```
pub fn first_from(first: Instant, period: Duration, from: Instant) -> Instant {
    let periods = from.saturating_since(first).as_nanos().div_ceil(period.as_nanos());
    first.saturating_add(period.checked_mul(periods).unwrap_or(Duration::MAX))
}

/// When an upcall that is created at `now` is first released, if `asked` was wished for: then, if that
/// is ahead or less than a period ago; else at the next instant of the grid it has given.
///
/// So "from now on" means at once, however long the order took, and whoever names an instant long past
/// gets its phase and no jobs that were over before it came. A job whose release has passed has less
/// than its period left, which is no part of admission.
///
/// ```
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::rmdp::first_release;
///
/// let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
/// let period = Duration::from_millis(10);
/// assert_eq!(first_release(ms(3), period, ms(2)), ms(3));
/// assert_eq!(first_release(ms(3), period, ms(12)), ms(3), "late, and its deadline is ahead");
/// assert_eq!(first_release(ms(3), period, ms(40)), ms(43));
/// ```
pub fn first_release(asked: Instant, period: Duration, now: Instant) -> Instant {
    let passed = now.saturating_since(asked);
    if passed < period { asked } else { first_from(asked, period, now) }
}

impl Rmdp {
    /// Takes on `upcall` at `now`, known as `task`, wished to be first released at `asked`: see
    /// [`first_release`]. Less urgent than all others of its period.
    pub fn create(
        &mut self,
        task: u32,
        upcall: &Upcall,
        asked: Instant,
        now: Instant,
    ) -> Result<(), CreateError> {
        if self.numbers.get(task).is_some() {
            return Err(CreateError::Taken { task });
        }
        let Some(place) = self.free.pop() else {
            return Err(CreateError::Full { capacity: self.capacity });
        };
        self.numbers.insert(task, place);
        let state = State::new(task, upcall, first_release(asked, upcall.period(), now));
        match self.upcalls.get_mut(place as usize) {
            Some(gone) => *gone = state,
            // Places are given out from the first on.
            None => self.upcalls.push(state),
        }
        self.rank(place as usize);
        Ok(())
    }

    /// Lets an upcall go; what of it was released by `now` and not complete, if anything was.
    pub fn close(&mut self, task: u32, now: Instant) -> Result<Option<Backlog>, NoSuchUpcall> {
        let left = self.suspend(task, now)?;
        let at = self.find(task)?;
        self.unrank(at);
        self.numbers.remove(task);
        self.free.push(at as u32);
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
            state.grid = first_from(state.grid, state.period, from);
        }
        let next = state.grid;
        self.refile(at);
        Ok(next)
    }

    /// Each upcall with its period and its next release; none of one that is suspended. The most
    /// urgent first. O(n) in all.
    pub fn schedule(&self) -> impl Iterator<Item = (u32, Duration, Option<Instant>)> + '_ {
        let states = self.order.places().map(|place| &self.upcalls[place]);
        states.map(|state| (state.task, state.period, state.next_if_any()))
    }

    /// The running job does not come back from its iteration: its upcall is suspended, and what was
    /// released of it is dropped (and returned, the running job first, as begun). [`Self::resume`]
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
        let state = &mut self.upcalls[at];
        let same_period = upcall.period() == state.period;
        let dropped = if same_period { None } else { state.forgive() };
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

    /// The upcall at `at` becomes less urgent than all others of its period.
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

    /// The upcall at `at` has no rank any more.
    fn unrank(&mut self, at: usize) {
        self.running = None;
        let rank = self.upcalls[at].rank;
        self.order.remove(rank);
        self.unfile(rank);
    }

    fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.numbers.get(task).map(|place| place as usize).ok_or(NoSuchUpcall { task })
    }

    /// The upcall at `at` wants something else than before.
    fn refile(&mut self, at: usize) {
        let (rank, next) = (self.upcalls[at].rank, self.upcalls[at].next());
        self.running = None;
        self.releases.set(rank, next);
        self.file(rank);
    }
}
