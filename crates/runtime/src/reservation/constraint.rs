//! One-shot time constraints of the calling thread: this much work, not before, by then.
//!
//! Rialto/NT's (the soft modem study, §2): `begin` answers yes or no before the work is started, `end`
//! tells what it used. What is promised is time that no reservation has; a thread with a reservation
//! of its own has that beside it.

use std::fs::File;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use punctual_analysis::supply::TimeConstraint;
use punctual_linux::process;
use punctual_linux::{clock, sched, thread};
use punctual_model::{Instant, JobId, Service};
use punctual_trace::constraint::{Answer, Asked};

use super::error::{Refused, StartError};
use super::held::LETTING_GO;
use super::lane::{Lane, locked};
use super::owner::{Hold, Owner};
use super::reservations::Reservations;
use super::{asked, before};

/// What a constraint came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Processor time that the thread used since the constraint began.
    pub used: Service,
    /// What was estimated.
    pub estimate: Service,
    /// Whether it ended at or before its deadline.
    pub in_time: bool,
}

/// An accepted time constraint. It keeps its thread on the timetable's CPU until it ends; dropping it
/// ends it, and the thread is scheduled as before. A thread that also holds a reservation must end the
/// constraint first.
pub struct Constraint {
    lane: Arc<Mutex<Lane>>,
    name: u32,
    owner: Arc<Owner>,
    asked: TimeConstraint,
    /// What events call it.
    job: JobId,
    before: Service,
    cpus: Vec<usize>,
    done: bool,
    /// Dropped after `drop` has ended it, which leaves the thread an ordinary one.
    #[expect(dead_code, reason = "held for its drop")]
    scheduling: Option<sched::Restore>,
    not_send: PhantomData<*const ()>,
}

impl Constraint {
    /// May the calling thread have `estimate` of processor time between `start` and `deadline`
    /// (CLOCK_MONOTONIC), beside all that is reserved and was accepted before?
    ///
    /// # Errors
    /// [`Refused::NoRoom`] with the largest estimate that would fit, and the earliest deadline.
    pub fn begin(
        reservations: &Reservations,
        start: Instant,
        estimate: Service,
        deadline: Instant,
    ) -> Result<Self, Refused> {
        let tid = thread::current();
        let cpus = thread::affinity();
        let asked = TimeConstraint { start, estimate, deadline };
        let alive = File::open(format!("/proc/self/task/{tid}/comm"))?;
        let owner = Arc::new(Owner::new(Hold::Thread { tid, alive }));
        let job = asked::next_job();
        let lane = reservations.each_lane(&cpus, |lane| lane.would_begin(asked));
        let lane =
            lane.inspect_err(|refused| Self::tell_refused(reservations, asked, job, refused))?;
        let scheduling = before::scheduling()?;
        // On its CPU before it is raised there.
        let cpu = locked(&lane).cpu();
        thread::set_affinity(&[cpu]).map_err(|error| StartError::Cpu { cpu, error })?;
        let begun = locked(&lane).begin(asked, job, Arc::clone(&owner));
        let name = begun.inspect_err(|refused| {
            Self::tell_refused(reservations, asked, job, refused);
            let _ = thread::set_affinity(&cpus);
        })?;
        asked::hold(job, true);
        let before = clock::thread_cpu_time();
        let not_send = PhantomData;
        Ok(Self { lane, name, owner, asked, job, before, cpus, done: false, scheduling, not_send })
    }

    /// That there was no room; other errors are no answers.
    fn tell_refused(
        reservations: &Reservations,
        asked: TimeConstraint,
        job: JobId,
        refused: &Refused,
    ) {
        let Refused::NoRoom { refusal, .. } = refused else { return };
        let TimeConstraint { start, estimate, deadline } = asked;
        let answer = Answer::Refused { largest_estimate: refusal.largest_estimate };
        let asked = Asked { at: clock::now(), job, start, estimate, deadline, answer };
        reservations.asked().tell(thread::current(), asked);
    }

    /// Ends it; the rest of its time is everybody's.
    pub fn end(mut self) -> Used {
        let used = clock::thread_cpu_time().saturating_sub(self.before);
        let in_time = clock::now() <= self.asked.deadline;
        self.finish();
        Used { used, estimate: self.asked.estimate, in_time }
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        locked(&self.lane).end(self.name);
        asked::hold(self.job, false);
        self.owner.gone.sleep_until(0, clock::now() + LETTING_GO);
        // A thread that holds a reservation too was on that CPU alone before, and stays there.
        let _ = process::pin(thread::current(), &self.cpus);
    }
}

impl Drop for Constraint {
    fn drop(&mut self) {
        self.finish();
    }
}
