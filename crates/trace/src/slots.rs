//! Records what each period of a reservation was given, as events.
//!
//! A driver that gives a reservation its slots reports when each begins and ends. A job is a period
//! of the reservation. It is released when the period begins, starts with the first slot, gives way
//! where a slot ends with budget left, and is complete at the instant at which it has been given
//! all of its budget. Its relative deadline is therefore the period. Periods are counted from the
//! first that is promised. (The promise is wider: X in *every* window of Y. This judges one window
//! for each period.)

use punctual_model::{Duration, Instant, JobId, Reservation};

use crate::event::{Event, Kind, Sink};

/// Records the periods of one reservation. Call order: [`begins`](Self::begins) and
/// [`ends`](Self::ends) in turn, with instants that do not go back, and [`close`](Self::close) last.
/// Nothing is allocated, and a call makes only a few events however much time has passed.
///
/// ```
/// use punctual_model::{Duration, Instant, Service};
/// use punctual_trace::slots::Slots;
/// use punctual_trace::{Event, Kind};
///
/// let at = |ms| Instant::ZERO + Duration::from_millis(ms);
/// let mut slots = Slots::new(0, "2ms/8ms".parse()?, at(0));
/// let mut events: Vec<Event> = Vec::new();
/// slots.begins(at(1), &mut events);
/// slots.ends(at(4), &mut events);
/// let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
/// let (budget, left) = (Service::from_millis(2), Service::ZERO);
/// let throttle = Kind::Throttle { left };
/// assert_eq!(
///     kinds,
///     [Kind::Replenish { budget }, Kind::Unthrottle, Kind::Start, Kind::Complete, throttle]
/// );
/// assert_eq!(events[3].at, at(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    task: u32,
    reservation: Reservation,
    /// The beginning of the period of index `first`.
    since: Instant,
    first: u64,
    period: Option<Period>,
    /// The beginning of the current slot, if it is in one.
    slot: Option<Instant>,
}

/// The newest period.
#[derive(Clone, Copy, Debug)]
struct Period {
    index: u64,
    release: Instant,
    /// The rest of the budget.
    left: Duration,
    has_begun: bool,
}

impl Slots {
    /// Records events of `task`, whose first period begins at `since`. Slots before that are not
    /// recorded.
    pub fn new(task: u32, reservation: Reservation, since: Instant) -> Self {
        Self { task, reservation, since, first: 0, period: None, slot: None }
    }

    /// Changes the reservation from `since` on. Periods are counted from there.
    pub fn change(&mut self, reservation: Reservation, since: Instant) {
        self.first += self.period.map_or(0, |period| period.index - self.first + 1);
        (self.reservation, self.since, self.period) = (reservation, since, None);
    }

    /// Records that the reservation is given the CPU from `now` on.
    pub fn begins(&mut self, now: Instant, sink: &mut impl Sink) {
        self.slot = Some(now);
        if now < self.since {
            return;
        }
        self.turn_over(now, true, sink);
        if let Some(period) = &mut self.period {
            Self::starts(self.task, period, now, sink);
        }
    }

    /// Records that its slot is over.
    pub fn ends(&mut self, now: Instant, sink: &mut impl Sink) {
        let Some(began) = self.slot.take().filter(|_| now > self.since) else { return };
        let mut began = began;
        if began < self.since {
            // Only time from the beginning of the promise on counts.
            began = self.since;
            self.turn_over(began, false, sink);
            if let Some(period) = &mut self.period {
                Self::starts(self.task, period, began, sink);
            }
        }
        let length = self.reservation.period();
        let Some(period) = self.period.as_mut() else { return };
        let over = period.release.saturating_add(length);
        Self::gives(self.task, period, began, now.min(over), sink);
        if now > over {
            // Periods that lie entirely within one slot need no events.
            let last = now.saturating_since(self.since) % length;
            let began = Instant::from_nanos(now.as_nanos() - last.as_nanos());
            self.turn_over(began, false, sink);
            if let Some(period) = &mut self.period {
                Self::starts(self.task, period, began, sink);
                Self::gives(self.task, period, began, now, sink);
            }
        }
        if let Some(period) = &self.period {
            if !period.left.is_zero() {
                sink.record(period.event(self.task, now, Kind::GiveWay));
            }
            let left = period.left.as_full_service();
            sink.record(period.event(self.task, now, Kind::Throttle { left }));
        }
    }

    /// Closes the reservation.
    pub fn close(&mut self, now: Instant, sink: &mut impl Sink) {
        self.ends(now, sink);
        if let Some(period) = self.period.take()
            && period.has_begun
            && !period.left.is_zero()
        {
            sink.record(period.event(self.task, now, Kind::Abort));
        }
    }

    /// Advances to the period of `now`, which is not before the first, and ends those that are
    /// over. If `without` is true, the periods in between had no slot at all; otherwise they had
    /// more than their budget.
    fn turn_over(&mut self, now: Instant, without: bool, sink: &mut impl Sink) {
        let length = self.reservation.period();
        let passed = now.saturating_since(self.since).as_nanos() / length.as_nanos();
        let index = self.first.saturating_add(passed);
        let unseen = match self.period {
            Some(period) if period.index >= index => return,
            Some(period) => {
                let kind = match (period.left.is_zero(), period.has_begun) {
                    (true, _) => None,
                    (false, true) => Some(Kind::Abort),
                    (false, false) => Some(Kind::Skip { jobs: 1 }),
                };
                if let Some(kind) = kind {
                    sink.record(period.event(self.task, now, kind));
                }
                period.index + 1
            }
            None => self.first,
        };
        let budget = self.reservation.budget();
        let whole = |index: u64| {
            let after = length.checked_mul(index - self.first).unwrap_or(Duration::MAX);
            let release = self.since.saturating_add(after);
            Period { index, release, left: budget.at_full_speed(), has_begun: false }
        };
        let jobs = if without { index - unseen } else { 0 };
        if jobs > 0 {
            sink.record(whole(unseen).event(self.task, now, Kind::Skip { jobs }));
        }
        let period = whole(index);
        sink.record(period.event(self.task, now, Kind::Replenish { budget }));
        self.period = Some(period);
    }

    fn starts(task: u32, period: &mut Period, at: Instant, sink: &mut impl Sink) {
        sink.record(period.event(task, at, Kind::Unthrottle));
        if !period.left.is_zero() {
            let kind = if period.has_begun { Kind::Resume } else { Kind::Start };
            sink.record(period.event(task, at, kind));
            period.has_begun = true;
        }
    }

    /// Accounts the CPU time in `[began, until)`.
    fn gives(task: u32, period: &mut Period, began: Instant, until: Instant, sink: &mut impl Sink) {
        let given = until.saturating_since(began);
        if period.left.is_zero() {
            return;
        }
        if given >= period.left {
            let at = began.saturating_add(period.left);
            sink.record(period.event(task, at, Kind::Complete));
        }
        period.left = period.left.saturating_sub(given);
    }
}

impl Period {
    fn event(&self, task: u32, at: Instant, kind: Kind) -> Event {
        Event { at, job: JobId { task, index: self.index }, release: self.release, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Checker, Verdict};
    use crate::{Promise, Subject, SubjectKind};
    use alloc::vec::Vec;
    use punctual_model::Service;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn reservation(budget: u64, period: u64) -> Reservation {
        Reservation::new(Service::from_micros(budget), us(period)).expect("valid")
    }

    /// Computes what every period was given before its end, one microsecond at a time.
    fn given(slots: &[(u64, u64)], period: u64, periods: u64) -> Vec<u64> {
        let has = |at: u64| slots.iter().any(|&(from, to)| (from..to).contains(&at));
        let of = |nth: u64| (nth * period..(nth + 1) * period).filter(|&at| has(at)).count() as u64;
        (0..periods).map(of).collect()
    }

    fn judge(events: &[Event], reservation: Reservation, end: Instant) -> crate::check::Judged {
        let mut subject = Subject::new("r", SubjectKind::Reservation);
        let period = Some(reservation.period());
        subject.promise = Promise { period, relative_deadline: period, wcet: None };
        let mut checker = Checker::new();
        checker.subject(0, &subject);
        events.iter().for_each(|event| checker.record(*event));
        checker.end(end);
        checker.judge(0)
    }

    #[test]
    fn periods_short_of_their_budgets_are_late_and_no_others() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for _ in 0..500 {
            let period = rng.random_range(10..60);
            let r = reservation(rng.random_range(1..period), period);
            let mut slots = Vec::new();
            let mut at = 0;
            while at < 2_000 {
                let from = at + rng.random_range(0..period * 2);
                at = from + rng.random_range(1..period * 2);
                slots.push((from, at));
            }
            let epoch = Instant::ZERO + us(7);
            let mut told = Slots::new(0, r, epoch);
            let mut events: Vec<Event> = Vec::new();
            for &(from, to) in &slots {
                told.begins(epoch + us(from), &mut events);
                told.ends(epoch + us(to), &mut events);
            }
            assert!(events.is_sorted_by_key(|event| event.at));
            // The period in which the last slot ends is not over.
            let whole = at / period;
            let budget = r.budget().as_nanos() / 1_000;
            let short = given(&slots, period, whole).iter().filter(|&&had| had < budget).count();
            let end = epoch + us(whole * period) + Duration::from_nanos(1);
            told.close(epoch + us(at), &mut events);
            let until: Vec<Event> =
                events.into_iter().filter(|event| event.job.index < whole).collect();
            let judged = judge(&until, r, end);
            assert_eq!(judged.late, short as u64, "{slots:?} {r}");
            let kept = if short == 0 { Verdict::Kept } else { Verdict::Broken };
            assert_eq!(judged.verdict, kept);
        }
    }

    #[test]
    fn time_before_the_promise_does_not_count_and_a_change_starts_afresh() {
        let at = |n: u64| Instant::ZERO + us(n);
        let mut slots = Slots::new(3, reservation(2, 10), at(100));
        let mut events: Vec<Event> = Vec::new();
        slots.begins(at(50), &mut events);
        slots.ends(at(60), &mut events);
        assert_eq!(events, []);
        slots.begins(at(99), &mut events);
        slots.ends(at(101), &mut events);
        assert_eq!(
            events.last().map(|e| e.kind),
            Some(Kind::Throttle { left: Service::from_micros(1) })
        );
        slots.change(reservation(5, 20), at(120));
        events.clear();
        slots.begins(at(125), &mut events);
        let (index, release) = (events[0].job.index, events[0].release);
        assert_eq!((index, release), (1, at(120)));
    }

    #[test]
    fn a_long_pause_makes_few_events() {
        let mut slots = Slots::new(0, reservation(2, 10), Instant::ZERO);
        let mut events: Vec<Event> = Vec::new();
        let hour = Instant::ZERO + Duration::from_secs(3600);
        slots.begins(Instant::ZERO, &mut events);
        slots.ends(hour, &mut events);
        slots.begins(hour + Duration::from_secs(3600), &mut events);
        assert!(events.len() < 16, "{}", events.len());
    }
}
