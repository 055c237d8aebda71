//! Finds out why jobs were late if the trace has no verdict from the kernel's records: from the
//! other subjects that ran meanwhile.

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{FromEvents, LateJob, Verdict, judge};
use punctual_trace::{Event, Kind, Sink, Subject};

use super::jobs::Job;
use super::late::LateJobs;

/// The number of late jobs that are examined, the latest ones first.
const MOST_JUDGED: usize = 200;
/// The number of stretches that are remembered, 16 bytes each.
const MOST_STRETCHES: usize = 1 << 20;
/// The number of stretches that are examined for all jobs together.
const MOST_LOOKS: usize = 4 << 20;

/// Remembers which subjects ran while the examined jobs were late.
#[derive(Debug)]
pub(crate) struct EventsAlone {
    /// The late jobs whose causes are needed, the latest first.
    wanted: Vec<LateJob>,
    /// The times from the release to the end of these jobs, in order and disjoint.
    times: Vec<(Instant, Instant)>,
    seen: FromEvents,
    stretches: usize,
}

impl EventsAlone {
    pub(crate) fn about(late: &LateJobs) -> Self {
        let latest = late.latest().into_iter().filter(|late| late.causes.is_none());
        let wanted: Vec<LateJob> = latest
            .take(MOST_JUDGED)
            .map(|late| LateJob {
                job: JobId { task: late.subject, index: late.index },
                release: late.release,
                absolute_deadline: late.deadline,
                end: late.end,
                wcet: late.wcet,
            })
            .collect();
        let mut sorted: Vec<_> = wanted.iter().map(|late| (late.release, late.end)).collect();
        sorted.sort_unstable();
        let mut times: Vec<(Instant, Instant)> = Vec::new();
        for (from, to) in sorted {
            match times.last_mut().filter(|last| last.1 >= from) {
                Some(last) => last.1 = last.1.max(to),
                None => times.push((from, to)),
            }
        }
        Self { wanted, times, seen: FromEvents::new(), stretches: 0 }
    }

    /// Declares the subject at this place from here on.
    pub(crate) fn subject(&mut self, place: u32, subject: &Subject) {
        self.seen.subject(place, subject);
    }

    /// Takes a job that has ended. Its stretches count if they overlap a late job.
    pub(crate) fn take(&mut self, job: &Job) {
        let Job { subject: task, index, release, .. } = *job;
        let job_id = JobId { task, index };
        for &(from, to) in &job.ran {
            let next = self.times.partition_point(|time| time.1 <= from);
            if self.times.get(next).is_none_or(|time| time.0 >= to) {
                continue;
            }
            if self.stretches >= MOST_STRETCHES {
                return;
            }
            self.stretches += 1;
            let mut event = |at, kind| self.seen.record(Event { at, job: job_id, release, kind });
            event(from, Kind::Start);
            event(to, Kind::GiveWay);
        }
    }

    /// Returns the verdicts, with subjects by their places. If there are too many stretches, it
    /// returns fewer or none, so that no subject is blamed on incomplete evidence.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let mut looks = 0;
        let mut verdicts = Vec::new();
        if self.stretches >= MOST_STRETCHES {
            return verdicts;
        }
        for late in &self.wanted {
            if looks >= MOST_LOOKS {
                break;
            }
            let stretches = self.seen.stretches(late.job, late.release, late.end);
            looks += stretches.len();
            verdicts.push(judge(*late, &stretches, |_| true));
        }
        verdicts
    }
}
