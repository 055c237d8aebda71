//! The state of the host in the form in which it is serialised. Keys are never renamed, only added.

use std::collections::BTreeMap;

use punctual_model::{Duration, Service};
use serde::{Serialize, Serializer};

use super::HostState;
use super::account::{JobAccount, LatencyHistogram};
use super::broker::BrokerState;
use super::threads::{JobsState, ThreadJobs, ThreadState};
use crate::Message;
use crate::why::LateRecord;

impl Serialize for HostState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct State<'a> {
            /// Null if it does not answer.
            broker: Option<&'a BrokerState>,
            why_no_broker: Option<&'a str>,
            jobs: &'a JobsState,
            threads: &'a [ThreadState],
            /// The id of the target if it and all its descendants have ended.
            ended: Option<u32>,
        }
        let Self { broker, jobs, threads, ended } = self;
        let why_no_broker = broker.as_ref().err().map(Message::text);
        let broker = broker.as_ref().ok();
        State { broker, why_no_broker, jobs, threads, ended: *ended }.serialize(serializer)
    }
}

impl Serialize for JobsState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct State<'a> {
            /// Null if jobs are not observed.
            records: Option<u64>,
            records_lost: Option<u64>,
            why_not_observed: Option<&'a str>,
            threads: Vec<Thread<'a>>,
            tasks: Vec<Task<'a>>,
        }
        let counts = self.counts.as_ref().ok();
        let threads = self.threads.iter();
        let tasks = self.tasks.iter();
        State {
            records: counts.map(|counts| counts.written),
            records_lost: counts.map(|counts| counts.lost),
            why_not_observed: self.counts.as_ref().err().map(String::as_str),
            threads: threads.map(|(&thread, jobs)| Thread::of(thread, jobs)).collect(),
            tasks: tasks
                .map(|(name, jobs)| Task { name, account: Account::of(name, None, jobs) })
                .collect(),
        }
        .serialize(serializer)
    }
}

/// A watched thread.
#[derive(Serialize)]
struct Thread<'a> {
    thread: u32,
    name: Option<&'a str>,
    period_ns: Option<u64>,
    relative_deadline_ns: Option<u64>,
    wcet_ns: Option<u64>,
    /// The slack of the tightest recent job, negative if it was late.
    slack_ns: Option<i64>,
    /// Null if jobs are not observed.
    account: Option<Account<'a>>,
}

impl<'a> Thread<'a> {
    fn of(thread: u32, jobs: &'a ThreadJobs) -> Self {
        let name = jobs.name.as_deref();
        let account = jobs.account.as_ref();
        Self {
            thread,
            name,
            period_ns: jobs.promise.period.map(Duration::as_nanos),
            relative_deadline_ns: jobs.promise.relative_deadline.map(Duration::as_nanos),
            wcet_ns: jobs.promise.wcet.map(Service::as_nanos),
            slack_ns: jobs.slack_ns(),
            account: account.map(|of| Account::of(name.unwrap_or_default(), Some(thread), of)),
        }
    }
}

/// All threads of a name.
#[derive(Serialize)]
struct Task<'a> {
    name: &'a str,
    #[serde(flatten)]
    account: Account<'a>,
}

#[derive(Serialize)]
struct Account<'a> {
    jobs: u64,
    late: u64,
    /// The number of late jobs by their main cause.
    causes: &'a BTreeMap<&'static str, u64>,
    wakeup_latencies: Histogram,
    /// The latest, the newest last.
    recent_wakeup_latencies_ns: Vec<u64>,
    /// The latest, the newest last.
    recent_response_times_ns: Vec<u64>,
    /// The latest, the newest first.
    late_jobs: Vec<LateRecord<'a>>,
}

impl<'a> Account<'a> {
    fn of(name: &'a str, thread: Option<u32>, account: &'a JobAccount) -> Self {
        let late = account.late_jobs.iter();
        Self {
            jobs: account.jobs,
            late: account.late,
            causes: &account.causes,
            wakeup_latencies: Histogram::of(&account.wakeups),
            recent_wakeup_latencies_ns: nanos(&account.latencies),
            recent_response_times_ns: nanos(&account.response_times),
            late_jobs: late.map(|verdict| LateRecord::of(name, thread, verdict)).collect(),
        }
    }
}

#[derive(Serialize)]
struct Histogram {
    /// The upper bounds of the steps. A latency equal to a bound is within it.
    up_to_ns: Vec<u64>,
    /// The number of latencies in each step; one more than bounds, for latencies beyond them.
    counts: Vec<u64>,
    sum_ns: u64,
}

impl Histogram {
    fn of(histogram: &LatencyHistogram) -> Self {
        Self {
            up_to_ns: LatencyHistogram::STEPS_US.iter().map(|us| us * 1_000).collect(),
            counts: histogram.counts.to_vec(),
            sum_ns: histogram.sum.as_nanos(),
        }
    }
}

fn nanos<'a>(times: impl IntoIterator<Item = &'a Duration>) -> Vec<u64> {
    times.into_iter().map(|time| time.as_nanos()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::JobEvent;
    use punctual_trace::Promise;
    use serde_json::json;

    #[test]
    fn a_state_keeps_unknown_values_apart_from_zero() {
        let mut account = JobAccount::default();
        account.add(&JobEvent::Began { thread: 7, wakeup_latency: Duration::from_micros(30) });
        let response_time = Duration::from_millis(3);
        account.add(&JobEvent::Ended { thread: 7, response_time, late: None });
        let deadline = Some(Duration::from_millis(5));
        let promise = Promise { relative_deadline: deadline, ..Promise::default() };
        let seen = ThreadJobs { name: Some("mixer".into()), promise, account: Some(account) };
        let threads = BTreeMap::from([(7, seen), (8, ThreadJobs::default())]);
        let jobs = JobsState { counts: Err("no BPF".into()), threads, tasks: Default::default() };
        let state = HostState {
            broker: Err("no broker".into()),
            jobs,
            threads: vec![ThreadState { process: 6, thread: 7, name: None, used_ppm: None }],
            ended: None,
        };
        let state = serde_json::to_value(&state).expect("all keys are text");
        assert_eq!(
            (&state["broker"], &state["why_no_broker"]),
            (&json!(null), &json!("no broker"))
        );
        let jobs = &state["jobs"];
        assert_eq!((&jobs["records"], &jobs["why_not_observed"]), (&json!(null), &json!("no BPF")));
        let mixer = &jobs["threads"][0];
        assert_eq!(mixer["slack_ns"], 2_000_000);
        assert_eq!(mixer["account"]["jobs"], 1);
        assert_eq!(mixer["account"]["wakeup_latencies"]["counts"][2], 1);
        assert_eq!(mixer["account"]["wakeup_latencies"]["up_to_ns"][2], 50_000);
        assert_eq!(mixer["account"]["recent_response_times_ns"], json!([3_000_000]));
        assert_eq!(jobs["threads"][1]["account"], json!(null));
        let thread = json!({ "process": 6, "thread": 7, "name": null, "used_ppm": null });
        assert_eq!(state["threads"][0], thread);
    }
}
