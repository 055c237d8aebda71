//! The observations of a session, for a trace file.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{Instant, JobId, Service};
use punctual_trace::cause::{Observer, Spent, Stretch};
use punctual_trace::{Event, Kind, Subject};

/// One observation; they come in the order in which they became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An event of a thread's job. Throttling becomes known last, up to two turns after later
    /// events.
    Event(Event),
    /// Events of this number belong to this thread from now on. A second one with the same number
    /// renames it.
    Subject(u32, Subject),
    /// This many records of the kernel are missing.
    Lost(Instant, u64),
}

/// The number of jobs per thread that are remembered until throttling is known.
const JOBS: usize = 1 << 12;

/// Keeps observations until they are taken.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    seen: Vec<Seen>,
    /// The releases of each subject's newest jobs.
    jobs: BTreeMap<u32, VecDeque<(JobId, Instant)>>,
    /// The time until which throttling is known, for each subject with jobs.
    throttled_until: BTreeMap<u32, Instant>,
    /// For each subject that was throttled last: the stretch, as far as it is known.
    throttled: BTreeMap<u32, Stretch>,
}

impl Keeper {
    pub(crate) fn event(&mut self, event: Event) {
        if event.kind == Kind::Start {
            let jobs = self.jobs.entry(event.job.task).or_default();
            if jobs.len() == JOBS {
                jobs.pop_front();
            }
            jobs.push_back((event.job, event.release));
        }
        self.seen.push(Seen::Event(event));
    }

    pub(crate) fn subject(&mut self, number: u32, subject: &Subject) {
        self.seen.push(Seen::Subject(number, subject.clone()));
    }

    pub(crate) fn lost(&mut self, at: Instant, records: u64) {
        self.seen.push(Seen::Lost(at, records));
    }

    /// Adds the throttling of these threads (pairs of kernel id and subject) before `until`, which
    /// must be long enough ago for all records to have come. A stretch that goes on then is
    /// completed by a later call. The throttling of a thread without jobs waits for the first of
    /// them: its releases may still be unknown.
    pub(crate) fn throttled(
        &mut self,
        observer: &Observer,
        threads: impl Iterator<Item = (u32, u32)>,
        until: Instant,
    ) {
        for (tid, number) in threads {
            if !self.jobs.contains_key(&number) {
                continue;
            }
            let from = self.throttled_until.insert(number, until).unwrap_or(Instant::ZERO);
            for stretch in observer.stretches(tid, from, until) {
                self.part(number, stretch);
            }
        }
    }

    /// Ends the run: adds unfinished stretches as far as they came.
    pub(crate) fn end(&mut self) {
        for (number, stretch) in std::mem::take(&mut self.throttled) {
            self.stretch(number, stretch);
        }
    }

    /// Merges the parts of a throttled stretch. An interrupt on its CPU, or the end of what is
    /// known, does not let a thread run: the parts before and after it are one stretch.
    fn part(&mut self, number: u32, part: Stretch) {
        match part.spent {
            Spent::Throttled(_) => {
                self.throttled.entry(number).or_insert(part).end = part.end;
            }
            Spent::HardIrq(_) | Spent::SoftIrq(_) => {}
            _ => {
                if let Some(stretch) = self.throttled.remove(&number) {
                    self.stretch(number, stretch);
                }
            }
        }
    }

    fn stretch(&mut self, number: u32, stretch: Stretch) {
        let jobs = self.jobs.get(&number).into_iter().flatten();
        // A job that was released later cannot be the throttled one.
        let job = jobs.rev().find(|(_, release)| *release <= stretch.start).copied();
        let Some((job, release)) = job else { return };
        let throttle = Kind::Throttle { left: Service::ZERO };
        for (at, kind) in [(stretch.start, throttle), (stretch.end, Kind::Unthrottle)] {
            self.seen.push(Seen::Event(Event { at, job, release, kind }));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_trace::cause::Throttler;

    /// Returns the times and jobs of the throttling events.
    fn throttle_events(keeper: &mut Keeper) -> Vec<(u64, u64)> {
        let of = |seen| match seen {
            Seen::Event(Event { kind: Kind::Start, .. }) => None,
            Seen::Event(event) => Some((event.at.as_nanos(), event.job.index)),
            other => panic!("{other:?}"),
        };
        keeper.take().into_iter().filter_map(of).collect()
    }

    fn jobs(keeper: &mut Keeper, releases: &[u64]) {
        for (index, &release) in (0..).zip(releases) {
            let (job, release) = (JobId { task: 7, index }, Instant::from_nanos(release));
            keeper.event(Event { at: release, job, release, kind: Kind::Start });
        }
    }

    #[test]
    fn interrupts_and_turns_do_not_split_a_throttled_stretch() {
        let mut keeper = Keeper::default();
        jobs(&mut keeper, &[0, 50]);
        let throttled = Spent::Throttled(Throttler::Kernel);
        for (start, end, spent) in [
            (10, 20, throttled),
            (20, 22, Spent::SoftIrq(1)),
            // One turn ended here.
            (22, 30, throttled),
            (30, 40, throttled),
            (40, 45, Spent::Own),
            (60, 70, throttled),
            (70, 71, Spent::SoftIrq(1)),
        ] {
            let (start, end) = (Instant::from_nanos(start), Instant::from_nanos(end));
            keeper.part(7, Stretch { start, end, spent });
        }
        assert_eq!(throttle_events(&mut keeper), [(10, 0), (40, 0)]);
        keeper.end();
        assert_eq!(throttle_events(&mut keeper), [(60, 1), (70, 1)]);
    }

    #[test]
    fn throttling_belongs_to_the_job_that_was_released_before() {
        let at = Instant::from_nanos;
        let mut keeper = Keeper::default();
        jobs(&mut keeper, &[10, 30, 60]);
        let spent = Spent::Throttled(Throttler::Kernel);
        keeper.stretch(7, Stretch { start: at(40), end: at(55), spent });
        keeper.stretch(7, Stretch { start: at(5), end: at(6), spent });
        keeper.stretch(8, Stretch { start: at(40), end: at(55), spent });
        assert_eq!(throttle_events(&mut keeper), [(40, 1), (55, 1)]);
    }
}
