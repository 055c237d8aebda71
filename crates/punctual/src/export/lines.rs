//! Writes JSON lines in the order of the file: `{"run": …}`, `{"subject": …}`, `{"event": …}`,
//! `{"asked": …}`, `{"late": …}`, `{"lost": …}`, `{"missing": …}`, `{"end": …}`.

use std::io::Write;
use std::path::Path;

use punctual_model::{Duration, Service};
use punctual_trace::cause::Verdict;
use punctual_trace::constraint::{Answer, ConstraintRequest};
use serde_json::{Value, json};

use crate::failure::ExportError;
use crate::trace::{self, Entry, State};

pub(super) fn export(path: &Path, out: &mut impl Write) -> Result<State, ExportError> {
    trace::read(path, |told| match told {
        Entry::Run(run) => line(
            out,
            &json!({ "run": {
                    "live": run.live, "epoch_unix_ns": run.epoch_unix_ns, "command": run.command,
                    "host": run.host, "contract": run.contract,
                } }),
        ),
        Entry::Subject(number, subject) => line(
            out,
            &json!({ "subject": {
                    "number": number,
                    "name": subject.name,
                    "kind": subject.kind.name(),
                    "period_ns": subject.promise.period.map(Duration::as_nanos),
                    "relative_deadline_ns": subject.promise.relative_deadline.map(Duration::as_nanos),
                    "wcet_ns": subject.promise.wcet.map(Service::as_nanos),
                    "thread": subject.thread,
                    "cpu": subject.cpu,
                } }),
        ),
        Entry::Events(events) => events.iter().try_for_each(|event| {
            line(
                out,
                &json!({ "event": {
                        "at_ns": event.at.as_nanos(),
                        "subject": event.job.task,
                        "job": event.job.index,
                        "release_ns": event.release.as_nanos(),
                        "kind": event.kind.word(),
                        "value": event.kind.value(),
                    } }),
            )
        }),
        Entry::ConstraintRequest(one) => line(out, &asked(&one)),
        Entry::Missing(gap) => line(
            out,
            &json!({ "missing": {
                    "blocks": gap.blocks, "events": gap.events, "subjects": gap.subjects,
                } }),
        ),
        Entry::Lost(events) => line(out, &json!({ "lost": { "events": events } })),
        Entry::Verdict(verdict) => line(out, &late(&verdict)),
        Entry::End(at) => line(out, &json!({ "end": { "at_ns": at.as_nanos() } })),
    })
}

fn asked(asked: &ConstraintRequest) -> Value {
    let largest = match asked.answer {
        Answer::Granted => None,
        Answer::Refused { largest_estimate } => Some(largest_estimate.as_nanos()),
    };
    json!({ "asked": {
        "at_ns": asked.at.as_nanos(),
        "subject": asked.job.task,
        "job": asked.job.index,
        "start_ns": asked.start.as_nanos(),
        "estimate_ns": asked.estimate.as_nanos(),
        "deadline_ns": asked.deadline.as_nanos(),
        "answer": asked.answer.word(),
        "largest_estimate_ns": largest,
    } })
}

fn late(verdict: &Verdict) -> Value {
    let late = verdict.late;
    let causes = verdict.shares.iter().map(|share| {
        json!({
            "cause": share.cause.word(),
            "text": share.cause.to_string(),
            "share_ns": share.share.as_nanos(),
            "took_ns": share.took.as_nanos(),
            "times": share.times,
            "longest_at_ns": share.longest_at.as_nanos(),
        })
    });
    json!({ "late": {
        "subject": late.job.task,
        "job": late.job.index,
        "release_ns": late.release.as_nanos(),
        "absolute_deadline_ns": late.absolute_deadline.as_nanos(),
        "end_ns": late.end.as_nanos(),
        "tardiness_ns": late.tardiness().as_nanos(),
        "own_ns": verdict.own.as_nanos(),
        "causes": causes.collect::<Vec<_>>(),
    } })
}

fn line(out: &mut impl Write, value: &Value) -> Result<(), ExportError> {
    // The values are plain, so only writing can fail.
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}
