//! What was found of a thread.

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
pub(super) struct Finding {
    pub(super) tid: u32,
    pub(super) name: String,
    /// Which of the threads of this name, by their numbers.
    pub(super) nth: usize,
    pub(super) jobs: usize,
    /// The part of its wake-ups that timers did.
    pub(super) by_timers: f64,
    /// The part of a CPU that it used.
    pub(super) used: f64,
    pub(super) found: Result<Found, Why>,
    pub(super) demand: Option<Demand>,
    pub(super) proposal: Option<Proposal>,
    /// Jobs that took longer than the reservation's period; the thread's own where none is proposed.
    pub(super) late: usize,
    pub(super) tried: Option<OfTrial>,
}

/// Why a thread has no period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Why {
    /// Its wake-ups.
    Wakeups(NotPeriodic),
    /// It works without waiting for anything.
    NeverWaits,
}

/// What became of a thread in the trial.
pub(super) struct OfTrial {
    pub(super) jobs: usize,
    pub(super) late: usize,
    /// The most late jobs at which the promise counts as kept: those that the quantile leaves out.
    pub(super) allowed: usize,
    /// The part of all budgets that it used.
    pub(super) of_budget: f64,
    /// The main causes of its late jobs, the most frequent first.
    pub(super) causes: Vec<(&'static str, usize)>,
}

impl Finding {
    /// Nothing was to be kept, or it was.
    pub(super) fn is_kept(&self) -> bool {
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
