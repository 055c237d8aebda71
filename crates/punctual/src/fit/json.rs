//! The form in which findings are serialised. Keys are never renamed, only added.

use serde::{Serialize, Serializer};

use super::{Finding, Fit, Found, OfTrial, Period, Trial};

#[derive(Serialize)]
struct Page<'a> {
    watched_ns: u64,
    threads: Vec<Thread<'a>>,
    objection: Option<&'a str>,
    trial: OneTrial<'a>,
    records_lost: u64,
    not_told: &'a [&'static str],
}

#[derive(Serialize)]
struct OneTrial<'a> {
    tried_ns: Option<u64>,
    by: Option<&'static str>,
    started_anew: Option<bool>,
    why_not: Option<&'a str>,
}

#[derive(Serialize)]
struct Thread<'a> {
    thread: &'a str,
    tid: u32,
    jobs: usize,
    by_timers: f64,
    used_of_cpu: f64,
    periods: Vec<OnePeriod>,
    not_periodic: Option<String>,
    demand: Option<Needed>,
    reservation: Option<Reserved>,
    late: usize,
    trial: Option<Tried>,
}

#[derive(Serialize)]
struct OnePeriod {
    period_ns: u64,
    confidence: f64,
    covered: f64,
    by_chance: f64,
    tolerance_ns: u64,
    explains: f64,
    jitter_ns: u64,
    drifts: bool,
}

#[derive(Serialize)]
struct Needed {
    periods: usize,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct Reserved {
    text: String,
    budget_ns: u64,
    period_ns: u64,
    demand_ns: u64,
    switches_ns: u64,
    margin_ns: u64,
    divisor: u64,
    periods_within: usize,
}

#[derive(Serialize)]
struct Tried {
    jobs: usize,
    late: usize,
    allowed: usize,
    kept: bool,
    of_budget: f64,
    causes: Vec<Cause>,
}

#[derive(Serialize)]
struct Cause {
    cause: &'static str,
    jobs: usize,
}

impl Serialize for Fit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        page(self).serialize(serializer)
    }
}

fn page(answer: &Fit) -> Page<'_> {
    let none = OneTrial { tried_ns: None, by: None, started_anew: None, why_not: None };
    let trial = match &answer.trial {
        Trial::None(why) => OneTrial { why_not: Some(why), ..none },
        Trial::NotAsked => OneTrial { why_not: Some("no trial was asked for"), ..none },
        Trial::Refused(why) => OneTrial { why_not: Some(why), ..none },
        Trial::Tried(tried) => OneTrial {
            tried_ns: Some(tried.length.as_nanos()),
            by: Some(tried.by),
            started_anew: Some(tried.anew),
            ..none
        },
    };
    Page {
        watched_ns: answer.watched.as_nanos(),
        threads: answer.findings.iter().map(thread).collect(),
        objection: answer.objection.as_deref(),
        trial,
        records_lost: answer.records_lost,
        not_told: &answer.missing,
    }
}

fn thread(finding: &Finding) -> Thread<'_> {
    let periods = finding.found.as_ref().ok().map(|Found { periods }| periods);
    let nanos = |percent| {
        let needed = finding.demand.as_ref().and_then(|demand| demand.quantile(percent));
        needed.map_or(0, |needed| needed.as_nanos())
    };
    Thread {
        thread: &finding.name,
        tid: finding.tid,
        jobs: finding.jobs,
        by_timers: finding.by_timers,
        used_of_cpu: finding.used,
        periods: periods.into_iter().flatten().map(period).collect(),
        not_periodic: finding.why_not_periodic(),
        demand: finding.demand.as_ref().map(|demand| Needed {
            periods: demand.periods(),
            p50_ns: nanos(50.0),
            p99_ns: nanos(99.0),
            max_ns: nanos(100.0),
        }),
        reservation: finding.proposal.zip(finding.demand.as_ref()).map(|(proposal, demand)| {
            let reservation = proposal.reservation;
            Reserved {
                text: reservation.to_string(),
                budget_ns: reservation.budget().as_nanos(),
                period_ns: reservation.period().as_nanos(),
                demand_ns: proposal.demand.as_nanos(),
                switches_ns: proposal.switches.as_nanos(),
                margin_ns: proposal.margin.as_nanos(),
                divisor: proposal.divisor,
                periods_within: demand.within(reservation.budget()),
            }
        }),
        late: finding.late,
        trial: finding.tried.as_ref().map(|tried| of_trial(finding, tried)),
    }
}

fn period(period: &Period) -> OnePeriod {
    OnePeriod {
        period_ns: period.period.as_nanos(),
        confidence: period.confidence,
        covered: period.covered,
        by_chance: period.by_chance,
        tolerance_ns: period.tolerance.as_nanos(),
        explains: period.explains,
        jitter_ns: period.jitter.as_nanos(),
        drifts: period.drifts,
    }
}

fn of_trial(finding: &Finding, tried: &OfTrial) -> Tried {
    let causes = tried.causes.iter().map(|&(cause, jobs)| Cause { cause, jobs });
    Tried {
        jobs: tried.jobs,
        late: tried.late,
        allowed: tried.allowed,
        kept: finding.is_kept(),
        of_budget: tried.of_budget,
        causes: causes.collect(),
    }
}
