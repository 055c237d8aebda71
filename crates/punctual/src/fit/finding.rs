//! Finds the period of a thread, what it needs, and what to reserve for it.

use punctual_analysis::sched_deadline::{self, Request};
use punctual_model::{Duration, HostProfile, Service};
use punctual_observe::{Fitting, SeenThread};
use punctual_trace::fit::{
    Demand, Found, Margin, NotPeriodic, Proposal, Sample, Samples, find, propose,
};

/// A thread that hardly ever sleeps and uses more than this of a CPU has no jobs.
const BUSY: f64 = 0.5;
/// So has one that was never woken and uses more than this: others may have kept the CPU from it.
const AT_WORK: f64 = 0.05;

/// What was found of a thread.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Which of the threads of this name, by their numbers.
    pub nth: usize,
    /// How many jobs were seen.
    pub jobs: usize,
    /// The part of its wake-ups that timers did.
    pub by_timers: f64,
    /// The part of a CPU that it used.
    pub used: f64,
    /// Its period, or why it has none.
    pub found: Result<Found, Why>,
    /// What its jobs need; none without a period.
    pub demand: Option<Demand>,
    /// What is proposed for it; none if nothing would do.
    pub proposal: Option<Proposal>,
    /// Jobs that took longer than the reservation's period; the thread's own where none is proposed.
    pub late: usize,
    /// What became of it in the trial; none if it was not tried.
    pub tried: Option<OfTrial>,
}

/// Why a thread has no period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Its wake-ups.
    Wakeups(NotPeriodic),
    /// It works without waiting for anything.
    NeverWaits,
}

/// What became of a thread in the trial.
#[derive(Clone, Debug, PartialEq)]
pub struct OfTrial {
    /// How many jobs were seen.
    pub jobs: usize,
    /// How many of them took longer than the period.
    pub late: usize,
    /// The most late jobs at which the promise counts as kept: those that the quantile leaves out.
    pub allowed: usize,
    /// The part of all budgets that it used.
    pub of_budget: f64,
    /// The main causes of its late jobs, the most frequent first.
    pub causes: Vec<(&'static str, usize)>,
}

impl Finding {
    /// Returns whether what was proposed was kept in the trial; also if nothing was proposed.
    pub fn is_kept(&self) -> bool {
        match (&self.proposal, &self.tried) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(tried)) => tried.jobs > 0 && tried.late <= tried.allowed,
        }
    }

    fn of(seen: SeenThread<'_>, nth: usize, watched: Duration, margin: Margin) -> Self {
        let samples = jobs(seen.samples);
        let releases: Vec<_> = samples.iter().map(|job| job.release).collect();
        let used = seen.samples.exec_time.as_secs_f64() / watched.as_secs_f64().max(1e-9);
        let found = find(&releases).map_err(|why| match why {
            NotPeriodic::TooFew { .. }
                if used > BUSY || (seen.samples.wakeups == 0 && used > AT_WORK) =>
            {
                Why::NeverWaits
            }
            why => Why::Wakeups(why),
        });
        let shortest = found.as_ref().ok().and_then(Found::shortest);
        let demand = shortest.map(|period| Demand::of(&samples, period));
        let proposal = shortest
            .zip(demand.as_ref())
            .and_then(|(period, demand)| propose(period, demand, margin));
        let due = proposal.map(|proposal| proposal.reservation.period());
        let due = due.or(shortest.map(|period| period.period));
        let late = due.map_or(0, |due| Demand::late(&samples, due));
        Self {
            tid: seen.tid,
            name: seen.name.to_owned(),
            nth,
            jobs: samples.len(),
            by_timers: seen.samples.by_timers as f64 / seen.samples.wakeups.max(1) as f64,
            used,
            found,
            demand,
            proposal,
            late,
            tried: None,
        }
    }
}

/// All threads that ran, in the order of their numbers.
pub(super) fn all(fitting: &Fitting, watched: Duration, margin: Margin) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for seen in fitting.threads() {
        if seen.samples.jobs.is_empty() && seen.samples.exec_time == Service::ZERO {
            continue;
        }
        let nth = all.iter().filter(|one| one.name == seen.name).count();
        all.push(Finding::of(seen, nth, watched, margin));
    }
    all
}

/// In one piece.
pub(super) fn jobs(samples: &Samples) -> Vec<Sample> {
    samples.jobs.iter().copied().collect()
}

/// Why the kernel would not take all proposals together, if it would not.
pub(super) fn objection(findings: &[Finding], host: &HostProfile) -> Option<String> {
    let proposed: Vec<&Finding> = findings.iter().filter(|one| one.proposal.is_some()).collect();
    let reservations = proposed.iter().filter_map(|one| one.proposal).map(|one| one.reservation);
    let requests = reservations.map(Request::from);
    let (at, why) = sched_deadline::admit(&host.deadline_limits, host.cpus, requests).err()?;
    let Finding { name, tid, .. } = proposed.get(at)?;
    Some(format!("{name} ({tid}) {why}"))
}
