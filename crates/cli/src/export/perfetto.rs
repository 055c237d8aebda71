//! Trace-event JSON, which the Perfetto viewer and Chrome open. A process is a CPU, or all of those that
//! are bound to none. Each subject has two tracks: its jobs (a slice for each stretch that one ran, an
//! instant for each deadline) and its releases, from which a flow leads to where the job starts. Late
//! jobs are slices of their own from the deadline on, which may overlap, with their causes; what is left
//! of a budget is a counter.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::Verdict;
use punctual_trace::{Event, Kind, Subject};
use serde_json::{Value, json};

use super::Stopped;
use crate::trace_read::{self, State, Told};
use crate::why::of_trace::{OfTrace, gather};
use crate::why::text::of_job;

pub(super) fn export(path: &Path, out: &mut impl Write) -> Result<State, Stopped> {
    // Twice over the file: what late jobs are late for is known at its end.
    let of = gather(path)?;
    let mut page = Page { out, first: true, subjects: Vec::new() };
    page.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for verdict in of.by_kernel.iter().chain(&of.by_events) {
        page.late(verdict, &of)?;
    }
    let state = trace_read::read(path, |told| match told {
        Told::Subject(number, subject) => page.subject(number, subject),
        Told::Events(events) => events.iter().try_for_each(|event| page.event(event)),
        Told::Run(_) | Told::Lost(_) | Told::Verdict(_) | Told::End(_) => Ok(()),
    })?;
    page.out.write_all(b"\n],\"otherData\":")?;
    let run = of.run.as_ref();
    let about = json!({
        "command": run.map(|run| &*run.command),
        "clock": run.map(|run| if run.live { "CLOCK_MONOTONIC" } else { "virtual" }),
        "events_lost": of.lost,
    });
    serde_json::to_writer(&mut *page.out, &about).map_err(std::io::Error::from)?;
    page.out.write_all(b"}\n")?;
    Ok(state)
}

struct Page<'a, W> {
    out: &'a mut W,
    first: bool,
    subjects: Vec<Tracks>,
}

/// What is known of a subject.
struct Tracks {
    subject: Subject,
    /// Since when its job runs.
    since: Option<Instant>,
    /// The jobs whose deadlines were told: those that are not over.
    told: HashSet<JobId>,
}

impl<W: Write> Page<'_, W> {
    fn subject(&mut self, number: u32, subject: Subject) -> Result<(), Stopped> {
        let pid = process(&subject);
        let process = match subject.cpu {
            Some(cpu) => format!("CPU {cpu}"),
            None => "any CPU".to_owned(),
        };
        self.write(&json!({
            "ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": { "name": process },
        }))?;
        let name = &subject.name;
        for (tid, what) in
            [(jobs(number), name.clone()), (releases(number), format!("{name}: releases"))]
        {
            self.write(&json!({
                "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": what },
            }))?;
        }
        match self.subjects.get_mut(number as usize) {
            Some(known) => known.subject = subject,
            None => {
                self.subjects.push(Tracks { subject, since: None, told: HashSet::new() });
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Stopped> {
        let Event { at, job, release, kind } = *event;
        // Every number was told of before.
        let Some(tracks) = self.subjects.get_mut(job.task as usize) else { return Ok(()) };
        let (name, pid) = (tracks.subject.name.clone(), process(&tracks.subject));
        let tid = jobs(job.task);
        let deadline = tracks.subject.promise.relative_deadline;
        let deadline = deadline.map(|by| release.saturating_add(by));
        if let (Some(deadline), true) = (deadline, tracks.told.insert(job)) {
            self.write(&json!({
                "ph": "i", "s": "t", "name": "deadline", "cat": "deadline", "pid": pid, "tid": tid,
                "ts": micros(deadline), "args": { "job": job.index },
            }))?;
        }
        let Some(tracks) = self.subjects.get_mut(job.task as usize) else { return Ok(()) };
        let ends = match kind {
            Kind::Start | Kind::Resume => {
                tracks.since = Some(at);
                return if kind == Kind::Start { self.flow(event, pid) } else { Ok(()) };
            }
            Kind::Replenish { budget: left } | Kind::Throttle { left } => {
                return self.write(&json!({
                    "ph": "C", "name": format!("{name}: budget"), "pid": pid, "ts": micros(at),
                    "args": { "left_us": left.as_nanos() as f64 / 1e3 },
                }));
            }
            Kind::Overrun { .. } | Kind::Skip { .. } | Kind::Unthrottle => return Ok(()),
            Kind::GiveWay | Kind::Complete | Kind::Abort | Kind::Contained => kind.word(),
        };
        if kind != Kind::GiveWay {
            tracks.told.remove(&job);
        }
        let Some(since) = tracks.since.take() else { return Ok(()) };
        self.write(&json!({
            "ph": "X", "name": name, "cat": "job", "pid": pid, "tid": tid, "ts": micros(since),
            "dur": at.saturating_since(since).as_nanos() as f64 / 1e3,
            "args": { "job": job.index, "release_ns": release.as_nanos(), "ends": ends },
        }))
    }

    /// From a job's release to its start.
    fn flow(&mut self, event: &Event, pid: u32) -> Result<(), Stopped> {
        let Event { at, job, release, .. } = *event;
        let id = format!("{}.{}", job.task, job.index);
        let tid = releases(job.task);
        self.write(&json!({
            "ph": "X", "name": "release", "cat": "release", "pid": pid, "tid": tid,
            "ts": micros(release), "dur": 0.0, "args": { "job": job.index },
        }))?;
        self.write(&json!({
            "ph": "s", "name": "release", "cat": "release", "id": id, "pid": pid, "tid": tid,
            "ts": micros(release),
        }))?;
        self.write(&json!({
            "ph": "f", "bp": "e", "name": "release", "cat": "release", "id": id, "pid": pid,
            "tid": jobs(job.task), "ts": micros(at),
        }))
    }

    /// May overlap with the next of its subject: asynchronous.
    fn late(&mut self, verdict: &Verdict, of: &OfTrace) -> Result<(), Stopped> {
        let late = verdict.late;
        let subject = of.subjects.get(late.job.task as usize).map(|(subject, _)| subject);
        let name = subject.map_or("", |subject| &*subject.name);
        let causes = verdict.shares.iter().filter(|one| !one.share.is_zero());
        let causes: Vec<Value> = causes
            .map(|one| {
                json!({
                    "cause": one.cause.word(), "text": of_job(&one.cause, late.job.task, &of.subjects),
                    "share_us": one.share.as_nanos() as f64 / 1e3,
                })
            })
            .collect();
        let main = causes.first().map_or("unknown", |first| first["cause"].as_str().unwrap_or(""));
        let name = format!("{name} late: {main}");
        let id = format!("late {}.{}", late.job.task, late.job.index);
        let pid = subject.map_or(0, process);
        for (ph, at) in [("b", late.absolute_deadline), ("e", late.end)] {
            let mut event = json!({
                "ph": ph, "name": name, "cat": "late", "id": id, "pid": pid,
                "tid": jobs(late.job.task), "ts": micros(at),
            });
            if ph == "b" {
                event["args"] = json!({
                    "job": late.job.index,
                    "tardiness_us": late.tardiness().as_nanos() as f64 / 1e3,
                    "causes": causes,
                });
            }
            self.write(&event)?;
        }
        Ok(())
    }

    fn write(&mut self, event: &Value) -> Result<(), Stopped> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        Ok(serde_json::to_writer(&mut *self.out, event).map_err(std::io::Error::from)?)
    }
}

/// 1 is all that are bound to no CPU.
fn process(subject: &Subject) -> u32 {
    subject.cpu.map_or(1, |cpu| u32::from(cpu) + 2)
}

fn jobs(number: u32) -> u64 {
    u64::from(number) * 2 + 1
}

fn releases(number: u32) -> u64 {
    u64::from(number) * 2 + 2
}

fn micros(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e3
}
