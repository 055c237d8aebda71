//! Findings in the form in which they are serialised: a record for each late job, and one at the
//! end. Keys are never renamed, only added.

use punctual_model::Duration;
use punctual_trace::Subject;
use punctual_trace::cause::{Share, Spent, Verdict};
use punctual_trace::check::Judged;
use serde::Serialize;

/// The cause of a job that waits for earlier jobs of its own subject.
pub(super) const EARLIER: &str = "its own earlier jobs";

/// The record of a late job.
#[derive(Clone, Debug, Serialize)]
pub struct LateRecord<'a> {
    /// The job.
    pub late: JobRecord<'a>,
    /// The causes of its tardiness, the largest share first. The shares add up to the tardiness.
    pub causes: Vec<CauseRecord>,
    /// Whether the causes rest on the kernel's evidence, for a job of a trace file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_kernel: Option<bool>,
}

/// A job. Instants are nanoseconds of CLOCK_MONOTONIC, or of virtual time.
#[derive(Clone, Debug, Serialize)]
pub struct JobRecord<'a> {
    /// The name of its thread or subject.
    pub thread: &'a str,
    /// The id of its thread, if it has one.
    pub tid: Option<u32>,
    /// Its index.
    pub job: u64,
    /// Its release.
    pub release_ns: u64,
    /// Its deadline.
    pub absolute_deadline_ns: u64,
    /// Its completion.
    pub end_ns: u64,
    /// The time from its deadline to its completion.
    pub tardiness_ns: u64,
    /// Its own execution time.
    pub own_ns: u64,
    /// The part of it in system calls, as far as it made the job late.
    pub system_ns: u64,
}

/// A cause of the lateness of a job.
#[derive(Clone, Debug, Serialize)]
pub struct CauseRecord {
    /// The word for the kind of cause.
    pub cause: &'static str,
    /// The description of the cause.
    pub text: String,
    /// Its share of the tardiness.
    pub share_ns: u64,
    /// The time that it took from the job.
    pub took_ns: u64,
    /// The number of times that it occurred.
    pub times: u32,
    /// The start of its longest occurrence.
    pub longest_at_ns: u64,
}

/// The record of a thread or another subject.
#[derive(Clone, Debug, Serialize)]
pub struct SubjectRecord<'a> {
    /// Its name.
    pub thread: &'a str,
    /// The id of its thread, if it has one.
    pub tid: Option<u32>,
    /// The kind of its jobs: `thread`, `upcall`, …
    pub kind: &'static str,
    /// What was taken to be a job of a thread that was watched, or why nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<String>,
    /// The verdict on its promise.
    pub verdict: String,
    /// The number of its completed jobs.
    pub complete: u64,
    /// The number of late ones.
    pub late: u64,
    /// The number of jobs that were not judged, because the kernel's records have holes.
    pub unjudged: u64,
    /// The time of which nothing is known for that reason.
    pub unseen_ns: u64,
    /// The largest tardiness.
    pub max_tardiness_ns: u64,
    /// The number of refused time constraints.
    pub refused: u64,
}

/// The last record of a trace file.
#[derive(Clone, Debug, Serialize)]
pub struct TraceEndRecord<'a> {
    /// The command that was traced.
    pub command: Option<&'a str>,
    /// Whether it ran on a host, not in virtual time.
    pub live: Option<bool>,
    /// The subjects.
    pub threads: Vec<SubjectRecord<'a>>,
    /// The number of events that the writer lost.
    pub events_lost: u64,
    /// Whether the file is complete at its end.
    pub has_end: bool,
    /// The number of damaged places.
    pub damaged_places: usize,
    /// The number of bytes that were skipped there.
    pub damaged_bytes: usize,
    /// The number of blocks that are missing.
    pub blocks_missing: u64,
    /// The number of events in the missing blocks, as far as the later blocks reveal it.
    pub events_missing: u64,
    /// The problems of the file, as sentences.
    pub notes: Vec<String>,
}

impl<'a> LateRecord<'a> {
    pub(super) fn of_subject(subject: Option<&'a Subject>, verdict: &Verdict) -> Self {
        let (thread, tid) = subject.map_or(("", None), |of| (of.name.as_str(), of.thread));
        Self::of(thread, tid, verdict)
    }

    /// Makes the record of a late job of the thread `thread`, whose id is `tid`.
    pub(crate) fn of(thread: &'a str, tid: Option<u32>, verdict: &Verdict) -> Self {
        let late = verdict.late;
        let cause = |share: &Share| CauseRecord {
            cause: share.cause.word(),
            text: match share.cause {
                Spent::Subject(number) if number == late.job.task => EARLIER.to_owned(),
                other => other.to_string(),
            },
            share_ns: share.share.as_nanos(),
            took_ns: Duration::as_nanos(share.took),
            times: share.times,
            longest_at_ns: share.longest_at.as_nanos(),
        };
        Self {
            late: JobRecord {
                thread,
                tid,
                job: late.job.index,
                release_ns: late.release.as_nanos(),
                absolute_deadline_ns: late.absolute_deadline.as_nanos(),
                end_ns: late.end.as_nanos(),
                tardiness_ns: late.tardiness().as_nanos(),
                own_ns: verdict.own.as_nanos(),
                system_ns: verdict.in_system_calls().as_nanos(),
            },
            causes: verdict.shares.iter().map(cause).collect(),
            by_kernel: None,
        }
    }
}

/// Returns the subject of a late job.
pub(super) fn named<'a>(
    subjects: &'a [(Subject, Judged)],
    verdict: &Verdict,
) -> Option<&'a Subject> {
    subjects.get(verdict.late.job.task as usize).map(|(subject, _)| subject)
}

pub(super) fn subject((subject, judged): &(Subject, Judged)) -> SubjectRecord<'_> {
    SubjectRecord {
        thread: &subject.name,
        tid: subject.thread,
        kind: subject.kind.name(),
        jobs: None,
        verdict: judged.verdict.to_string(),
        complete: judged.complete,
        late: judged.late,
        unjudged: judged.unjudged,
        unseen_ns: judged.unseen.as_nanos(),
        max_tardiness_ns: judged.max_tardiness.as_nanos(),
        refused: judged.refused,
    }
}
