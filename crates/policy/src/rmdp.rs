//! Real-time upcalls, rate monotonic with delayed preemption (RMDP).
//!
//! Real-time upcalls, §5.1: a released handler processes a batch of PDUs; after each quantum it
//! looks whether a handler of a higher rate was released meanwhile, and only then gives way. What
//! is left of its batch waits in the run queue.
//!
//! Two deliberate departures from the paper:
//! - There a clock interrupt sets a flag in the handler's shared memory. Here the yield point
//!   compares the time with the next release of any more urgent upcall, which it computed when
//!   the turn began: no interrupt, no shared flag, and the answer is exact to the clock's
//!   resolution instead of a tick.
//! - There periods are multiples of a tick; here they are any whole nanoseconds.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Instant, JobId, Rank, Upcall};

use crate::ready::ReadySet;
use crate::releases::Releases;

/// The state machine. Upcalls are known by their position in the slice it was made from.
///
/// The driver's loop is: [`next`](Self::next); for a [`Turn`], run one iteration and call
/// [`iterated`](Self::iterated) until it says something other than `Continue`; again `next`.
#[derive(Clone, Debug)]
pub struct Rmdp {
    /// In rank order.
    upcalls: Box<[State]>,
    releases: Releases,
    ready: ReadySet,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct State {
    task: u32,
    period: Duration,
    batch: u32,
    quantum: u32,
    /// Released and not complete; the oldest of them is `index`.
    pending: u64,
    index: u64,
    /// When job `index` was or will be released: an absolute time line, so the phase survives
    /// whatever happens to single jobs.
    release: Instant,
    /// PDUs of job `index` already processed.
    done: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    rank: Rank,
    /// When somebody more urgent comes next; before that a yield point has nothing to do.
    give_way_at: Instant,
}

/// What the driver must do now.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run an iteration of this job.
    Run(Turn),
    /// Nothing is released; the next release is at `until` ([`Instant::MAX`]: never), and it is a
    /// release of an upcall with this period.
    Idle {
        /// When to ask again.
        until: Instant,
        /// The period of the upcall that will be released then.
        period: Duration,
    },
}

/// A job's turn on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which upcall, and which of its jobs.
    pub job: JobId,
    /// When the job was released.
    pub release: Instant,
    /// PDUs to process until the first yield point.
    pub pdus: u32,
    /// Whether the job has run before and gave way.
    pub resumed: bool,
}

/// What a yield point means for the handler that reached it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldPoint {
    /// Process so many PDUs more.
    Continue {
        /// PDUs until the next yield point.
        pdus: u32,
    },
    /// Somebody more urgent is waiting; the rest of the batch stays in the run queue.
    Yield,
    /// The job is complete.
    Complete,
}

impl Rmdp {
    /// The policy over `upcalls`, first released at `start`, ranked by period; of equal periods
    /// the one listed first is the more urgent.
    pub fn new(upcalls: &[Upcall], start: Instant) -> Self {
        let phases = alloc::vec![Duration::ZERO; upcalls.len()];
        Self::with_phases(upcalls, &phases, start)
    }

    /// As [`new`](Self::new), upcall `i` first released at `start + phases[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn with_phases(upcalls: &[Upcall], phases: &[Duration], start: Instant) -> Self {
        assert_eq!(upcalls.len(), phases.len(), "one phase an upcall");
        let mut states: Vec<State> = upcalls
            .iter()
            .zip(phases)
            .zip(0u32..)
            .map(|((upcall, phase), task)| State {
                task,
                period: upcall.period(),
                batch: upcall.batch().get(),
                quantum: upcall.quantum().get(),
                pending: 0,
                index: 0,
                release: start + *phase,
                done: 0,
            })
            .collect();
        states.sort_by_key(|state| state.period);
        let mut releases = Releases::new(states.len());
        for (state, rank) in states.iter().zip(0u32..) {
            releases.set(Rank(rank), state.release);
        }
        let ready = ReadySet::new(states.len());
        Self { upcalls: states.into_boxed_slice(), releases, ready, running: None }
    }

    /// Whose turn it is at `now`. Ends the turn of whoever was running (which the driver was told
    /// by `Yield` or `Complete`).
    pub fn next(&mut self, now: Instant) -> Next {
        self.running = None;
        self.note_releases(now);
        let Some(rank) = self.ready.first() else {
            let until = self.releases.earliest();
            let period = match until {
                Instant::MAX => Duration::MAX,
                _ => self.upcalls[self.releases.earliest_rank().0 as usize].period,
            };
            return Next::Idle { until, period };
        };
        self.running = Some(Running { rank, give_way_at: self.releases.earliest_above(rank) });
        let state = &self.upcalls[rank.0 as usize];
        Next::Run(Turn {
            job: JobId { task: state.task, index: state.index },
            release: state.release,
            pdus: state.quantum.min(state.batch - state.done),
            resumed: state.done > 0,
        })
    }

    /// The running handler finished an iteration at `now`, having processed `pdus` PDUs; zero
    /// means that it has nothing left to do in this period.
    ///
    /// # Panics
    /// If nothing is running: the driver called this without a turn.
    pub fn iterated(&mut self, now: Instant, pdus: u32) -> YieldPoint {
        let Running { rank, give_way_at } = self.running.expect("a turn was given by next()");
        let state = &mut self.upcalls[rank.0 as usize];
        state.done = state.done.saturating_add(pdus);
        if pdus == 0 || state.done >= state.batch {
            self.complete(rank);
            return YieldPoint::Complete;
        }
        // The common case: a clock read (the driver's) and this compare.
        if now < give_way_at {
            return YieldPoint::Continue { pdus: state.quantum.min(state.batch - state.done) };
        }
        self.note_releases(now);
        if self.ready.first().is_some_and(|first| first.outranks(rank)) {
            return YieldPoint::Yield;
        }
        let give_way_at = self.releases.earliest_above(rank);
        self.running = Some(Running { rank, give_way_at });
        let state = &self.upcalls[rank.0 as usize];
        YieldPoint::Continue { pdus: state.quantum.min(state.batch - state.done) }
    }

    /// Job `index` of the upcall at `rank` is complete; the next released one, if any, follows.
    fn complete(&mut self, rank: Rank) {
        let state = &mut self.upcalls[rank.0 as usize];
        state.done = 0;
        state.index += 1;
        state.release += state.period;
        state.pending -= 1;
        if state.pending == 0 {
            self.ready.remove(rank);
        }
        self.running = None;
    }

    /// The jobs released at or before `now` that are not complete, by upcall: what a driver that
    /// stops here leaves undone.
    pub fn unfinished(&mut self, now: Instant) -> impl Iterator<Item = Backlog> + '_ {
        self.note_releases(now);
        self.upcalls.iter().filter(|state| state.pending > 0).map(|state| Backlog {
            oldest: JobId { task: state.task, index: state.index },
            release: state.release,
            period: state.period,
            jobs: state.pending,
            begun: state.done > 0,
        })
    }

    /// Moves everything released at or before `now` to the ready set. A long absence is one
    /// division, not a loop over the periods missed.
    fn note_releases(&mut self, now: Instant) {
        // The last instant means never.
        while self.releases.earliest() <= now && now < Instant::MAX {
            let rank = self.releases.earliest_rank();
            let state = &mut self.upcalls[rank.0 as usize];
            let due = self.releases.get(rank);
            let released = (now - due) / state.period + 1;
            state.pending += released;
            self.ready.insert(rank);
            let next = state.period.checked_mul(released).unwrap_or(Duration::MAX);
            self.releases.set(rank, due.saturating_add(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use punctual_model::{Service, UpcallSpec};

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn upcall(period: u64, batch: u32, quantum: u32) -> Upcall {
        Upcall::new(UpcallSpec {
            name: String::from("u"),
            period: Duration::from_millis(period),
            batch,
            quantum,
            time_per_pdu: Service::from_millis(1),
        })
        .expect("valid")
    }

    fn turn(next: Next) -> Turn {
        match next {
            Next::Run(turn) => turn,
            Next::Idle { .. } => panic!("somebody is released"),
        }
    }

    #[test]
    fn the_higher_rate_goes_first_whatever_the_order_of_creation() {
        let mut rmdp = Rmdp::new(&[upcall(40, 4, 4), upcall(10, 2, 2)], ms(5));
        assert_eq!(
            rmdp.next(ms(0)),
            Next::Idle { until: ms(5), period: Duration::from_millis(10) }
        );
        assert_eq!(turn(rmdp.next(ms(5))).job, JobId { task: 1, index: 0 });
        assert_eq!(rmdp.iterated(ms(7), 2), YieldPoint::Complete);
        assert_eq!(turn(rmdp.next(ms(7))).job, JobId { task: 0, index: 0 });
    }

    #[test]
    fn section_5_1_what_is_left_of_a_batch_waits_in_the_run_queue() {
        let mut rmdp = Rmdp::with_phases(
            &[upcall(10, 1, 1), upcall(40, 6, 2)],
            &[Duration::from_millis(3), Duration::ZERO],
            ms(0),
        );
        let slow = turn(rmdp.next(ms(0)));
        assert_eq!((slow.job.task, slow.pdus, slow.resumed), (1, 2, false));
        assert_eq!(rmdp.iterated(ms(2), 2), YieldPoint::Continue { pdus: 2 });
        // Released at 3, inside the quantum that ends at 4: it waits for the yield point.
        assert_eq!(rmdp.iterated(ms(4), 2), YieldPoint::Yield);
        assert_eq!(turn(rmdp.next(ms(4))).job, JobId { task: 0, index: 0 });
        assert_eq!(rmdp.iterated(ms(5), 1), YieldPoint::Complete);
        let rest = turn(rmdp.next(ms(5)));
        assert_eq!((rest.job.task, rest.pdus, rest.resumed), (1, 2, true));
        assert_eq!(rmdp.iterated(ms(7), 2), YieldPoint::Complete);
        assert_eq!(
            rmdp.next(ms(7)),
            Next::Idle { until: ms(13), period: Duration::from_millis(10) }
        );
    }

    #[test]
    fn a_release_exactly_at_the_yield_point_is_given_way_to() {
        let mut rmdp = Rmdp::with_phases(
            &[upcall(10, 1, 1), upcall(40, 6, 2)],
            &[Duration::from_millis(2), Duration::ZERO],
            ms(0),
        );
        let _ = rmdp.next(ms(0));
        assert_eq!(rmdp.iterated(ms(2), 2), YieldPoint::Yield);
    }

    #[test]
    fn of_equal_periods_the_one_listed_first_is_the_more_urgent() {
        let upcalls = [upcall(20, 4, 1), upcall(20, 4, 1)];
        let (early, late) = (Duration::ZERO, Duration::from_millis(1));
        let mut rmdp = Rmdp::with_phases(&upcalls, &[early, late], ms(0));
        assert_eq!(turn(rmdp.next(ms(0))).job.task, 0);
        assert_eq!(rmdp.iterated(ms(2), 1), YieldPoint::Continue { pdus: 1 });
        let mut rmdp = Rmdp::with_phases(&upcalls, &[late, early], ms(0));
        assert_eq!(turn(rmdp.next(ms(0))).job.task, 1);
        assert_eq!(rmdp.iterated(ms(2), 1), YieldPoint::Yield);
    }

    #[test]
    fn what_is_released_and_not_complete_is_counted() {
        let mut rmdp = Rmdp::new(&[upcall(10, 2, 1), upcall(40, 1, 1)], ms(0));
        let _ = rmdp.next(ms(0));
        assert_eq!(rmdp.iterated(ms(5), 1), YieldPoint::Continue { pdus: 1 });
        let left: Vec<_> = rmdp.unfinished(ms(25)).collect();
        assert_eq!(left.len(), 2);
        assert_eq!((left[0].jobs, left[0].release, left[0].begun), (3, ms(0), true));
        assert_eq!((left[1].jobs, left[1].begun), (1, false));
    }

    #[test]
    fn zero_pdus_end_a_job_early() {
        let mut rmdp = Rmdp::new(&[upcall(10, 4, 1)], ms(0));
        let _ = rmdp.next(ms(0));
        assert_eq!(rmdp.iterated(ms(1), 0), YieldPoint::Complete);
        assert_eq!(
            rmdp.next(ms(1)),
            Next::Idle { until: ms(10), period: Duration::from_millis(10) }
        );
    }

    #[test]
    fn missed_releases_are_caught_up_with_and_the_phase_survives() {
        let mut rmdp = Rmdp::new(&[upcall(10, 1, 1)], ms(0));
        for (index, release) in [(0, 0), (1, 10), (2, 20)] {
            let turn = turn(rmdp.next(ms(25)));
            assert_eq!((turn.job.index, turn.release), (index, ms(release)));
            assert_eq!(rmdp.iterated(ms(25), 1), YieldPoint::Complete);
        }
        assert_eq!(
            rmdp.next(ms(25)),
            Next::Idle { until: ms(30), period: Duration::from_millis(10) }
        );
    }

    #[test]
    fn without_upcalls_it_is_idle_for_ever() {
        let mut rmdp = Rmdp::new(&[], ms(0));
        for now in [ms(9), Instant::MAX] {
            assert_eq!(rmdp.next(now), Next::Idle { until: Instant::MAX, period: Duration::MAX });
        }
        let mut rmdp = Rmdp::new(&[upcall(10, 1, 1)], ms(0));
        let late = Instant::MAX - Duration::from_nanos(1);
        assert!(matches!(rmdp.next(late), Next::Run(_)), "near the end of time too");
    }
}
