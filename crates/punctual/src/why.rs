//! Explains why jobs were late, for a program or process that is watched or from a trace file.

mod records;
#[cfg(feature = "kernel")]
mod watching;

use std::collections::BTreeSet;
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{FromEvents, Spent, judge};
use punctual_trace::check::{self, Checker, Unjudgeable};
use punctual_trace::file::Run;
use punctual_trace::{Sink, Subject};

pub use punctual_trace::cause::Verdict;
pub use punctual_trace::check::Judged;
pub use records::{CauseRecord, JobRecord, LateRecord, SubjectRecord, TraceEndRecord};
use records::{EARLIER, named, subject};
#[cfg(feature = "kernel")]
pub use {
    punctual_observe::{Ended, Judging},
    watching::{
        EndRecord, Options, ReleaseRecord, ReleasesRecord, late_at_end, releases_at_end, verdict,
        watch,
    },
};

use crate::Failure;
use crate::trace::{self, Entry, State};

/// The promises and the late jobs in a trace file.
#[derive(Clone, Debug)]
pub struct OfTrace {
    /// The run that the file is of; `None` if the file does not say.
    pub run: Option<Run>,
    /// The subjects of the file, and how they were judged.
    pub subjects: Vec<(Subject, Judged)>,
    /// The causes of late jobs that rest on the kernel's evidence.
    pub by_kernel: Vec<Verdict>,
    /// The causes of the other late jobs, which rest on the trace's own events.
    pub by_events: Vec<Verdict>,
    /// Whether the file is complete.
    pub state: State,
    /// The time at which its first job began.
    pub begun: Instant,
}

impl OfTrace {
    /// Returns the verdict on all promises of the file together. Promises that were kept are not
    /// judgeable if the file is incomplete: the missing part may contain a promise or a job.
    pub fn verdict(&self) -> check::Verdict {
        let State { events_lost, events_missing, .. } = &self.state;
        match check::Verdict::of_all(self.subjects.iter().map(|(_, judged)| judged.verdict)) {
            check::Verdict::Kept if !self.state.has_end => {
                check::Verdict::NotJudgeable(Unjudgeable::NoEnd)
            }
            check::Verdict::Kept if !self.state.is_whole() => {
                let events = events_lost.saturating_add(*events_missing);
                check::Verdict::NotJudgeable(Unjudgeable::Lost { events })
            }
            verdict => verdict,
        }
    }

    /// Describes a cause of the lateness of a job of subject `number`, with the names of the trace.
    pub fn describe(&self, cause: &Spent, number: u32) -> String {
        describe(cause, Some(number), &self.subjects)
    }

    /// Returns the records of all late jobs, those with the kernel's evidence first.
    pub fn late_records(&self) -> impl Iterator<Item = LateRecord<'_>> {
        let record = |verdict: &Verdict, by_kernel| {
            let number = verdict.late.job.task;
            let mut late = LateRecord::of_subject(named(&self.subjects, verdict), verdict);
            for (cause, share) in late.causes.iter_mut().zip(&verdict.shares) {
                cause.text = self.describe(&share.cause, number);
            }
            LateRecord { by_kernel: Some(by_kernel), ..late }
        };
        let by_kernel = self.by_kernel.iter().map(move |verdict| record(verdict, true));
        by_kernel.chain(self.by_events.iter().map(move |verdict| record(verdict, false)))
    }

    /// Returns the last record.
    pub fn end_record(&self) -> TraceEndRecord<'_> {
        let run = self.run.as_ref();
        TraceEndRecord {
            command: run.map(|run| run.command.as_str()),
            live: run.map(|run| run.live),
            threads: self.subjects.iter().map(subject).collect(),
            events_lost: self.state.events_lost,
            has_end: self.state.has_end,
            damaged_places: self.state.damages.len(),
            damaged_bytes: self.state.damaged_bytes,
            blocks_missing: self.state.blocks_missing,
            events_missing: self.state.events_missing,
            notes: self.state.lines(),
        }
    }
}

/// Describes a cause of the lateness of a job of subject `number`, or of jobs of several subjects
/// (`None`), with the names of `subjects`.
pub fn describe(cause: &Spent, number: Option<u32>, subjects: &[(Subject, Judged)]) -> String {
    let other = match cause {
        Spent::Subject(other) if Some(*other) == number => {
            return EARLIER.to_owned();
        }
        Spent::Subject(other) => subjects.get(*other as usize),
        _ => None,
    };
    other.map_or_else(|| cause.to_string(), |(of, _)| format!("{} ran instead", of.name))
}

/// Reads a trace file to its end. Says for each subject whether its promise was kept, and why jobs
/// were late.
///
/// # Errors
/// If the file cannot be read, or is no trace.
pub fn of_trace(path: &Path) -> Result<OfTrace, Failure> {
    let (mut checker, mut seen) = (Checker::new(), FromEvents::new());
    let (mut run, mut subjects, mut by_kernel) = (None, Vec::<Subject>::new(), Vec::new());
    let mut first = None::<Instant>;
    let state = trace::read(path, |entry| {
        match entry {
            Entry::Run(of) => run = Some(of),
            Entry::Subject(number, subject) => {
                checker.subject(number, &subject);
                seen.subject(number, &subject);
                match subjects.get_mut(number as usize) {
                    Some(known) => *known = subject,
                    None => subjects.push(subject),
                }
            }
            Entry::Events(events) => {
                for event in events {
                    let began = event.at.min(event.release);
                    first = Some(first.map_or(began, |first| first.min(began)));
                    checker.record(event);
                    seen.record(event);
                }
            }
            Entry::ConstraintRequest(request) => checker.request(&request),
            Entry::Lost(events) => {
                checker.lost(events);
                seen.lost();
            }
            Entry::Missing(gap) => {
                checker.missing(gap);
                seen.lost();
            }
            Entry::Verdict(verdict) => by_kernel.push(verdict),
            Entry::End(at) => checker.end(at),
        }
        Ok::<_, Failure>(())
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
