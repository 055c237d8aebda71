//! Why jobs were late, where the trace has no verdict of the kernel's evidence: from who else of the
//! trace ran meanwhile.

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{FromEvents, LateJob, Verdict, judge};
use punctual_trace::{Event, Kind, Sink, Subject};

use super::jobs::Job;
use super::late::LateOnes;

/// Late jobs that are looked into, the latest.
const MOST_JUDGED: usize = 200;
/// Stretches that are remembered, 16 bytes each.
const MOST_STRETCHES: usize = 1 << 20;
/// Stretches that are looked at, of all jobs together.
const MOST_LOOKS: usize = 4 << 20;

/// Who ran while the jobs in question were late.
#[derive(Debug)]
pub(crate) struct EventsAlone {
    /// Late jobs whose causes are asked for, the latest first.
    wanted: Vec<LateJob>,
    /// When they were not over, in order and apart.
    times: Vec<(Instant, Instant)>,
    seen: FromEvents,
    stretches: usize,
}

impl EventsAlone {
    pub(crate) fn about(late: &LateOnes) -> Self {
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

    /// The subject at this place, from here on.
    pub(crate) fn subject(&mut self, place: u32, subject: &Subject) {
        self.seen.subject(place, subject);
    }

    /// A job is over; its stretches count if somebody was late meanwhile.
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

    /// What they say, of subjects by their places. Nobody is accused by half of the stretches: if
    /// they are too many, there are no more verdicts.
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
