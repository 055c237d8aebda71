//! Makes the second pass: finds how much of each column of the timeline each subject ran, where its
//! late jobs are, and which jobs are drawn one by one: all of a short trace, otherwise those at its
//! beginning and around the latest jobs.

use std::cmp::Reverse;
use std::io::Read;

use punctual_model::{Duration, Instant};
use punctual_trace::Sink;
use punctual_trace::cause::Verdict;
use punctual_trace::check::Checker;
use punctual_trace::file::Block;

use super::jobs::{Job, Jobs};
use super::late::EventsAlone;
use super::survey::{MOST_LOST, Survey, clamped};
use crate::blocks::ReadError;
use crate::blocks::{Blocks, Item};

/// The number of columns of the whole timeline.
pub(crate) const COLUMNS: usize = 1_000;
/// The number of subjects that have a lane. The others appear only in the tables.
const MOST_LANES: usize = 48;

/// The number of jobs up to which all are drawn one by one.
const MOST_JOBS: u64 = 8_000;
/// The number of windows, if not all jobs are drawn.
const MOST_WINDOWS: usize = 24;
/// The number of jobs of one window in that case.
const MOST_IN_ONE: usize = 400;
/// The number of stretches of all drawn jobs together.
const MOST_STRETCHES: usize = 20_000;

/// One subject in the timeline.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The place of the subject.
    pub(crate) subject: u32,
    /// The part of each column in which the subject ran, in percent.
    pub(crate) busy: Vec<u8>,
    /// The columns that contain absolute deadlines of late jobs, and their number.
    pub(crate) late: Vec<(u16, u32)>,
}

/// Everything that can be drawn.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// The lanes, in the order of the subjects.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) windows: Windows,
    /// The number of subjects that have jobs and no lane.
    pub(crate) without_lane: usize,
    pub(crate) from: Instant,
    /// The length of the timeline in nanoseconds.
    pub(crate) span: u64,
    /// The causes of late jobs for which the trace has none. Subjects are given by their places.
    pub(crate) verdicts: Vec<Verdict>,
}

/// A lane that is being computed.
struct Columns {
    subject: u32,
    /// The nanoseconds that it ran in each column that it did not fill.
    partly: Vec<u64>,
    /// The beginnings (+) and ends (−) of stretches that fill columns entirely.
    whole: Vec<i64>,
    late: Vec<u32>,
}

impl Drawn {
    /// Reads the surveyed file a second time.
    pub(crate) fn of(file: impl Read, survey: &Survey) -> Result<Self, ReadError> {
        let (from, span) = (survey.from(), survey.span());
        let scale = Scale { from, width: span.div_ceil(COLUMNS as u64) };
        let (mut lanes, without_lane) = lanes(survey);
        let places: Vec<Option<usize>> = (0..survey.subjects.all().len() as u32)
            .map(|place| lanes.iter().position(|lane| lane.subject == place))
            .collect();
        let mut windows = Windows::of(survey);
        let (mut jobs, mut checker) = (Jobs::default(), Checker::new());
        let mut seen = EventsAlone::about(&survey.late);
        let mut blocks = Blocks::new(file);
        let mut over = |job: &Job, lanes: &mut [Columns], seen: &mut EventsAlone| {
            seen.take(job);
            if let Some(lane) = places[job.subject as usize] {
                job.ran.iter().for_each(|&(from, to)| lanes[lane].ran(&scale, from, to));
                windows.take(job);
            }
        };
        loop {
            match blocks.next()? {
                Item::Block(Block::Subject(number, subject)) => {
                    if let Some(place) = survey.subjects.find(number) {
                        checker.subject(place, &subject);
                        seen.subject(place, &subject);
                    }
                }
                Item::Block(Block::Events(events)) => {
                    for mut event in events {
                        let Some(place) = survey.subjects.find(event.job.task) else {
                            continue;
                        };
                        event.job.task = place;
                        checker.record(clamped(event));
                        let ended = jobs.take(place, &event).into_iter().flatten();
                        ended.for_each(|job| over(&job, &mut lanes, &mut seen));
                    }
                }
                Item::Block(Block::ConstraintRequest(mut request)) => {
                    if let Some(place) = survey.subjects.find(request.job.task) {
                        request.job.task = place;
                        checker.request(&request);
                    }
                }
                Item::Block(Block::Lost(lost)) => {
                    checker.lost(lost.events.min(MOST_LOST));
                    jobs.lose().for_each(|job| over(&job, &mut lanes, &mut seen));
                }
                Item::Damage { .. } => {}
                Item::Missing(gap) => {
                    checker.missing(gap);
                    jobs.lose().for_each(|job| over(&job, &mut lanes, &mut seen));
                }
                Item::Block(Block::End(at)) => checker.end(at),
                Item::Block(Block::Run(_) | Block::Verdict(_) | Block::Unknown { .. }) => {}
                Item::End { .. } => break,
            }
            for late in checker.take_late() {
                if let Some(lane) = places[late.job.task as usize] {
                    lanes[lane].late[scale.column(late.absolute_deadline)] += 1;
                }
            }
        }
        jobs.end(survey.last).for_each(|job| over(&job, &mut lanes, &mut seen));
        let lanes = lanes.into_iter().map(|lane| lane.finished(&scale)).collect();
        let verdicts = seen.verdicts();
        Ok(Self { lanes, windows, without_lane, from, span, verdicts })
    }
}

/// Selects the subjects that get a lane: all, or those with the most late jobs, then those with the
/// most jobs.
fn lanes(survey: &Survey) -> (Vec<Columns>, usize) {
    let count = survey.subjects.all().len();
    let jobs = |place: usize| survey.measured[place].all();
    let mut places: Vec<usize> = (0..count).filter(|&place| jobs(place) > 0).collect();
    let without = places.len().saturating_sub(MOST_LANES);
    places.sort_by_key(|&place| (Reverse(survey.judged[place].late), Reverse(jobs(place)), place));
    places.truncate(MOST_LANES);
    places.sort_unstable();
    let columns = |place| Columns {
        // There are at most as many as there are subjects.
        subject: place as u32,
        partly: vec![0; COLUMNS],
        whole: vec![0; COLUMNS + 1],
        late: vec![0; COLUMNS],
    };
    (places.into_iter().map(columns).collect(), without)
}

/// Maps instants to columns.
struct Scale {
    from: Instant,
    /// The width of a column in nanoseconds.
    width: u64,
}

impl Scale {
    fn since(&self, at: Instant) -> u64 {
        let all = self.width.saturating_mul(COLUMNS as u64);
        at.saturating_since(self.from).as_nanos().min(all.saturating_sub(1))
    }

    fn column(&self, at: Instant) -> usize {
        // The result is below `COLUMNS`.
        (self.since(at) / self.width) as usize
    }
}

impl Columns {
    fn ran(&mut self, scale: &Scale, from: Instant, to: Instant) {
        let (first, last) = (scale.column(from), scale.column(to));
        let (from, to) = (scale.since(from), scale.since(to));
        if first == last {
            self.partly[first] = self.partly[first].saturating_add(to.saturating_sub(from));
            return;
        }
        let end = (first as u64 + 1).saturating_mul(scale.width);
        self.partly[first] = self.partly[first].saturating_add(end - from);
        self.partly[last] = self.partly[last].saturating_add(to - last as u64 * scale.width);
        self.whole[first + 1] += 1;
        self.whole[last] -= 1;
    }

    fn finished(self, scale: &Scale) -> Lane {
        let mut running = 0;
        let busy = self.partly.iter().zip(&self.whole).map(|(&partly, &whole)| {
            running += whole;
            let percent = u128::from(partly) * 100 / u128::from(scale.width);
            // Any time at all must be visible.
            let percent = percent.max(u128::from(partly > 0));
            if running > 0 { 100 } else { percent.min(100) as u8 }
        });
        let busy = busy.collect();
        let late = self.late.iter().enumerate().filter(|(_, late)| **late > 0);
        let late = late.map(|(column, &late)| (column as u16, late)).collect();
        Lane { subject: self.subject, busy, late }
    }
}

/// A time in which every job is drawn.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// The jobs that overlap it, in the order in which they ended.
    pub(crate) jobs: Vec<Job>,
    most: usize,
    is_full: bool,
}

/// All windows, in the order of their beginnings, without overlaps.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) all: Vec<Window>,
    /// True if every job of the trace is drawn.
    pub(crate) is_whole: bool,
    stretches: usize,
}

impl Windows {
    fn of(survey: &Survey) -> Self {
        let window = |from, to, most| Window { from, to, jobs: Vec::new(), most, is_full: false };
        let is_whole = survey.jobs <= MOST_JOBS;
        if is_whole {
            let all = vec![window(Instant::ZERO, Instant::MAX, MOST_JOBS as usize + 1)];
            return Self { all, is_whole, stretches: MOST_STRETCHES };
        }
        // The average time of a hundred jobs.
        let hundred = u128::from(survey.span()) * 100 / u128::from(survey.jobs);
        let hundred = Duration::from_nanos(u64::try_from(hundred).unwrap_or(u64::MAX).max(1));
        let mut ranges = vec![(survey.from(), survey.from().saturating_add(hundred * 3))];
        for late in survey.late.latest() {
            if ranges.len() == MOST_WINDOWS {
                break;
            }
            let margin = Duration::from_nanos(hundred.as_nanos() / 2);
            let from = late.release.as_nanos().saturating_sub(margin.as_nanos());
            let range = (Instant::from_nanos(from), late.end.saturating_add(margin));
            if ranges.iter().all(|other| range.0 > other.1 || range.1 < other.0) {
                ranges.push(range);
            }
        }
        ranges.sort();
        let all = ranges.into_iter().map(|(from, to)| window(from, to, MOST_IN_ONE)).collect();
        Self { all, is_whole, stretches: MOST_STRETCHES }
    }

    /// Adds a job to each window that it overlaps.
    fn take(&mut self, job: &Job) {
        for window in &mut self.all {
            if window.is_full || job.end < window.from || job.release > window.to {
                continue;
            }
            let mut job = job.clone();
            if job.ran.len() > self.stretches {
                job.ran = job
                    .ran
                    .first()
                    .zip(job.ran.last())
                    .map(|(a, b)| (a.0, b.1))
                    .into_iter()
                    .collect();
            }
            self.stretches = self.stretches.saturating_sub(job.ran.len());
            // The first job that does not fit ends the window.
            if window.jobs.len() >= window.most {
                window.is_full = true;
                window.to = job.release.min(window.to).max(window.from);
            } else {
                window.jobs.push(job);
            }
        }
    }

    /// Returns the number of drawn jobs.
    pub(crate) fn jobs(&self) -> usize {
        self.all.iter().map(|window| window.jobs.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_as_much_as_a_sum_over_every_nanosecond() {
        let scale = Scale { from: Instant::from_nanos(100), width: 7 };
        let stretches = [(100, 103), (104, 160), (200, 200), (203, 209), (6_000, 7_200)];
        let (partly, whole) = (vec![0; COLUMNS], vec![0; COLUMNS + 1]);
        let mut columns = Columns { subject: 0, partly, whole, late: vec![0; COLUMNS] };
        let mut slow = vec![0u64; COLUMNS];
        for (from, to) in stretches {
            columns.ran(&scale, Instant::from_nanos(from), Instant::from_nanos(to));
            // The last column ends one nanosecond early.
            for nanos in from..to.min(100 + 7 * COLUMNS as u64 - 1) {
                slow[((nanos - 100) / 7) as usize] += 1;
            }
        }
        let lane = columns.finished(&scale);
        for (column, (busy, slow)) in lane.busy.iter().zip(slow).enumerate() {
            let percent = if slow == 7 { 100 } else { (slow * 100 / 7) as u8 };
            assert_eq!(*busy, percent.max(u8::from(slow > 0)), "column {column}");
        }
    }
}
