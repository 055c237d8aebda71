//! Counts what a watched thread did.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::Duration;
use punctual_trace::Promise;
use punctual_trace::cause::Verdict;

use crate::watch::observed::JobEvent;
use crate::watch::picture::{LATE_KEPT, Late, RECENT, Row};

/// The account of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) promise: Promise,
    jobs: u64,
    late: u64,
    causes: BTreeMap<&'static str, u64>,
    latencies: VecDeque<u64>,
    response_times: VecDeque<u64>,
    late_jobs: VecDeque<Late>,
}

impl Account {
    /// Counts an event.
    pub(super) fn add(&mut self, job_event: &JobEvent) {
        match job_event {
            JobEvent::Began { wakeup_latency, .. } => {
                push(&mut self.latencies, wakeup_latency.as_nanos(), RECENT);
            }
            JobEvent::Ended { response_time, late, .. } => {
                self.jobs += 1;
                push(&mut self.response_times, response_time.as_nanos(), RECENT);
                if let Some(verdict) = late {
                    self.late += 1;
                    let cause = verdict.main().map_or("unknown", |share| share.cause.word());
                    *self.causes.entry(cause).or_default() += 1;
                    self.late_jobs.push_front(late_job(verdict));
                    self.late_jobs.truncate(LATE_KEPT);
                }
            }
        }
    }

    /// Writes the account into a row.
    pub(super) fn fill(&self, row: &mut Row) {
        let promised = self.promise.relative_deadline;
        row.jobs = Some(self.jobs);
        row.late = promised.map(|_| self.late);
        row.slack_ns = promised.and_then(|relative_deadline| self.slack(relative_deadline));
        row.latencies = self.latencies.iter().copied().collect();
        row.late_jobs = self.late_jobs.iter().cloned().collect();
        // Of equal counts the first name wins, so the display does not flicker.
        let most =
            self.causes.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name)));
        row.cause = most.map(|(cause, _)| (*cause).to_owned());
        let causes = self.causes.iter().map(|(cause, count)| format!("{count} {cause}"));
        let causes = causes.collect::<Vec<_>>().join(", ");
        if !causes.is_empty() {
            row.facts.push(("late by", causes));
        }
        if let Some(relative_deadline) = promised {
            row.facts.push(("deadline", relative_deadline.to_string()));
        }
    }

    /// Returns the slack of the tightest recent job.
    fn slack(&self, relative_deadline: Duration) -> Option<i64> {
        let longest = *self.response_times.iter().max()?;
        let slack = i128::from(relative_deadline.as_nanos()) - i128::from(longest);
        Some(i64::try_from(slack).unwrap_or(if slack < 0 { i64::MIN } else { i64::MAX }))
    }
}

fn push(to: &mut VecDeque<u64>, value: u64, most: usize) {
    if to.len() >= most {
        to.pop_front();
    }
    to.push_back(value);
}

fn late_job(verdict: &Verdict) -> Late {
    let shares = verdict.shares.iter().filter(|share| !share.share.is_zero());
    Late {
        job: verdict.late.job.index,
        tardiness_ns: verdict.late.tardiness().as_nanos(),
        own_ns: verdict.own.as_nanos(),
        causes: shares.map(|share| (share.share.as_nanos(), share.cause.to_string())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::picture::Key;
    use punctual_model::{Instant, JobId};
    use punctual_trace::cause::{LateJob, Share, Spent};

    fn ended(response_us: u64, late: Option<Spent>) -> JobEvent {
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let late = late.map(|cause| {
            let job = LateJob {
                job: JobId { task: 7, index: 3 },
                release: at(0),
                absolute_deadline: at(1_000),
                end: at(response_us),
                wcet: None,
            };
            let took = job.tardiness();
            let share = Share { cause, took, times: 1, longest_at: at(0), share: took };
            Box::new(Verdict { late: job, own: Duration::from_micros(1), shares: vec![share] })
        });
        JobEvent::Ended { thread: 7, response_time: Duration::from_micros(response_us), late }
    }

    fn told(account: &Account) -> Row {
        let mut row = Row::new(Key::Thread(7), "thread", "a".into(), String::new());
        account.fill(&mut row);
        row
    }

    #[test]
    fn jobs_are_counted_and_the_tightest_gives_the_slack() {
        let mut account = Account::default();
        account.add(&ended(900, None));
        // Without a promise no job is late, and there is no slack.
        assert_eq!((told(&account).late, told(&account).slack_ns), (None, None));
        account.promise.relative_deadline = Some(Duration::from_millis(1));
        assert_eq!((told(&account).late, told(&account).slack_ns), (Some(0), Some(100_000)));
        account.add(&ended(1_250, Some(Spent::Stolen)));
        account.add(&ended(1_100, Some(Spent::SoftIrq(3))));
        account.add(&ended(1_100, Some(Spent::SoftIrq(1))));
        let row = told(&account);
        assert_eq!((row.jobs, row.late, row.slack_ns), (Some(4), Some(3), Some(-250_000)));
        assert_eq!(row.cause.as_deref(), Some("softirq"));
        assert_eq!(row.late_jobs[2].tardiness_ns, 250_000);
        assert!(row.facts.contains(&("late by", "2 softirq, 1 stolen".into())), "{:?}", row.facts);
    }

    #[test]
    fn the_account_is_bounded() {
        let mut account = Account::default();
        account.promise.relative_deadline = Some(Duration::from_millis(1));
        for us in 0..1_000 {
            let wakeup_latency = Duration::from_micros(us);
            account.add(&JobEvent::Began { thread: 7, wakeup_latency });
            account.add(&ended(1_001 + us, Some(Spent::Own)));
        }
        let row = told(&account);
        assert_eq!((row.latencies.len(), row.late_jobs.len()), (RECENT, LATE_KEPT));
        assert_eq!((row.latencies.last(), row.jobs), (Some(&999_000), Some(1_000)));
        assert_eq!(row.late_jobs[0].tardiness_ns, 1_000_000);
    }
}
