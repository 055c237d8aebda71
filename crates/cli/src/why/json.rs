//! Renders the findings as lines of JSON.

use punctual_model::Duration;
use punctual_observe::{Ended, Session};
use punctual_trace::Subject;
use punctual_trace::cause::{Share, Verdict};
use punctual_trace::check::Judged;
use serde::Serialize;

use crate::exit::Failure;
use crate::output;
use punctual::why::OfTrace;

#[derive(Serialize)]
struct Late<'a> {
    late: Job<'a>,
    causes: Vec<Cause>,
    /// For a trace file: whether it contains the kernel's evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_kernel: Option<bool>,
}

/// Instants are nanoseconds of CLOCK_MONOTONIC.
#[derive(Serialize)]
struct Job<'a> {
    thread: &'a str,
    tid: Option<u32>,
    job: u64,
    release_ns: u64,
    absolute_deadline_ns: u64,
    end_ns: u64,
    tardiness_ns: u64,
    own_ns: u64,
}

#[derive(Serialize)]
struct Cause {
    cause: &'static str,
    text: String,
    share_ns: u64,
    took_ns: u64,
    times: u32,
    longest_at_ns: u64,
}

#[derive(Serialize)]
struct End<'a> {
    threads: Vec<Thread<'a>>,
    records: u64,
    records_lost: u64,
    not_told: &'a [&'static str],
}

#[derive(Serialize)]
struct Thread<'a> {
    thread: &'a str,
    tid: Option<u32>,
    /// The kind of its jobs: `thread`, `upcall`, …
    kind: &'static str,
    verdict: String,
    complete: u64,
    late: u64,
    max_tardiness_ns: u64,
    /// The number of refused time constraints.
    refused: u64,
}

/// Returns a line for each late job.
pub(super) fn late(session: &Session, verdicts: &[Verdict]) -> Result<String, Failure> {
    verdicts.iter().map(|verdict| line(&one(session, verdict))).collect()
}

/// Returns the last lines: the late jobs found at the end, and the summary of all threads.
pub(super) fn end(ended: &Ended) -> Result<String, Failure> {
    let named = |verdict: &Verdict| {
        let subject = ended.subjects.get(verdict.late.job.task as usize);
        let (thread, tid) = subject.map_or(("", None), |(of, _)| (of.name.as_str(), of.thread));
        line(&Late { late: job(thread, tid, verdict), causes: causes(verdict), by_kernel: None })
    };
    let late: String = ended.verdicts.iter().map(named).collect::<Result<_, _>>()?;
    let threads = ended.subjects.iter().map(thread);
    let counts = ended.counts;
    let end = line(&End {
        threads: threads.collect(),
        records: counts.written,
        records_lost: counts.lost,
        not_told: &ended.missing,
    })?;
    Ok(late + &end)
}

fn one<'a>(session: &'a Session, verdict: &Verdict) -> Late<'a> {
    let subject = session.subject(verdict.late.job.task);
    let (thread, tid) = subject.map_or(("", None), |of| (of.name.as_str(), of.thread));
    Late { late: job(thread, tid, verdict), causes: causes(verdict), by_kernel: None }
}

fn job<'a>(thread: &'a str, tid: Option<u32>, verdict: &Verdict) -> Job<'a> {
    let late = verdict.late;
    Job {
        thread,
        tid,
        job: late.job.index,
        release_ns: late.release.as_nanos(),
        absolute_deadline_ns: late.absolute_deadline.as_nanos(),
        end_ns: late.end.as_nanos(),
        tardiness_ns: late.tardiness().as_nanos(),
        own_ns: verdict.own.as_nanos(),
    }
}

fn causes(verdict: &Verdict) -> Vec<Cause> {
    let cause = |share: &Share| Cause {
        cause: share.cause.word(),
        text: share.cause.to_string(),
        share_ns: share.share.as_nanos(),
        took_ns: Duration::as_nanos(share.took),
        times: share.times,
        longest_at_ns: share.longest_at.as_nanos(),
    };
    verdict.shares.iter().map(cause).collect()
}

fn line(value: &impl Serialize) -> Result<String, Failure> {
    Ok(output::json_line(value)? + "\n")
}

#[derive(Serialize)]
struct EndOfFile<'a> {
    command: Option<&'a str>,
    live: Option<bool>,
    threads: Vec<Thread<'a>>,
    events_lost: u64,
    has_end: bool,
    damaged_places: usize,
    damaged_bytes: usize,
    blocks_missing: u64,
    /// The number of events in the missing blocks, as far as the later blocks reveal it.
    events_missing: u64,
    notes: Vec<String>,
}

/// Returns the lines of a trace file.
pub(super) fn of_trace(of: &OfTrace) -> Result<String, Failure> {
    let named = |verdict: &Verdict, by_kernel| {
        let subject = of.subjects.get(verdict.late.job.task as usize);
        let (thread, tid) = subject.map_or(("", None), |(of, _)| (of.name.as_str(), of.thread));
        let mut causes = causes(verdict);
        for (told, share) in causes.iter_mut().zip(&verdict.shares) {
            told.text = of.describe(&share.cause, verdict.late.job.task);
        }
        line(&Late { late: job(thread, tid, verdict), causes, by_kernel: Some(by_kernel) })
    };
    let by_kernel = of.by_kernel.iter().map(|verdict| named(verdict, true));
    let by_events = of.by_events.iter().map(|verdict| named(verdict, false));
    let late: String = by_kernel.chain(by_events).collect::<Result<_, _>>()?;
    let run = of.run.as_ref();
    let end = line(&EndOfFile {
        command: run.map(|run| run.command.as_str()),
        live: run.map(|run| run.live),
        threads: of.subjects.iter().map(thread).collect(),
        events_lost: of.state.events_lost,
        has_end: of.state.has_end,
        damaged_places: of.state.damages.len(),
        damaged_bytes: of.state.damaged_bytes,
        blocks_missing: of.state.blocks_missing,
        events_missing: of.state.events_missing,
        notes: of.state.lines(),
    })?;
    Ok(late + &end)
}

fn thread((subject, judged): &(Subject, Judged)) -> Thread<'_> {
    Thread {
        thread: &subject.name,
        tid: subject.thread,
        kind: subject.kind.name(),
        verdict: judged.verdict.to_string(),
        complete: judged.complete,
        late: judged.late,
        max_tardiness_ns: judged.max_tardiness.as_nanos(),
        refused: judged.refused,
    }
}
