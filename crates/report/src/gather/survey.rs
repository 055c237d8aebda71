//! Makes the first pass: finds the subjects of a trace, what is missing in it, the verdict on each
//! promise, and how long everything took.
//!
//! Numbers of subjects in a file are arbitrary; their places here are consecutive and bounded.

use std::collections::BTreeMap;
use std::io::Read;

use punctual_model::Instant;
use punctual_trace::cause::Verdict;
use punctual_trace::check::{Checker, Judged};
use punctual_trace::file::{Block, Damage, Gap, Run};
use punctual_trace::{Event, Kind, Sink, Subject, SubjectKind};

use super::jobs::{Job, Jobs};
use super::late::{Evidence, LateJobs};
use super::measured::Measured;
use crate::blocks::ReadError;
use crate::blocks::{Blocks, Item};

/// The most lost events, or jobs that never began, that are passed to a checker at once.
pub(super) const MOST_LOST: u64 = 1 << 40;

/// The number of subjects that are reported. Each needs histograms.
const MOST_SUBJECTS: usize = 1024;

/// The number of losses and damages that are listed. Further ones are only counted.
const MOST: usize = 200;

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
    first: Option<Instant>,
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
            Block::ConstraintRequest(mut request) => {
                self.seen(request.at);
                let Some(place) = self.subjects.place(request.job.task) else {
                    self.losses.unlisted_events += 1;
                    return;
                };
                request.job.task = place;
                checker.request(&request);
                self.room();
                self.measured[place as usize].constraints.request(&request);
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

/// The subjects in the order in which the file names them.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    places: BTreeMap<u32, u32>,
    all: Vec<Subject>,
}

impl Subjects {
    /// Declares that this number is `subject` from here on. Returns its place, unless there are too
    /// many.
    fn declare(&mut self, number: u32, subject: Subject) -> Option<u32> {
        let place = self.place(number)?;
        self.all[place as usize] = subject;
        Some(place)
    }

    /// Returns the place of this number, and adds one if it is new.
    fn place(&mut self, number: u32) -> Option<u32> {
        if let Some(&place) = self.places.get(&number) {
            return Some(place);
        }
        if self.all.len() >= MOST_SUBJECTS {
            return None;
        }
        // The place is less than `MOST_SUBJECTS`.
        let place = self.all.len() as u32;
        self.places.insert(number, place);
        self.all.push(Subject::new(format!("subject {number}"), SubjectKind::Task));
        Some(place)
    }

    /// Returns the place of this number, if it has one.
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        self.places.get(&number).copied()
    }

    /// Returns the name of the subject with this number in the file.
    fn name_of(&self, number: u32) -> String {
        let subject = self.find(number).and_then(|place| self.all.get(place as usize));
        subject.map_or_else(|| format!("subject {number}"), |of| of.name.clone())
    }

    pub(crate) fn all(&self) -> &[Subject] {
        &self.all
    }
}

/// The missing parts of a trace.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The instants at which losses were noticed, and the numbers of lost events.
    pub(crate) lost: Vec<(Instant, u64)>,
    /// The number of all lost events.
    pub(crate) events: u64,
    /// The number of blocks that report losses.
    times: u64,
    /// The offset of each damage, its kind, and the number of bytes it cost.
    pub(crate) damaged: Vec<(u64, Damage, u64)>,
    /// The number of all damages.
    pub(crate) damages: u64,
    /// The number of all damaged bytes.
    pub(crate) damaged_bytes: u64,
    /// The numbers of missing blocks, as far as later blocks tell, and of events in them.
    pub(crate) missing_blocks: u64,
    pub(crate) missing_events: u64,
    /// For each unknown kind of block, the number of blocks and of bytes.
    unknown: BTreeMap<u8, (u64, u64)>,
    /// The bytes of an incomplete block at the end of the file.
    unfinished_bytes: u64,
    /// The number of events of subjects beyond the limit.
    unlisted_events: u64,
}

impl Losses {
    fn lost(&mut self, at: Instant, events: u64) {
        self.events = self.events.saturating_add(events);
        self.times += 1;
        if self.lost.len() < MOST {
            self.lost.push((at, events));
        }
    }

    fn damage(&mut self, at: u64, damage: Damage, bytes: u64) {
        self.damages += 1;
        self.damaged_bytes += bytes;
        if self.damaged.len() < MOST {
            self.damaged.push((at, damage, bytes));
        }
    }

    fn missing(&mut self, gap: Gap) {
        self.missing_blocks += u64::from(gap.blocks);
        self.missing_events += u64::from(gap.events);
    }

    /// Returns whether anything is missing that was written, or should have been.
    pub(crate) fn exist(&self) -> bool {
        self.events > 0 || self.damages > 0 || self.missing_blocks > 0
    }

    fn unknown(&mut self, kind: u8, bytes: usize) {
        let (blocks, all) = self.unknown.entry(kind).or_default();
        *blocks += 1;
        *all += bytes as u64;
    }

    /// Returns a sentence for each kind of loss, or none if the file is whole as far as it goes.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.damages > 0 {
            let (at, damage, _) = self.damaged[0];
            said.push(format!(
                "The file is damaged in {}: {} bytes could not be read. The first is at byte {at}: {damage}.",
                counted(self.damages, "place"),
                self.damaged_bytes
            ));
        }
        if self.missing_blocks > 0 {
            said.push(format!(
                "{} missing, with {}.",
                counted(self.missing_blocks, "block"),
                counted(self.missing_events, "event")
            ));
        }
        if self.unfinished_bytes > 0 {
            said.push(format!(
                "The file ends in the middle of a block, of which {} are there: its writer died, still \
                 writes, or the file was cut short.",
                counted(self.unfinished_bytes, "byte")
            ));
        }
        if self.events > 0 {
            said.push(format!(
                "{} lost before they could be written, noticed {}.",
                if self.events == 1 {
                    "One event was".into()
                } else {
                    format!("{} events were", self.events)
                },
                if self.times == 1 { "once".into() } else { format!("{} times", self.times) }
            ));
        }
        for (kind, (blocks, bytes)) in &self.unknown {
            said.push(format!(
                "{} of kind {kind}, {bytes} bytes, were written by a later version and are not shown.",
                counted(*blocks, "block")
            ));
        }
        if self.unlisted_events > 0 {
            said.push(format!(
                "{} of subjects beyond the first {} are not shown.",
                counted(self.unlisted_events, "event"),
                MOST_SUBJECTS
            ));
        }
        said
    }
}

/// Formats a count with its noun: `1 byte`, `2 bytes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
