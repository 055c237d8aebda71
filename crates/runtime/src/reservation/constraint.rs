//! One-shot time constraints of the calling thread: an amount of work between a start and a
//! deadline.
//!
//! They are Rialto/NT's (the soft modem study, §2): `begin` answers yes or no before the work is
//! started, and `end` returns the time used. The time promised is time that no reservation has; a
//! thread with a reservation of its own keeps that in addition.

use std::fs::File;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use punctual_analysis::supply::TimeConstraint;
use punctual_linux::{clock, process, sched, thread};
use punctual_model::{Instant, JobId, Service};
use punctual_trace::constraint::{Answer, ConstraintRequest};

use super::error::{Refused, StartError};
use super::held::LETTING_GO;
use super::lane::{Lane, locked};
use super::owner::{Hold, Owner};
use super::reservations::Reservations;
use super::{current, requests};

/// The outcome of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Processor time that the thread used since the constraint began.
    pub used: Service,
    /// The estimate given at the beginning.
    pub estimate: Service,
    /// True if it ended at or before its deadline.
    pub in_time: bool,
}

/// An accepted time constraint. It keeps its thread on the timetable's CPU until it ends. Dropping
/// it ends it, and the thread is scheduled as before. A thread that also holds a reservation must
/// end the constraint first.
pub struct Constraint {
    lane: Arc<Mutex<Lane>>,
    name: u32,
    owner: Arc<Owner>,
    asked: TimeConstraint,
    /// The job in events.
    job: JobId,
    before: Service,
    cpus: Vec<usize>,
    done: bool,
    /// Dropped after `drop` has ended the constraint, which leaves the thread an ordinary one.
    #[expect(dead_code, reason = "held for its drop")]
    scheduling: Option<sched::Restore>,
    not_send: PhantomData<*const ()>,
}

impl Constraint {
    /// Requests `estimate` of processor time for the calling thread between `start` and `deadline`
    /// (CLOCK_MONOTONIC), beside all reservations and earlier constraints.
    ///
    /// # Errors
    /// Returns [`Refused::NoRoom`] with the largest estimate that would fit, and the earliest
    /// deadline.
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
        let job = requests::next_job();
        let lane = reservations.each_lane(&cpus, |lane| lane.would_begin(asked));
        let lane =
            lane.inspect_err(|refused| Self::tell_refused(reservations, asked, job, refused))?;
        let scheduling = current::scheduling()?;
        // The thread must be on its CPU before it is raised there.
        let cpu = locked(&lane).cpu();
        thread::set_affinity(&[cpu]).map_err(|error| StartError::Cpu { cpu, error })?;
        let begun = locked(&lane).begin(asked, job, Arc::clone(&owner));
        let name = begun.inspect_err(|refused| {
            Self::tell_refused(reservations, asked, job, refused);
            let _ = thread::set_affinity(&cpus);
        })?;
        requests::hold(job, true);
        let before = clock::thread_cpu_time();
        let not_send = PhantomData;
        Ok(Self { lane, name, owner, asked, job, before, cpus, done: false, scheduling, not_send })
    }

    /// Records that there was no room; other errors are not answers to the request.
    fn tell_refused(
        reservations: &Reservations,
        asked: TimeConstraint,
        job: JobId,
        refused: &Refused,
    ) {
        let Refused::NoRoom { refusal, .. } = refused else { return };
        let TimeConstraint { start, estimate, deadline } = asked;
        let answer = Answer::Refused { largest_estimate: refusal.largest_estimate };
        let asked = ConstraintRequest { at: clock::now(), job, start, estimate, deadline, answer };
        reservations.requests().record(thread::current(), asked);
    }

    /// Ends the constraint; other work may use the rest of its time.
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
        requests::hold(self.job, false);
        self.owner.gone.sleep_until(0, clock::now() + LETTING_GO);
        // A thread that also holds a reservation was on that CPU alone before, and stays there.
        let _ = process::pin(thread::current(), &self.cpus);
    }
}

impl Drop for Constraint {
    fn drop(&mut self) {
        self.finish();
    }
}
