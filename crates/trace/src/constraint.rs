//! Records one-shot time constraints as events: an amount of work between a start and a deadline.
//!
//! An accepted constraint is recorded as a job, released at its start, due at its deadline, and
//! complete when its thread ends it (the soft modem study, §2: Rialto/NT's time constraints). The
//! use of the promised time is recorded as well: the job starts or resumes where it is given the
//! CPU, gives way where that ends, and is throttled where its estimate is exhausted or its deadline
//! has come. What was left of the estimate then tells whether the estimate was too small or the
//! time given too short.

use punctual_model::{Duration, Instant, JobId, Service};

use crate::event::{Event, Kind, Sink};

/// A request for a time constraint, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintRequest {
    /// The instant of the answer.
    pub at: Instant,
    /// The requesting task and the index of the request. If it was granted, its job's events carry
    /// this id.
    pub job: JobId,
    /// The earliest start of the work.
    pub start: Instant,
    /// The amount of work.
    pub estimate: Service,
    /// The deadline. If the request was granted, it is later than the start.
    pub deadline: Instant,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request was granted.
    Granted,
    /// The request was refused.
    Refused {
        /// The largest estimate that would have been granted between the same instants.
        largest_estimate: Service,
    },
}

impl Answer {
    /// Returns one word for it, for tables and exports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused { .. } => "refused",
        }
    }
}

/// Records the use of an accepted constraint. Call order: [`begins`](Self::begins) and
/// [`ends`](Self::ends) in turn, with instants that do not go back, and [`done`](Self::done) last.
/// Nothing is allocated.
///
/// ```
/// use punctual_model::{Instant, JobId, Service};
/// use punctual_trace::constraint::{Answer, ConstraintRequest, Given};
/// use punctual_trace::{Event, Kind};
///
/// let at = Instant::from_nanos;
/// let request = ConstraintRequest {
///     at: at(0),
///     job: JobId { task: 3, index: 0 },
///     start: at(10),
///     estimate: Service::from_nanos(20),
///     deadline: at(90),
///     answer: Answer::Granted,
/// };
/// let mut events: Vec<Event> = Vec::new();
/// let mut given = Given::new(request);
/// given.begins(at(15), &mut events);
/// given.done(at(30), &mut events);
/// let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
/// assert_eq!(kinds, [Kind::Start, Kind::Complete]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Given {
    request: ConstraintRequest,
    left: Duration,
    /// The instant at which it was given the CPU, if it has it.
    since: Option<Instant>,
    has_begun: bool,
    is_throttled: bool,
    is_done: bool,
    newest: Instant,
}

impl Given {
    /// Starts with a constraint that has been given nothing.
    pub fn new(request: ConstraintRequest) -> Self {
        let (left, newest) = (request.estimate.at_full_speed(), request.start);
        let (has_begun, is_throttled, is_done) = (false, false, false);
        Self { request, left, since: None, has_begun, is_throttled, is_done, newest }
    }

    /// Records that it is given the CPU from `now` on.
    pub fn begins(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.is_done || self.since.is_some() {
            return;
        }
        let now = now.max(self.newest);
        self.runs(now, sink);
        self.since = Some(now);
    }

    /// Records that it loses the CPU, for a while or for good.
    pub fn ends(&mut self, now: Instant, sink: &mut impl Sink) {
        let Some(since) = self.since.take().filter(|_| !self.is_done) else { return };
        let now = now.max(self.newest);
        self.left = self.left.saturating_sub(now.saturating_since(since));
        self.emit(now, Kind::GiveWay, sink);
        if self.left.is_zero() || now >= self.request.deadline {
            self.is_throttled = true;
            let left = self.left.as_full_service();
            self.emit(now, Kind::Throttle { left }, sink);
        }
    }

    /// Records that its thread has ended it. If it had no reserved CPU time by then, it ran as an
    /// ordinary thread.
    pub fn done(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.is_done {
            return;
        }
        let now = now.max(self.newest);
        if self.since.is_none() {
            self.runs(now, sink);
        }
        self.emit(now, Kind::Complete, sink);
        self.is_done = true;
    }

    fn runs(&mut self, now: Instant, sink: &mut impl Sink) {
        if core::mem::replace(&mut self.is_throttled, false) {
            self.emit(now, Kind::Unthrottle, sink);
        }
        let kind = if self.has_begun { Kind::Resume } else { Kind::Start };
        self.has_begun = true;
        self.emit(now, kind, sink);
    }

    fn emit(&mut self, at: Instant, kind: Kind, sink: &mut impl Sink) {
        let ConstraintRequest { job, start: release, .. } = self.request;
        sink.record(Event { at, job, release, kind });
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Checker, Judged, Verdict};
    use crate::{Subject, SubjectKind};
    use alloc::vec::Vec;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn request(index: u64, answer: Answer) -> ConstraintRequest {
        let job = JobId { task: 2, index };
        let start = at(100 * index);
        let deadline = start + Duration::from_nanos(50);
        ConstraintRequest {
            at: start,
            job,
            start,
            estimate: Service::from_nanos(20),
            deadline,
            answer,
        }
    }

    fn judged(request: &[ConstraintRequest], events: &[Event], end: u64) -> Judged {
        let mut checker = Checker::new();
        checker.subject(2, &Subject::new("a thread", SubjectKind::Constraint));
        request.iter().for_each(|one| checker.request(one));
        events.iter().for_each(|event| checker.record(*event));
        checker.end(at(end));
        checker.judge(2)
    }

    #[test]
    fn a_constraint_that_ends_by_its_deadline_is_kept() {
        let one = request(0, Answer::Granted);
        let mut given = Given::new(one);
        let mut events: Vec<Event> = Vec::new();
        given.begins(at(5), &mut events);
        given.ends(at(15), &mut events);
        given.begins(at(30), &mut events);
        given.done(at(40), &mut events);
        given.ends(at(41), &mut events);
        let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::Start, Kind::GiveWay, Kind::Resume, Kind::Complete]);
        let judged = judged(&[one], &events, 200);
        assert_eq!((judged.verdict, judged.complete, judged.late), (Verdict::Kept, 1, 0));
    }

    /// The rest of the estimate tells which of the two was at fault.
    #[test]
    fn too_small_an_estimate_and_too_little_time_are_told_apart() {
        for (slices, left) in
            [(&[(5, 25)][..], Some(0)), (&[(5, 15), (45, 50)][..], Some(5)), (&[][..], None)]
        {
            let one = request(0, Answer::Granted);
            let mut given = Given::new(one);
            let mut events: Vec<Event> = Vec::new();
            for &(from, to) in slices {
                given.begins(at(from), &mut events);
                given.ends(at(to), &mut events);
            }
            given.done(at(70), &mut events);
            let throttled = events.iter().find_map(|event| match event.kind {
                Kind::Throttle { left } => Some(left.as_nanos()),
                _ => None,
            });
            assert_eq!(throttled, left, "{events:?}");
            let judged = judged(&[one], &events, 200);
            assert_eq!((judged.verdict, judged.late), (Verdict::Broken, 1));
            assert_eq!(judged.max_tardiness, Duration::from_nanos(20));
        }
    }

    #[test]
    fn a_refusal_breaks_no_promise_and_an_unended_constraint_does() {
        let refused = Answer::Refused { largest_estimate: Service::from_nanos(7) };
        let judged_refused = judged(&[request(0, refused)], &[], 200);
        assert!(matches!(judged_refused.verdict, Verdict::NotJudgeable(_)));
        assert_eq!((judged_refused.refused, judged_refused.late), (1, 0));
        let left = judged(&[request(0, Answer::Granted), request(1, refused)], &[], 200);
        assert_eq!((left.verdict, left.late, left.refused), (Verdict::Broken, 1, 1));
        // Its deadline had not come when the run ended.
        let young = judged(&[request(0, Answer::Granted)], &[], 50);
        assert_eq!((young.verdict, young.late), (Verdict::Kept, 0));
    }
}
