//! Finds the period of a thread, its demand, and a reservation for it.

use punctual_analysis::sched_deadline::{self, Request};
use punctual_model::{Duration, HostProfile, Service};
use punctual_observe::{Fitting, SeenThread};
use punctual_trace::fit::{
    Demand, Found, Margin, NotPeriodic, Proposal, Sample, Samples, find, propose,
};

/// A thread that hardly ever sleeps and uses more than this part of a CPU has no jobs.
const BUSY: f64 = 0.5;
/// A thread that was never woken and uses more than this part of a CPU has no jobs either: other
/// threads may have kept it from more.
const AT_WORK: f64 = 0.05;

/// The findings for a thread.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its position among the threads of this name, in the order of their ids.
    pub nth: usize,
    /// The number of jobs that were seen.
    pub jobs: usize,
    /// The fraction of its wake-ups that came from timers.
    pub by_timers: f64,
    /// The fraction of a CPU that it used.
    pub used: f64,
    /// Its period, or the reason why it has none.
    pub found: Result<Found, NoPeriod>,
    /// The demand of its jobs; `None` without a period.
    pub demand: Option<Demand>,
    /// The proposal; `None` if no reservation would do.
    pub proposal: Option<Proposal>,
    /// The number of jobs that took longer than the reservation's period, or the thread's own
    /// period without a proposal.
    pub late: usize,
    /// Its results in the trial; `None` if it was not tried.
    pub tried: Option<OfTrial>,
}

/// The reason why a thread has no period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoPeriod {
    /// Its wake-ups are not periodic.
    Wakeups(NotPeriodic),
    /// It works without waiting for anything.
    NeverWaits,
}

/// The results of a thread in the trial.
#[derive(Clone, Debug, PartialEq)]
pub struct OfTrial {
    /// The number of jobs that were seen.
    pub jobs: usize,
    /// The number of jobs that took longer than the period.
    pub late: usize,
    /// The largest number of late jobs with which the promise counts as kept: the jobs beyond the
    /// quantile.
    pub allowed: usize,
    /// The fraction of all budgets that it used.
    pub of_budget: f64,
    /// The main causes of its late jobs with their counts, the most frequent first.
    pub causes: Vec<(&'static str, usize)>,
}

impl Finding {
    /// Returns whether the proposed promise was kept in the trial. True without a proposal.
    pub fn is_kept(&self) -> bool {
        match (&self.proposal, &self.tried) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(tried)) => tried.jobs > 0 && tried.late <= tried.allowed,
        }
    }

    /// Returns the reason why it is not periodic, if it is not.
    pub fn why_not_periodic(&self) -> Option<String> {
        match &self.found {
            Ok(_) => None,
            Err(NoPeriod::Wakeups(why)) => Some(why.to_string()),
            Err(NoPeriod::NeverWaits) => Some(format!(
                "it works without waiting for anything ({:.0} % of a CPU): there is no job to \
                 reserve for",
                100.0 * self.used
            )),
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
                NoPeriod::NeverWaits
            }
            why => NoPeriod::Wakeups(why),
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

/// Returns the findings for all threads that ran, in the order of their ids.
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

/// Copies the jobs to a contiguous vector.
pub(super) fn jobs(samples: &Samples) -> Vec<Sample> {
    samples.jobs.iter().copied().collect()
}

/// Returns the reason why the kernel would not accept all proposals together, if it would not.
pub(super) fn objection(findings: &[Finding], host: &HostProfile) -> Option<String> {
    let proposed: Vec<&Finding> = findings.iter().filter(|one| one.proposal.is_some()).collect();
    let reservations = proposed.iter().filter_map(|one| one.proposal).map(|one| one.reservation);
    let requests = reservations.map(Request::from);
    let (at, why) = sched_deadline::admit(&host.deadline_limits, host.cpus, requests).err()?;
    let Finding { name, tid, .. } = proposed.get(at)?;
    Some(format!("{name} ({tid}) {why}"))
}
