//! Writes trace-event JSON, which the Perfetto viewer and Chrome open. Each CPU is a process, and
//! all subjects that are bound to no CPU share one. Each subject has two tracks: one for its jobs
//! (a slice for each stretch of execution, an instant for each deadline) and one for its releases.
//! A flow leads from each release over the stretches of the job to its completion. Late jobs are
//! separate slices that begin at the deadline and may overlap; their causes are slices within, as
//! long as their shares. The rest of a budget is a counter.
//!
//! The viewer's rules dictate the order of output. It sorts events by instant, keeps the order of
//! the file among equal ones, and attaches a flow to the slice that is open on its track at that
//! moment, so a flow is written after its slice. Flows have numbers, which are hexadecimal where
//! they are text.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::Verdict;
use punctual_trace::constraint::{Answer, ConstraintRequest};
use punctual_trace::file::Gap;
use punctual_trace::{Event, Kind, Promise, Subject};
use serde_json::{Value, json};

use crate::failure::ExportError;
use crate::trace::{self, Entry, State};
use crate::why::{OfTrace, of_trace};

pub(super) fn export(path: &Path, out: &mut impl Write) -> Result<State, ExportError> {
    // Reads the file twice: the causes of late jobs are known only at its end.
    let of = of_trace(path)?;
    let mut page = Page { out, first: true, subjects: Vec::new(), flows: 0 };
    page.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for verdict in of.by_kernel.iter().chain(&of.by_events) {
        page.late(verdict, &of)?;
    }
    let state = trace::read(path, |told| match told {
        Entry::Subject(number, subject) => page.subject(number, subject),
        Entry::Events(events) => events.iter().try_for_each(|event| page.event(event)),
        Entry::ConstraintRequest(request) => page.request(&request),
        Entry::Missing(Gap { subjects, .. }) => {
            page.missing(subjects > 0);
            Ok(())
        }
        Entry::Lost(_) => {
            page.missing(false);
            Ok(())
        }
        Entry::Run(_) | Entry::Verdict(_) | Entry::End(_) => Ok(()),
    })?;
    page.out.write_all(b"\n],\"otherData\":")?;
    let run = of.run.as_ref();
    let about = json!({
        "command": run.map(|run| &*run.command),
        "clock": run.map(|run| if run.live { "CLOCK_MONOTONIC" } else { "virtual" }),
        "events_lost": of.state.events_lost,
        "events_missing": of.state.events_missing,
        "is_whole": of.state.is_whole(),
    });
    serde_json::to_writer(&mut *page.out, &about).map_err(std::io::Error::from)?;
    page.out.write_all(b"}\n")?;
    Ok(state)
}

struct Page<'a, W> {
    out: &'a mut W,
    first: bool,
    subjects: Vec<Tracks>,
    /// The number of flows so far, which is the number of the next one.
    flows: u64,
}

/// The state of a subject while the file is read.
struct Tracks {
    subject: Subject,
    /// The start of the current stretch of its job.
    since: Option<Instant>,
    /// The job that has begun, and its flow.
    flow: Option<(JobId, u64)>,
    /// Unfinished jobs whose deadlines have been written.
    written: HashSet<JobId>,
    /// Unfinished jobs that have a deadline of their own.
    granted: HashMap<JobId, Instant>,
}

impl<W: Write> Page<'_, W> {
    fn subject(&mut self, number: u32, subject: Subject) -> Result<(), ExportError> {
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
                let (written, granted) = (HashSet::new(), HashMap::new());
                self.subjects.push(Tracks { subject, since: None, flow: None, written, granted });
            }
        }
        Ok(())
    }

    /// Forgets what jobs did across a gap, and the promises if some of them are missing.
    fn missing(&mut self, has_promises: bool) {
        for tracks in &mut self.subjects {
            (tracks.since, tracks.flow) = (None, None);
            if has_promises {
                tracks.subject.promise = Promise::default();
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), ExportError> {
        let Event { at, job, release, kind } = *event;
        // Every number was introduced before.
        let Some(tracks) = self.subjects.get_mut(job.task as usize) else { return Ok(()) };
        let (name, pid) = (tracks.subject.name.clone(), process(&tracks.subject));
        let tid = jobs(job.task);
        let deadline = tracks.subject.promise.relative_deadline;
        let deadline = deadline.map(|by| release.saturating_add(by));
        let deadline = tracks.granted.get(&job).copied().or(deadline);
        if let (Some(deadline), true) = (deadline, tracks.written.insert(job)) {
            self.write(&json!({
                "ph": "i", "s": "t", "name": "deadline", "cat": "deadline", "pid": pid, "tid": tid,
                "ts": micros(deadline), "args": { "job": job.index },
            }))?;
        }
        let Some(tracks) = self.subjects.get_mut(job.task as usize) else { return Ok(()) };
        let ends = match kind {
            Kind::Start | Kind::Resume => {
                tracks.since = Some(at);
                return Ok(());
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
            tracks.written.remove(&job);
            tracks.granted.remove(&job);
        }
        let Some(since) = tracks.since.take() else { return Ok(()) };
        let flow = tracks.flow.filter(|(of, _)| *of == job).map(|(_, flow)| flow);
        let id = flow.unwrap_or(self.flows);
        tracks.flow = (kind == Kind::GiveWay).then_some((job, id));
        self.write(&json!({
            "ph": "X", "name": name, "cat": "job", "pid": pid, "tid": tid, "ts": micros(since),
            "dur": at.saturating_since(since).as_nanos() as f64 / 1e3,
            "args": { "job": job.index, "release_ns": release.as_nanos(), "ends": ends },
        }))?;
        if flow.is_none() {
            self.flows += 1;
            self.release(event, id, pid)?;
        }
        let is_over = kind != Kind::GiveWay;
        let mut step = json!({
            "ph": if is_over { "f" } else { "t" }, "name": "job", "cat": "flow",
            "id": format!("{id:x}"), "pid": pid, "tid": tid, "ts": micros(since),
        });
        if is_over {
            step["bp"] = "e".into();
        }
        self.write(&step)
    }

    /// Writes a job's release and the start of its flow.
    fn release(&mut self, event: &Event, id: u64, pid: u32) -> Result<(), ExportError> {
        let Event { job, release, .. } = *event;
        let tid = releases(job.task);
        self.write(&json!({
            "ph": "X", "name": "release", "cat": "release", "pid": pid, "tid": tid,
            "ts": micros(release), "dur": 0.0, "args": { "job": job.index },
        }))?;
        self.write(&json!({
            "ph": "s", "name": "job", "cat": "flow", "id": format!("{id:x}"), "pid": pid, "tid": tid,
            "ts": micros(release),
        }))
    }

    /// Writes a time constraint as an instant at the time of the request.
    fn request(&mut self, request: &ConstraintRequest) -> Result<(), ExportError> {
        let Some(tracks) = self.subjects.get_mut(request.job.task as usize) else { return Ok(()) };
        let pid = process(&tracks.subject);
        if request.answer == Answer::Granted {
            tracks.granted.insert(request.job, request.deadline);
        }
        self.write(&json!({
            "ph": "i", "s": "t", "name": format!("asked: {}", request.answer.word()), "cat": "asked",
            "pid": pid, "tid": releases(request.job.task), "ts": micros(request.at),
            "args": {
                "job": request.job.index, "start_ns": request.start.as_nanos(),
                "estimate_ns": request.estimate.as_nanos(), "deadline_ns": request.deadline.as_nanos(),
            },
        }))
    }

    /// Writes a late job as an asynchronous slice, since it may overlap with the next of its
    /// subject. Its causes lie in it one after the other, because their shares add up to it.
    fn late(&mut self, verdict: &Verdict, of: &OfTrace) -> Result<(), ExportError> {
        let late = verdict.late;
        let subject = of.subjects.get(late.job.task as usize).map(|(subject, _)| subject);
        let main = verdict.main().map_or("unknown", |share| share.cause.word());
        let name = format!("{} late: {main}", subject.map_or("", |subject| &*subject.name));
        let shares = verdict.shares.iter().filter(|one| !one.share.is_zero());
        let args = json!({
            "job": late.job.index, "tardiness_us": late.tardiness().as_nanos() as f64 / 1e3,
        });
        let mut from = late.absolute_deadline;
        let mut all = vec![("b", name.clone(), from, args)];
        for one in shares {
            let text = of.describe(&one.cause, late.job.task);
            let args = json!({
                "cause": one.cause.word(), "share_us": one.share.as_nanos() as f64 / 1e3,
                "took_us": one.took.as_nanos() as f64 / 1e3, "times": one.times,
                "longest_at_us": micros(one.longest_at),
            });
            all.push(("b", text.clone(), from, args));
            from = from.saturating_add(one.share);
            all.push(("e", text, from, json!({})));
        }
        all.push(("e", name, late.end, json!({})));
        let id = format!("late {}.{}", late.job.task, late.job.index);
        let (pid, tid) = (subject.map_or(0, process), jobs(late.job.task));
        all.into_iter().try_for_each(|(ph, name, at, args)| {
            self.write(&json!({
                "ph": ph, "name": name, "cat": "late", "id": id, "pid": pid, "tid": tid,
                "ts": micros(at), "args": args,
            }))
        })
    }

    fn write(&mut self, event: &Value) -> Result<(), ExportError> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        Ok(serde_json::to_writer(&mut *self.out, event).map_err(std::io::Error::from)?)
    }
}

/// Returns the process number of a subject; 1 is for all that are bound to no CPU.
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
