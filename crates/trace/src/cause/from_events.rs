//! Determines where a job's time went from the events of a trace alone, without the kernel's
//! records.
//!
//! A subject runs from its start or resumption until it gives way or its job ends. A subject that
//! ran on the CPU of a late job while that job did not run is a cause; so is an earlier job of the
//! same subject. All else is unknown: an interrupt, a thread that is no subject of the trace, or
//! sleep. (The job of an observed thread is recorded only by its beginning and end, so the extent
//! of its own work is unknown too.)

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use punctual_model::{Instant, JobId};

use super::spent::Spent;
use crate::cause::Stretch;
use crate::event::{Event, Kind, Sink, Subject, SubjectKind};

/// Takes the events of a trace, in the order of their instants for each subject, and remembers when
/// each job ran: 24 bytes for each stretch.
///
/// ```
/// use punctual_model::{Instant, JobId};
/// use punctual_trace::cause::{FromEvents, Spent};
/// use punctual_trace::{Event, Kind, Sink, Subject, SubjectKind};
///
/// let mut seen = FromEvents::new();
/// let at = Instant::from_nanos;
/// for (task, start, end) in [(0, 0, 7), (1, 7, 9)] {
///     seen.subject(task, &Subject::new("a", SubjectKind::Task));
///     let (job, release) = (JobId { task, index: 0 }, at(0));
///     seen.record(Event { at: at(start), job, release, kind: Kind::Start });
///     seen.record(Event { at: at(end), job, release, kind: Kind::Complete });
/// }
/// let job = JobId { task: 1, index: 0 };
/// let spent: Vec<Spent> = seen.stretches(job, at(0), at(9)).iter().map(|one| one.spent).collect();
/// assert_eq!(spent, [Spent::Subject(0), Spent::Own]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FromEvents {
    of: BTreeMap<u32, Runs>,
}

/// The times at which a subject ran.
#[derive(Clone, Debug, Default)]
struct Runs {
    cpu: Option<u16>,
    /// Its jobs begin and end with sleeps, and need not run all the time in between.
    is_coarse: bool,
    /// The running job, and since when it runs.
    since: Option<(u64, Instant)>,
    /// The index of the job and the half-open time of each stretch, in order and disjoint.
    stretches: Vec<(u64, Instant, Instant)>,
}

impl FromEvents {
    /// Starts without any events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares that events with this number belong to `subject` from here on.
    pub fn subject(&mut self, number: u32, subject: &Subject) {
        let runs = self.of.entry(number).or_default();
        runs.cpu = subject.cpu;
        runs.is_coarse = matches!(subject.kind, SubjectKind::Thread | SubjectKind::Channel);
    }

    /// Notes that events are missing: it is unknown whether a subject runs until its next event.
    pub fn lost(&mut self) {
        for runs in self.of.values_mut() {
            runs.since = None;
        }
    }

    /// Returns what the time of `job` in `[from, until)` was spent on, in order and without gaps.
    /// An earlier job of the same subject counts as that subject.
    pub fn stretches(&self, job: JobId, from: Instant, until: Instant) -> Vec<Stretch> {
        let number = job.task;
        let nothing = Runs::default();
        let own = self.of.get(&number).unwrap_or(&nothing);
        let mut all = Vec::new();
        if !own.is_coarse {
            let whose = |index| {
                if index == job.index { Spent::Own } else { Spent::Subject(number) }
            };
            own.within(from, until, whose, &mut all);
        }
        for (other, runs) in &self.of {
            if *other != number && runs.cpu == own.cpu && !runs.is_coarse {
                runs.within(from, until, |_| Spent::Subject(*other), &mut all);
            }
        }
        // The sort is stable: if two stretches began together, the job's own work comes first.
        all.sort_by_key(|stretch| stretch.start);
        without_gaps(all, from, until)
    }
}

impl Runs {
    /// Appends its stretches in `[from, until)`, clipped to that window.
    fn within(
        &self,
        from: Instant,
        until: Instant,
        spent: impl Fn(u64) -> Spent,
        all: &mut Vec<Stretch>,
    ) {
        let first = self.stretches.partition_point(|(_, _, end)| *end <= from);
        let here = self.stretches[first..].iter().take_while(|(_, start, _)| *start < until);
        let cut = |&(index, start, end): &(u64, Instant, Instant)| Stretch {
            start: start.max(from),
            end: end.min(until),
            spent: spent(index),
        };
        all.extend(here.map(cut));
    }

    fn ends(&mut self, at: Instant) {
        let Some((index, since)) = self.since.take() else { return };
        // The checker reports a contradictory trace. Here only the order matters.
        let since = self.stretches.last().map_or(since, |(_, _, end)| since.max(*end));
        if since < at {
            self.stretches.push((index, since, at));
        }
    }
}

/// Removes overlaps: a stretch keeps its end, and the next one begins no earlier than that.
fn without_gaps(sorted: Vec<Stretch>, from: Instant, until: Instant) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut at = from;
    let unknown = |start, end| Stretch { start, end, spent: Spent::Unknown };
    for stretch in sorted {
        let start = stretch.start.max(at);
        if stretch.end <= start {
            continue;
        }
        if start > at {
            all.push(unknown(at, start));
        }
        all.push(Stretch { start, ..stretch });
        at = stretch.end;
    }
    if at < until {
        all.push(unknown(at, until));
    }
    all
}

impl Sink for FromEvents {
    fn record(&mut self, event: Event) {
        let runs = self.of.entry(event.job.task).or_default();
        match event.kind {
            Kind::Start | Kind::Resume => {
                runs.since = Some((event.job.index, event.at));
            }
            Kind::GiveWay | Kind::Complete | Kind::Abort | Kind::Contained => runs.ends(event.at),
            Kind::Overrun { .. }
            | Kind::Skip { .. }
            | Kind::Replenish { .. }
            | Kind::Throttle { .. }
            | Kind::Unthrottle => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{LateJob, judge};
    use punctual_model::Duration;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Computes the causes one nanosecond at a time.
    fn slowly(runs: &[(JobId, u64, u64)], job: JobId, from: u64, until: u64) -> Vec<Spent> {
        let who = |now: u64| runs.iter().find(|(_, s, e)| (*s..*e).contains(&now)).map(|run| run.0);
        let spent = |now| match who(now) {
            Some(who) if who == job => Spent::Own,
            Some(who) => Spent::Subject(who.task),
            None => Spent::Unknown,
        };
        (from..until).map(spent).collect()
    }

    #[test]
    fn each_nanosecond_goes_to_the_job_that_ran() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..300 {
            let mut seen = FromEvents::new();
            let (mut now, mut runs) = (0, Vec::new());
            for index in 0..40 {
                let start = now + rng.random_range(0..4);
                now = start + rng.random_range(1..9);
                let task = rng.random_range(0..4);
                let job = JobId { task, index };
                let mut event =
                    |ns, kind| seen.record(Event { at: at(ns), job, release: at(0), kind });
                event(start, Kind::Start);
                event(now, if index % 3 == 0 { Kind::GiveWay } else { Kind::Complete });
                runs.push((job, start, now));
            }
            let from = rng.random_range(0..now);
            let until = rng.random_range(from..now + 9);
            let job = runs[rng.random_range(0..runs.len())].0;
            let stretches = seen.stretches(job, at(from), at(until));
            let each: Vec<Spent> = stretches
                .iter()
                .flat_map(|one| core::iter::repeat_n(one.spent, one.length().as_nanos() as usize))
                .collect();
            assert_eq!(each, slowly(&runs, job, from, until));
        }
    }

    #[test]
    fn another_cpu_and_a_thread_that_may_sleep_are_no_causes() {
        let mut seen = FromEvents::new();
        let subjects = [
            (0, SubjectKind::Task, Some(0)),
            (1, SubjectKind::Task, Some(1)),
            (2, SubjectKind::Thread, Some(0)),
        ];
        for (number, kind, cpu) in subjects {
            seen.subject(number, &Subject { cpu, ..Subject::new("x", kind) });
        }
        for task in [1, 2] {
            let job = JobId { task, index: 0 };
            for (ns, kind) in [(0, Kind::Start), (50, Kind::Complete)] {
                seen.record(Event { at: at(ns), job, release: at(0), kind });
            }
        }
        let late = LateJob {
            job: JobId { task: 0, index: 0 },
            release: at(0),
            absolute_deadline: at(10),
            end: at(60),
            wcet: None,
        };
        let verdict = judge(late, &seen.stretches(late.job, at(0), at(60)), |_| true);
        assert_eq!(verdict.shares.len(), 1);
        assert_eq!(verdict.shares[0].cause, Spent::Unknown);
        assert_eq!(verdict.shares[0].share, Duration::from_nanos(50));
    }
}
