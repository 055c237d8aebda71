//! Collects the latest jobs of a trace, and the causes that it gives. If the trace has no verdict
//! from the kernel's records, it finds out from the other subjects that ran meanwhile why jobs were
//! late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use punctual_model::{Duration, Instant, JobId, Service};
use punctual_trace::cause::{FromEvents, LateJob, Share, Spent, Verdict, judge};
use punctual_trace::{Event, Kind, Sink, Subject};

use super::jobs::Job;

/// The number of late jobs that are kept one by one, the latest ones. Further ones only add to the
/// sums.
const MOST_LATE: usize = 2_000;
/// The number of causes of one job that are kept.
const MOST_CAUSES: usize = 12;
/// The number of kinds of causes that are distinguished.
const MOST_KINDS: usize = 400;

/// The number of late jobs that are examined, the latest ones first.
const MOST_JUDGED: usize = 200;
/// The number of stretches that are remembered, 16 bytes each.
const MOST_STRETCHES: usize = 1 << 20;
/// The number of stretches that are examined for all jobs together.
const MOST_LOOKS: usize = 4 << 20;

/// One cause of a late job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The key under which causes of different jobs are added up: threads of the same name and
    /// class are one.
    kind: String,
    /// A clause for the reader.
    pub(crate) text: String,
    /// Its share of the tardiness.
    pub(crate) share: Duration,
    /// The evidence: its total time, and the number of stretches.
    pub(crate) took: Duration,
    pub(crate) times: u32,
}

/// The evidence for causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A verdict in the trace, from the kernel's records.
    Kernel,
    /// The events of the trace alone.
    Events,
}

/// One late job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// The place of its subject.
    pub(crate) subject: u32,
    pub(crate) index: u64,
    pub(crate) release: Instant,
    pub(crate) deadline: Instant,
    pub(crate) end: Instant,
    /// Its declared wcet.
    wcet: Option<Service>,
    /// The causes, or `None` if none are known.
    pub(crate) causes: Option<Vec<Cause>>,
    /// The time of its own work, if causes are known.
    pub(crate) own: Option<Duration>,
}

impl Late {
    pub(crate) fn tardiness(&self) -> Duration {
        self.end.saturating_since(self.deadline)
    }
}

/// A total order in which the latest job is the greatest.
type Rank = (Duration, Reverse<Instant>, Reverse<u32>, Reverse<u64>);

/// The late jobs that are kept, and the sums over all.
#[derive(Debug, Default)]
pub(crate) struct LateJobs {
    /// The job of the smallest rank is on top.
    heap: BinaryHeap<Reverse<Rank>>,
    kept: BTreeMap<(u32, u64), Late>,
    /// The number of late jobs.
    pub(crate) all: u64,
    /// For each kind of cause, the number of jobs of which it was the main cause, and its total
    /// share of tardiness.
    pub(crate) by_cause: BTreeMap<String, (u64, Duration)>,
    /// The number of late jobs with known causes, from the kernel's records and from events alone.
    pub(crate) by_kernel: u64,
    pub(crate) by_events: u64,
}

impl LateJobs {
    /// Adds a job that a checker found late. Its task number is its subject's place.
    pub(crate) fn found(&mut self, late: LateJob) {
        self.all += 1;
        let (subject, index) = (late.job.task, late.job.index);
        if self.kept.contains_key(&(subject, index)) {
            return;
        }
        let (release, deadline, end) = (late.release, late.absolute_deadline, late.end);
        let (wcet, causes, own) = (late.wcet, None, None);
        self.keep(Late { subject, index, release, deadline, end, wcet, causes, own });
    }

    /// Adds the reasons why a job of the subject at `place` was late. `name` returns the name of a
    /// subject number in the verdict.
    pub(crate) fn explained(
        &mut self,
        place: u32,
        verdict: &Verdict,
        evidence: Evidence,
        name: impl Fn(u32) -> String,
    ) {
        match evidence {
            Evidence::Kernel => self.by_kernel += 1,
            Evidence::Events => self.by_events += 1,
        }
        let causes = causes(verdict, name);
        for (nth, cause) in causes.iter().enumerate() {
            let known = self.by_cause.contains_key(&cause.kind);
            let is_told = known || self.by_cause.len() < MOST_KINDS;
            let key = if is_told { cause.kind.clone() } else { "others".into() };
            let (jobs, share) = self.by_cause.entry(key).or_default();
            *jobs += u64::from(nth == 0);
            *share = share.saturating_add(cause.share);
        }
        let (subject, index, late) = (place, verdict.late.job.index, verdict.late);
        let (causes, own) = (Some(causes), Some(verdict.own));
        match self.kept.get_mut(&(subject, index)) {
            Some(kept) => (kept.causes, kept.own) = (causes, own),
            None => {
                let (release, deadline, end) = (late.release, late.absolute_deadline, late.end);
                let wcet = late.wcet;
                self.keep(Late { subject, index, release, deadline, end, wcet, causes, own });
            }
        }
    }

    fn keep(&mut self, late: Late) {
        let rank =
            (late.tardiness(), Reverse(late.release), Reverse(late.subject), Reverse(late.index));
        self.heap.push(Reverse(rank));
        self.kept.insert((late.subject, late.index), late);
        if self.heap.len() > MOST_LATE
            && let Some(Reverse((.., Reverse(subject), Reverse(index)))) = self.heap.pop()
        {
            self.kept.remove(&(subject, index));
        }
    }

    /// Returns the jobs that are kept, the latest first.
    pub(crate) fn latest(&self) -> Vec<&Late> {
        let mut late: Vec<&Late> = self.kept.values().collect();
        late.sort_by_key(|one| (Reverse(one.tardiness()), one.release, one.subject, one.index));
        late
    }

    pub(crate) fn get(&self, subject: u32, index: u64) -> Option<&Late> {
        self.kept.get(&(subject, index))
    }
}

fn causes(verdict: &Verdict, name: impl Fn(u32) -> String) -> Vec<Cause> {
    let shares = verdict.shares.iter().filter(|share| !share.share.is_zero());
    let cause = |share: &Share| {
        let by_name = match share.cause {
            Spent::Subject(number) if number == verdict.late.job.task => {
                Some("an earlier job of its own ran".to_owned())
            }
            Spent::Subject(number) => Some(format!("{} ran instead", name(number))),
            _ => None,
        };
        Cause {
            kind: by_name.clone().unwrap_or_else(|| share.cause.in_general()),
            text: by_name.unwrap_or_else(|| share.cause.to_string()),
            share: share.share,
            took: share.took,
            times: share.times,
        }
    };
    shares.take(MOST_CAUSES).map(cause).collect()
}

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

#[cfg(test)]
mod tests {
    use punctual_model::JobId;

    use super::*;

    fn late(index: u64, by: u64) -> LateJob {
        let at = Instant::from_nanos;
        let (release, absolute_deadline) = (at(index * 1000), at(index * 1000 + 100));
        let end = at(index * 1000 + 100 + by);
        LateJob { job: JobId { task: 1, index }, release, absolute_deadline, end, wcet: None }
    }

    #[test]
    fn of_many_late_jobs_the_latest_are_kept_and_all_are_counted() {
        let mut ones = LateJobs::default();
        let many = 3 * MOST_LATE as u64;
        for index in 0..many {
            ones.found(late(index, index * 7919 % many + 1));
        }
        assert_eq!((ones.all, ones.kept.len()), (many, MOST_LATE));
        let latest = ones.latest();
        let expected: Vec<u64> = (0..MOST_LATE as u64).map(|nth| many - nth).collect();
        let found: Vec<u64> = latest.iter().map(|one| one.tardiness().as_nanos()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn causes_come_before_or_after_the_job_was_found_late() {
        let share = |cause, share| Share {
            cause,
            took: Duration::from_nanos(9),
            times: 2,
            longest_at: Instant::ZERO,
            share: Duration::from_nanos(share),
        };
        let shares =
            vec![share(Spent::PageFault, 6), share(Spent::Unknown, 1), share(Spent::Own, 0)];
        let verdict =
            |index| Verdict { late: late(index, 7), own: Duration::ZERO, shares: shares.clone() };
        let mut ones = LateJobs::default();
        ones.explained(1, &verdict(0), Evidence::Kernel, |_| String::new());
        ones.found(late(0, 7));
        ones.found(late(1, 7));
        ones.explained(1, &verdict(1), Evidence::Events, |_| String::new());
        assert_eq!((ones.all, ones.kept.len(), ones.by_kernel, ones.by_events), (2, 2, 1, 1));
        for index in 0..2 {
            let causes = ones.get(1, index).and_then(|one| one.causes.clone()).expect("causes");
            let texts: Vec<_> = causes.iter().map(|cause| cause.text.as_str()).collect();
            assert_eq!(texts, ["page faults", "not known"]);
        }
        assert_eq!(ones.by_cause["page faults"], (2, Duration::from_nanos(12)));
    }
}
