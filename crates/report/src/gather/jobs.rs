//! Assembles the events of a subject into jobs.

use punctual_model::{Duration, Instant, Service};
use punctual_trace::{Event, Kind};

/// The number of stretches of one job that are kept. Later stretches are merged into the last one.
const MOST_STRETCHES: usize = 64;

/// The way in which a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Complete,
    Aborted,
    Contained,
    /// The job and the given number of jobs after it never began.
    Skipped(u64),
    /// The end was not seen, because the trace ended, lost events, or went on with the next job.
    NotSeen,
}

impl Fate {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Aborted => "aborted",
            Self::Contained => "contained",
            Self::Skipped(_) => "never begun",
            Self::NotSeen => "end not seen",
        }
    }
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The place of its subject.
    pub(crate) subject: u32,
    pub(crate) index: u64,
    pub(crate) release: Instant,
    /// The instant of its first instruction, if that was seen.
    pub(crate) start: Option<Instant>,
    pub(crate) end: Instant,
    pub(crate) fate: Fate,
    /// The stretches `[from, to)` in which it ran.
    pub(crate) ran: Vec<(Instant, Instant)>,
    /// The stretches `[from, to)` in which it was throttled.
    pub(crate) throttled: Vec<(Instant, Instant)>,
    /// The exact sum of the time it ran, even if stretches were merged.
    pub(crate) exec_time: Duration,
    /// The budget of its replenishment, if there was one.
    pub(crate) budget: Option<Service>,
    /// The number of times that it was throttled.
    pub(crate) throttles: u32,
}

/// The open job of each subject, by the subject's place.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    open: Vec<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    job: Job,
    runs_since: Option<Instant>,
    throttled_since: Option<Instant>,
}

impl Jobs {
    /// Takes an event of the subject at `place`, and returns the jobs that end with it: an earlier
    /// job whose end was not seen, and the event's own.
    pub(crate) fn take(&mut self, place: u32, event: &Event) -> [Option<Job>; 2] {
        let Event { at, job, release, kind } = *event;
        let slot = place as usize;
        if self.open.len() <= slot {
            self.open.resize_with(slot + 1, || None);
        }
        // These events concern jobs that go on or did not begin.
        match kind {
            Kind::Overrun { .. } => return [None, None],
            Kind::Skip { jobs } => {
                let job = Open::new(place, job.index, release).over(at, Fate::Skipped(jobs));
                return [None, Some(job)];
            }
            _ => {}
        }
        let open = &mut self.open[slot];
        let is_other = open.as_ref().is_some_and(|open| open.job.index != job.index);
        let before = open.take_if(|_| is_other).map(|open| open.unseen());
        let this = open.get_or_insert_with(|| Open::new(place, job.index, release));
        let fate = match kind {
            Kind::Start => {
                this.job.start.get_or_insert(at);
                this.runs(at);
                None
            }
            Kind::Resume => {
                this.runs(at);
                None
            }
            Kind::GiveWay => {
                this.stops(at);
                None
            }
            Kind::Replenish { budget } => {
                this.job.budget = Some(budget);
                None
            }
            Kind::Throttle { .. } => {
                this.job.throttles = this.job.throttles.saturating_add(1);
                this.throttled_since.get_or_insert(at);
                None
            }
            Kind::Unthrottle => {
                this.unthrottle(at);
                None
            }
            Kind::Complete => Some(Fate::Complete),
            Kind::Abort => Some(Fate::Aborted),
            Kind::Contained => Some(Fate::Contained),
            Kind::Overrun { .. } | Kind::Skip { .. } => None,
        };
        let over = fate.and_then(|fate| open.take().map(|open| open.over(at, fate)));
        [before, over]
    }

    /// Closes the open jobs after lost events, because their fate is unknown.
    pub(crate) fn lose(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.open.iter_mut().filter_map(Option::take).map(Open::unseen)
    }

    /// Closes the open jobs at the end of the run.
    pub(crate) fn end(&mut self, at: Instant) -> impl Iterator<Item = Job> + '_ {
        let open = self.open.iter_mut().filter_map(Option::take);
        open.map(move |open| {
            let at = at.max(open.newest());
            open.over(at, Fate::NotSeen)
        })
    }
}

impl Open {
    fn new(subject: u32, index: u64, release: Instant) -> Self {
        let job = Job {
            subject,
            index,
            release,
            start: None,
            end: release,
            fate: Fate::NotSeen,
            ran: Vec::new(),
            throttled: Vec::new(),
            exec_time: Duration::ZERO,
            budget: None,
            throttles: 0,
        };
        Self { job, runs_since: None, throttled_since: None }
    }

    fn runs(&mut self, at: Instant) {
        self.runs_since.get_or_insert(at);
    }

    fn stops(&mut self, at: Instant) {
        if let Some(since) = self.runs_since.take() {
            let length = at.saturating_since(since);
            self.job.exec_time = self.job.exec_time.saturating_add(length);
            keep(&mut self.job.ran, since, at);
        }
    }

    fn unthrottle(&mut self, at: Instant) {
        if let Some(since) = self.throttled_since.take() {
            keep(&mut self.job.throttled, since, at);
        }
    }

    fn over(mut self, at: Instant, fate: Fate) -> Job {
        self.stops(at);
        self.unthrottle(at);
        Job { end: at, fate, ..self.job }
    }

    /// Returns the last instant at which something was seen of it.
    fn newest(&self) -> Instant {
        let ran = self.job.ran.last().map(|(_, to)| *to);
        let throttled = self.job.throttled.last().map(|(_, to)| *to);
        let seen = [self.job.start, self.runs_since, self.throttled_since, ran, throttled];
        seen.into_iter().flatten().fold(self.job.release, Instant::max)
    }

    fn unseen(self) -> Job {
        let at = self.newest();
        self.over(at, Fate::NotSeen)
    }
}

/// Appends a stretch, or extends the last one if there are too many.
fn keep(stretches: &mut Vec<(Instant, Instant)>, from: Instant, to: Instant) {
    let is_full = stretches.len() >= MOST_STRETCHES;
    match stretches.last_mut() {
        Some(last) if is_full || last.1 == from => last.1 = last.1.max(to),
        _ => stretches.push((from, to.max(from))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::JobId;

    fn event(at: u64, index: u64, kind: Kind) -> Event {
        let release = Instant::from_nanos(index * 100);
        Event { at: Instant::from_nanos(at), job: JobId { task: 9, index }, release, kind }
    }

    fn jobs(events: &[Event]) -> Vec<Job> {
        let mut jobs = Jobs::default();
        let mut over: Vec<Job> =
            events.iter().flat_map(|event| jobs.take(2, event)).flatten().collect();
        over.extend(jobs.end(Instant::from_nanos(1_000)));
        over
    }

    #[test]
    fn a_job_is_assembled_from_its_events() {
        let throttle = Kind::Throttle { left: Service::ZERO };
        let over = jobs(&[
            event(0, 0, Kind::Replenish { budget: Service::from_nanos(40) }),
            event(10, 0, Kind::Start),
            event(30, 0, Kind::GiveWay),
            event(30, 0, throttle),
            event(50, 0, Kind::Unthrottle),
            event(50, 0, Kind::Resume),
            event(55, 0, Kind::Complete),
        ]);
        let [job] = over.as_slice() else { panic!("{over:?}") };
        let at = Instant::from_nanos;
        assert_eq!((job.start, job.end, job.fate), (Some(at(10)), at(55), Fate::Complete));
        assert_eq!(job.ran, [(at(10), at(30)), (at(50), at(55))]);
        assert_eq!(job.throttled, [(at(30), at(50))]);
        assert_eq!((job.exec_time.as_nanos(), job.throttles), (25, 1));
        assert_eq!((job.subject, job.budget), (2, Some(Service::from_nanos(40))));
    }

    #[test]
    fn an_end_that_was_not_seen_is_not_made_up() {
        let over = jobs(&[
            event(10, 0, Kind::Start),
            event(130, 1, Kind::Start),
            event(140, 2, Kind::Skip { jobs: 3 }),
            event(150, 1, Kind::GiveWay),
        ]);
        let fates: Vec<_> = over.iter().map(|job| (job.index, job.fate)).collect();
        assert_eq!(fates, [(0, Fate::NotSeen), (2, Fate::Skipped(3)), (1, Fate::NotSeen)]);
        assert_eq!(over[0].end, Instant::from_nanos(10));
        assert_eq!(over[2].exec_time.as_nanos(), 20);
    }

    #[test]
    fn a_job_in_many_pieces_takes_little_memory() {
        let mut events = vec![event(0, 0, Kind::Start)];
        for nth in 1..10_000 {
            let kind = if nth % 2 == 1 { Kind::GiveWay } else { Kind::Resume };
            events.push(event(nth, 0, kind));
        }
        let over = jobs(&events);
        assert_eq!(over[0].ran.len(), MOST_STRETCHES);
        assert_eq!(over[0].exec_time.as_nanos(), 5_000);
    }
}
