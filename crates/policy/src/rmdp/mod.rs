//! Real-time upcalls, rate monotonic with delayed preemption (RMDP).
//!
//! Real-time upcalls, §5.1: a released handler processes a batch of PDUs. After each quantum it
//! checks whether a handler of a higher rate was released in the meantime, and yields only then.
//! The rest of its batch waits in the run queue. Late jobs are handled by their upcall's
//! [`Overrun`] policy.
//!
//! Deliberate departures from the paper:
//! - There a clock interrupt sets a flag in the handler's shared memory. Here the yield point
//!   compares the time with the next release of any more urgent upcall, which was computed when the
//!   turn began: no interrupt, no shared flag, and the answer is exact to the clock's resolution
//!   instead of a tick.
//! - There periods are multiples of a tick; here they are any whole nanoseconds.
//! - There a handler that is still running at its next release is at fault. Here other threads may
//!   also have kept it from running, so its owner chooses the policy.
//!
//! Under every policy at most [`most_pending`] jobs of an upcall wait. If its driver was stopped or
//! slept for long, the older ones are skipped, and the phase stays.
//!
//! - `decisions`: the decisions for the driver.
//! - `state`: one upcall.
//! - `membership`: creation, closing, suspension and change of upcalls.
//! - `order`: the order of urgency.

mod decisions;
mod membership;
#[cfg(test)]
mod oracle;
mod order;
mod state;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Instant, Overrun, Rank, Upcall};

use crate::numbers::Numbers;
use crate::ready::ReadySet;
use crate::releases::Releases;
use order::Order;
use state::State;

pub use decisions::{Fate, Look, Missed, Next, Then, Turn, YieldPoint};
pub use state::{CreateError, NoSuchUpcall, first_from, first_release, most_pending};

/// The state machine.
///
/// The driver's loop is: [`next`](Self::next); for a [`Turn`], run an iteration and call
/// [`Turn::iterated`], until the turn ends by [`look`](Self::look), [`complete`](Self::complete) or
/// [`give_way`](Self::give_way); `next` again. Upcalls are created and closed between turns.
/// Nothing allocates after construction. Turns and requests take O(log n) of its capacity, except
/// creation and a change of the period: O(log³ n), amortised.
///
/// ```
/// use punctual_model::{Duration, Instant, Service, Upcall, UpcallSpec};
/// use punctual_policy::rmdp::{Next, Rmdp, YieldPoint};
///
/// let upcall = Upcall::new(UpcallSpec {
///     name: "sender".into(),
///     period: Duration::from_millis(40),
///     batch: 2,
///     quantum: 1,
///     time_per_pdu: Service::from_millis(1),
/// })?;
/// let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
/// let mut rmdp = Rmdp::new(&[upcall], ms(0));
/// let Next::Run(mut turn) = rmdp.next(ms(0)) else { panic!("released at 0") };
/// assert_eq!(turn.iterated(ms(1), 1), YieldPoint::Continue);
/// assert_eq!(turn.iterated(ms(2), 1), YieldPoint::Complete);
/// assert_eq!(rmdp.complete(&turn, ms(2)), None, "in time");
/// assert!(matches!(rmdp.next(ms(2)), Next::Idle { until, .. } if until == ms(40)));
/// # Ok::<(), punctual_model::UpcallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rmdp {
    /// By place; a free place holds a closed upcall. Its length never exceeds `capacity`.
    upcalls: Vec<State>,
    /// The free places.
    free: Vec<u32>,
    /// The place of each number.
    numbers: Numbers,
    /// The rank of each place. The tables below are indexed by rank.
    order: Order,
    /// The number of ranks assigned so far, for ties.
    orders: u64,
    capacity: usize,
    releases: Releases,
    /// The upcalls with pending jobs that are not demoted.
    ready: ReadySet,
    /// The demoted upcalls with pending jobs.
    demoted: ReadySet,
    /// The upcalls with late jobs to report.
    missed: ReadySet,
    running: Option<Rank>,
}

impl Rmdp {
    /// Makes a policy over `upcalls`, first released at `start` and ranked by period; of equal
    /// periods the one listed first is more urgent. Their positions are their numbers
    /// (`JobId::task`).
    pub fn new(upcalls: &[Upcall], start: Instant) -> Self {
        let phases = alloc::vec![Duration::ZERO; upcalls.len()];
        Self::with_phases(upcalls, &phases, start)
    }

    /// Makes a policy like [`new`](Self::new), but upcall `i` is first released at
    /// `start + phases[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn with_phases(upcalls: &[Upcall], phases: &[Duration], start: Instant) -> Self {
        assert_eq!(upcalls.len(), phases.len(), "one phase an upcall");
        let mut rmdp = Self::with_capacity(upcalls.len());
        let states = upcalls.iter().zip(phases).zip(0..);
        for ((upcall, phase), task) in states {
            rmdp.create(task, upcall, start + *phase, start)
                .expect("room for each, and all differ");
        }
        rmdp
    }

    /// Makes a policy without upcalls, with room for `capacity` of them.
    pub fn with_capacity(capacity: usize) -> Self {
        let order = Order::new(capacity);
        let ranks = order.ranks();
        Self {
            upcalls: Vec::with_capacity(capacity),
            free: (0..capacity as u32).rev().collect(),
            numbers: Numbers::new(capacity),
            order,
            orders: 0,
            capacity,
            releases: Releases::new(ranks),
            ready: ReadySet::new(ranks),
            demoted: ReadySet::new(ranks),
            missed: ReadySet::new(ranks),
            running: None,
        }
    }

    /// Returns the next action at `now`. Ends the turn of the running job, which must have yielded
    /// or be complete.
    ///
    /// Late jobs are reported before anything runs, at most twice an upcall and release.
    pub fn next(&mut self, now: Instant) -> Next {
        self.running = None;
        self.note_releases(now);
        if let Some(rank) = self.missed.first() {
            let missed = self.at_mut(rank).report(u64::MAX);
            self.file(rank);
            return Next::Missed(missed);
        }
        let Some(rank) = self.ready.first().or_else(|| self.demoted.first()) else {
            let until = self.releases.earliest();
            let period = match until {
                Instant::MAX => Duration::MAX,
                _ => self.at(self.releases.earliest_rank()).period,
            };
            return Next::Idle { until, period };
        };
        self.running = Some(rank);
        let give_way_at = self.give_way_at(rank);
        let state = self.at(rank);
        let left = state.batch - state.done;
        Next::Run(Turn {
            job: state.job(),
            release: state.release,
            resumed: state.done > 0,
            demoted: state.demoted,
            pdus: state.quantum.min(left),
            rank,
            quantum: state.quantum,
            left,
            give_way_at,
        })
    }

    /// Checks the running job at a yield point that returned [`YieldPoint::Look`]: decides whether
    /// it continues.
    pub fn look(&mut self, turn: &mut Turn, now: Instant) -> Look {
        self.note_releases(now);
        let rank = turn.rank;
        let state = self.at_mut(rank);
        state.done = state.batch - turn.left;
        // Only the running job is reported here; `next` reports the others.
        let missed = (state.overdue() > 0 && state.reported == 0).then(|| state.report(1));
        self.file(rank);
        let state = self.at(rank);
        let first = if state.demoted { self.demoted.first() } else { None };
        let then = match missed {
            Some(Missed { fate: Fate::Aborted, .. }) => Then::Abort,
            _ if self.ready.first().or(first) == Some(rank) => Then::Continue,
            _ => Then::Yield,
        };
        match then {
            Then::Continue => {
                turn.demoted = state.demoted;
                turn.give_way_at = self.give_way_at(rank);
            }
            Then::Yield | Then::Abort => self.running = None,
        }
        Look { missed, then }
    }

    /// Ends the turn at the driver's request, for example because a more urgent upcall runs
    /// elsewhere. The rest of the batch waits in the run queue.
    pub fn give_way(&mut self, turn: &Turn) {
        let state = self.at_mut(turn.rank);
        state.done = state.batch - turn.left;
        self.file(turn.rank);
        self.running = None;
    }

    /// Completes the running job at `now`; its upcall's next released job, if any, follows. Returns
    /// the job if it is late and was not reported yet. A job that completes exactly at its deadline
    /// is in time.
    pub fn complete(&mut self, turn: &Turn, now: Instant) -> Option<Missed> {
        let state = self.at_mut(turn.rank);
        let missed = state.is_late_unreported(now).then(|| Missed {
            oldest: state.job(),
            release: state.release,
            jobs: 1,
            fate: Fate::Late,
            urgent: state.overrun == Overrun::Notify,
        });
        state.drop_oldest(1);
        self.running = None;
        self.file(turn.rank);
        self.note_releases(now);
        let state = self.at_mut(turn.rank);
        state.demoted &= state.overdue() > 0;
        self.file(turn.rank);
        missed
    }

    /// Returns the jobs released at or before `now` that are not complete, by upcall: the work that
    /// is left if the driver stops here.
    pub fn unfinished(&mut self, now: Instant) -> impl Iterator<Item = Backlog> + '_ {
        self.note_releases(now);
        self.order.places().filter_map(|place| self.upcalls[place].backlog())
    }

    /// Returns the time at which a running job of this rank must be checked: the next more urgent
    /// release, or its own deadline, which is its next release.
    fn give_way_at(&self, rank: Rank) -> Instant {
        if self.at(rank).demoted {
            self.releases.earliest()
        } else {
            self.releases.earliest_up_to(rank)
        }
    }

    /// Moves everything released at or before `now` to the ready set.
    fn note_releases(&mut self, now: Instant) {
        // The last instant means never.
        while self.releases.earliest() <= now && now < Instant::MAX {
            let rank = self.releases.earliest_rank();
            let state = self.at_mut(rank);
            state.release_until(now);
            let next = state.next();
            self.releases.set(rank, next);
            self.file(rank);
        }
    }

    /// Returns the upcall of `rank`.
    fn at(&self, rank: Rank) -> &State {
        &self.upcalls[self.order.at(rank)]
    }

    fn at_mut(&mut self, rank: Rank) -> &mut State {
        &mut self.upcalls[self.order.at(rank)]
    }

    /// Updates the sets to the state of the upcall of `rank`.
    fn file(&mut self, rank: Rank) {
        let state = self.at(rank);
        let (wants, demoted, unreported) =
            (state.pending > 0, state.demoted, state.has_unreported());
        self.ready.put(rank, wants && !demoted);
        self.demoted.put(rank, wants && demoted);
        self.missed.put(rank, unreported);
    }

    /// Removes `rank` from all tables.
    fn unfile(&mut self, rank: Rank) {
        self.releases.set(rank, Instant::MAX);
        for set in [&mut self.ready, &mut self.demoted, &mut self.missed] {
            set.remove(rank);
        }
    }
}
