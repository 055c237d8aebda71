//! `punctual why TRACE`: was each promise kept, and why were jobs late, from a file.

use std::collections::BTreeSet;
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{FromEvents, Verdict, judge};
use punctual_trace::check::{Checker, Judged};
use punctual_trace::file::Run;
use punctual_trace::{Sink, Subject};

use super::{Args, json, text};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::trace_read::{self, State, Told};

/// What a file amounts to.
pub(crate) struct OfTrace {
    pub(crate) run: Option<Run>,
    pub(crate) subjects: Vec<(Subject, Judged)>,
    /// Of the late jobs, those that the kernel's evidence explains, and the others.
    pub(crate) by_kernel: Vec<Verdict>,
    pub(crate) by_events: Vec<Verdict>,
    pub(crate) state: State,
    pub(crate) begun: Instant,
}

pub(super) fn main(args: &Args, path: &Path) -> Outcome {
    let of = gather(path)?;
    output::print(&if args.json { json::of_trace(&of) } else { text::of_trace(args.worst, &of) })?;
    Ok(match super::exit(of.subjects.iter().map(|(_, judged)| judged.verdict)) {
        // What is missing may be a promise, or a job.
        Exit::Kept if !of.state.is_whole() => Exit::NotJudgeable,
        exit => exit,
    })
}

/// Reads it to its end.
pub(crate) fn gather(path: &Path) -> Result<OfTrace, Failure> {
    let (mut checker, mut seen) = (Checker::new(), FromEvents::new());
    let (mut run, mut subjects, mut by_kernel) = (None, Vec::<Subject>::new(), Vec::new());
    let mut first = None::<Instant>;
    let state = trace_read::read(path, |told| {
        match told {
            Told::Run(of) => run = Some(of),
            Told::Subject(number, subject) => {
                checker.subject(number, &subject);
                seen.subject(number, &subject);
                match subjects.get_mut(number as usize) {
                    Some(known) => *known = subject,
                    None => subjects.push(subject),
                }
            }
            Told::Events(events) => {
                for event in events {
                    let began = event.at.min(event.release);
                    first = Some(first.map_or(began, |first| first.min(began)));
                    checker.record(event);
                    seen.record(event);
                }
            }
            Told::Asked(asked) => checker.asked(&asked),
            Told::Lost(events) => {
                checker.lost(events);
                seen.lost();
            }
            Told::Missing(gap) => {
                checker.missing(gap);
                seen.lost();
            }
            Told::Verdict(verdict) => by_kernel.push(verdict),
            Told::End(at) => checker.end(at),
        }
        Ok(())
    })?;
    let explained: BTreeSet<JobId> = by_kernel.iter().map(|one| one.late.job).collect();
    let late = checker.take_late().into_iter().filter(|late| !explained.contains(&late.job));
    let by_events = late.map(|late| {
        let stretches = seen.stretches(late.job, late.release, late.end);
        judge(late, &stretches, |_| false)
    });
    let by_events = by_events.collect();
    let judged = (0..).map(|number| checker.judge(number));
    let subjects = subjects.into_iter().zip(judged).collect();
    let begun = first.unwrap_or(Instant::ZERO);
    Ok(OfTrace { run, subjects, by_kernel, by_events, state, begun })
}
