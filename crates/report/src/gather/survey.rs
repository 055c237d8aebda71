//! Makes the first pass: finds the subjects of a trace, the verdict on each promise, and how long
//! everything took.

use std::io::Read;

use punctual_model::Instant;
use punctual_trace::cause::Verdict;
use punctual_trace::check::{Checker, Judged};
use punctual_trace::file::{Block, Run};
use punctual_trace::{Event, Kind, Sink};

use super::jobs::{Job, Jobs};
use super::late::{Evidence, LateJobs};
use super::losses::Losses;
use super::measured::Measured;
use super::subjects::Subjects;
use crate::ReadError;
use crate::blocks::{Blocks, Item};

/// The most lost events, or jobs that never began, that are passed to a checker at once.
pub(super) const MOST_LOST: u64 = 1 << 40;

/// Limits an event for a checker, which adds up the jobs that never began, so that no file makes
/// that sum overflow.
pub(super) fn clamped(event: Event) -> Event {
    let kind = match event.kind {
        Kind::Skip { jobs } => Kind::Skip { jobs: jobs.min(MOST_LOST) },
        kind => kind,
    };
    Event { kind, ..event }
}

/// The results of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) run: Option<Run>,
    pub(crate) subjects: Subjects,
    /// Indexed by the place of the subject, like `measured`.
    pub(crate) judged: Vec<Judged>,
    pub(crate) measured: Vec<Measured>,
    pub(crate) late: LateJobs,
    pub(crate) losses: Losses,
    pub(crate) events: u64,
    pub(crate) jobs: u64,
    /// The earliest and the latest instant of an event or of the end.
    pub(crate) first: Option<Instant>,
    pub(crate) last: Instant,
    /// The end of the run, if the trace has one.
    pub(crate) end: Option<Instant>,
}

impl Survey {
    /// Reads a whole file.
    pub(crate) fn of(file: impl Read) -> Result<Self, ReadError> {
        let mut survey = Self::default();
        let mut checker = Checker::new();
        let mut jobs = Jobs::default();
        let mut blocks = Blocks::new(file);
        loop {
            match blocks.next()? {
                Item::Block(block) => survey.block(block, &mut checker, &mut jobs),
                Item::Damage { at, damage, bytes } => {
                    survey.losses.damage(at, damage, bytes);
                }
                Item::Missing(gap) => {
                    survey.losses.missing(gap);
                    checker.missing(gap);
                    survey.lose(&mut jobs);
                }
                Item::End { bytes } => {
                    survey.losses.unfinished_bytes = bytes;
                    break;
                }
            }
        }
        let last = survey.last;
        for job in jobs.end(last) {
            survey.job(&job);
        }
        survey.judged = (0..survey.subjects.all().len() as u32).map(|n| checker.judge(n)).collect();
        Ok(survey)
    }

    fn block(&mut self, block: Block, checker: &mut Checker, jobs: &mut Jobs) {
        match block {
            Block::Run(run) => self.run = Some(run),
            Block::Subject(number, subject) => {
                let Some(place) = self.subjects.declare(number, subject.clone()) else {
                    return;
                };
                checker.subject(place, &subject);
                self.room();
            }
            Block::Events(events) => {
                for mut event in events {
                    self.events += 1;
                    self.seen(event.at);
                    let Some(place) = self.subjects.place(event.job.task) else {
                        self.losses.unlisted_events += 1;
                        continue;
                    };
                    event.job.task = place;
                    checker.record(clamped(event));
                    self.room();
                    self.measured[place as usize].event(&event);
                    for job in jobs.take(place, &event).into_iter().flatten() {
                        self.job(&job);
                    }
                }
                self.late(checker);
            }
            Block::ConstraintRequest(mut asked) => {
                self.seen(asked.at);
                let Some(place) = self.subjects.place(asked.job.task) else {
                    self.losses.unlisted_events += 1;
                    return;
                };
                asked.job.task = place;
                checker.asked(&asked);
                self.room();
                self.measured[place as usize].constraints.asked(&asked);
            }
            Block::Lost(lost) => {
                self.losses.lost(lost.at(), lost.events);
                checker.lost(lost.events.min(MOST_LOST));
                self.lose(jobs);
            }
            Block::Verdict(verdict) => {
                if let Some(place) = self.subjects.place(verdict.late.job.task) {
                    self.room();
                    let subjects = &self.subjects;
                    let name = |number| subjects.name_of(number);
                    self.late.explained(place, &verdict, Evidence::Kernel, name);
                }
            }
            Block::End(at) => {
                self.seen(at);
                self.end = Some(at);
                checker.end(at);
                self.late(checker);
            }
            Block::Unknown { kind, bytes } => self.losses.unknown(kind, bytes),
        }
    }

    fn seen(&mut self, at: Instant) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(at);
    }

    fn room(&mut self) {
        self.measured.resize_with(self.subjects.all().len(), Measured::default);
    }

    fn late(&mut self, checker: &mut Checker) {
        for late in checker.take_late() {
            self.late.found(late);
        }
    }

    fn lose(&mut self, jobs: &mut Jobs) {
        let lost: Vec<Job> = jobs.lose().collect();
        for job in &lost {
            self.job(job);
        }
    }

    fn job(&mut self, job: &Job) {
        self.jobs += 1;
        let wcet = self.subjects.all()[job.subject as usize].promise.wcet;
        self.measured[job.subject as usize].job(job, wcet);
    }

    /// Adds the causes of late jobs that were found from events alone. Subjects are given by their
    /// places.
    pub(crate) fn explain(&mut self, verdicts: &[Verdict]) {
        let subjects = self.subjects.all();
        for verdict in verdicts {
            let name =
                |place: u32| subjects.get(place as usize).map_or("?", |of| &of.name).to_owned();
            self.late.explained(verdict.late.job.task, verdict, Evidence::Events, name);
        }
    }

    /// Returns the time from the first event to the end in nanoseconds, at least one.
    pub(crate) fn span(&self) -> u64 {
        let first = self.first.unwrap_or(Instant::ZERO);
        self.last.saturating_since(first).as_nanos().max(1)
    }

    /// Returns the beginning of the drawing.
    pub(crate) fn from(&self) -> Instant {
        self.first.unwrap_or(Instant::ZERO)
    }
}
