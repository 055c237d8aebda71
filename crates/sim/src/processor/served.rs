//! Simulates the deferrable servers of a processor, with the jobs of their holders.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Reservation, Service};
use punctual_policy::deferrable_server::{Decision, DeferrableServer};
use punctual_trace::{Event, Kind, Sink};

use super::{Processor, Stretch};
use crate::arrivals::{Arrival, Arrivals};

/// The rest of another processor, after the holders of deferrable servers used their budgets.
///
/// The policy is that of the live driver, and so are its habits: it looks at the start of each
/// period, as long as budget was used in the one before, and when a budget is used up; each look is
/// late. A holder has the processor while its server has budget and no server before it has work.
/// What it would get beyond its budget, as an ordinary program, it does not get here.
pub struct Served<P, A, S> {
    processor: P,
    holders: Vec<Holder>,
    arrivals: A,
    /// No job is known at or after this instant.
    until: Instant,
    /// The time by which each look is late.
    late: Duration,
    sink: S,
    now: Instant,
    /// The holder that has the processor, or would have it if the processor were there.
    first: Option<usize>,
    /// The last answer of the processor.
    stretch: Stretch,
    /// Changes of servers that are still to come: when, which, and to what.
    changes: Vec<(Instant, usize, Reservation)>,
}

struct Holder {
    server: DeferrableServer,
    used: Service,
    is_served: bool,
    look: Look,
    coming: Arrival,
    jobs: VecDeque<Arrival>,
    /// The work left of the first job.
    left: Service,
    begun: bool,
    running: bool,
    /// The number of jobs that are complete.
    index: u64,
}

/// What the driver waits for.
#[derive(Clone, Copy)]
enum Look {
    /// The start of the next period, or use up to this amount if that is sooner.
    Period { at: Instant, limit: Service },
    /// The next use of budget, which it notices once this much was used in all.
    Use { noticed: Service },
    /// The budget was used up, and the driver is about to know.
    Exhausted { known: Instant },
}

impl<P: Processor, A: Arrivals, S: Sink> Served<P, A, S> {
    /// Serves `reservations` on `processor`, the first before the second and so on. The jobs of the
    /// holder at a position are those of the task at that position in `arrivals`, those known
    /// before `until`; events name them so. Every look of the driver is `late`.
    pub fn new(
        mut processor: P,
        reservations: impl IntoIterator<Item = Reservation>,
        mut arrivals: A,
        until: Instant,
        late: Service,
        sink: S,
    ) -> Self {
        let (allowance, late) = (late, late.at_full_speed());
        let holder = |(reservation, task): (Reservation, u32)| {
            let start = Instant::ZERO;
            let limit = reservation.budget();
            Holder {
                server: DeferrableServer::new(reservation, allowance, start, Service::ZERO),
                used: Service::ZERO,
                is_served: true,
                look: Look::Period { at: start + reservation.period() + late, limit },
                coming: arrivals.next(task),
                jobs: VecDeque::new(),
                left: Service::ZERO,
                begun: false,
                running: false,
                index: 0,
            }
        };
        let holders = reservations.into_iter().zip(0..).map(holder).collect();
        let stretch = processor.at(Instant::ZERO, false);
        let now = Instant::ZERO;
        let (first, changes) = (None, Vec::new());
        Self { processor, holders, arrivals, until, late, sink, now, first, stretch, changes }
    }

    /// Changes the server at this position at an instant that is still to come. The driver is told at
    /// once.
    pub fn change(&mut self, position: usize, to: Reservation, at: Instant) {
        self.changes.push((at, position, to));
    }

    /// Runs the remaining jobs to their ends.
    pub fn finish(&mut self) {
        let until = self.until;
        let has_work = |holder: &Holder| !holder.jobs.is_empty() || holder.coming.known < until;
        while self.holders.iter().any(has_work) {
            self.step(self.next());
        }
    }

    /// Returns when something happens next.
    fn next(&self) -> Instant {
        let mut next = if self.first.is_some() { self.stretch.until } else { Instant::MAX };
        for (at, _, _) in &self.changes {
            next = next.min(*at);
        }
        for (at, holder) in self.holders.iter().enumerate() {
            if holder.coming.known < self.until {
                next = next.min(holder.coming.known);
            }
            if let Look::Period { at, .. } | Look::Exhausted { known: at } = holder.look {
                next = next.min(at);
            }
            if self.first == Some(at) && self.stretch.served {
                let budget = match holder.look {
                    Look::Period { limit: most, .. } | Look::Use { noticed: most } => {
                        most.saturating_sub(holder.used)
                    }
                    Look::Exhausted { .. } => Service::MAX,
                };
                next = next.min(self.now.saturating_add(holder.left.min(budget).at_full_speed()));
            }
        }
        next.max(self.now)
    }

    /// Advances to `next`, before which nothing happens.
    fn step(&mut self, next: Instant) {
        if let Some(first) = self.first.filter(|_| self.stretch.served) {
            let ran = (next - self.now).as_full_service();
            let holder = &mut self.holders[first];
            holder.left = holder.left.saturating_sub(ran);
            holder.used += ran;
        }
        self.now = next;
        for task in 0..self.holders.len() {
            self.complete_if_done(task);
            self.arrive(task);
            self.holders[task].look(next, self.late);
        }
        let holders = &mut self.holders;
        for (_, at, to) in self.changes.extract_if(.., |(at, _, _)| *at <= next) {
            let holder = &mut holders[at];
            holder.server.change(to, next, holder.used);
            holder.decide(next, self.late);
        }
        self.first = self.holders.iter().position(|one| one.is_served && !one.jobs.is_empty());
        self.stretch = self.processor.at(next, self.first.is_some());
        for task in 0..self.holders.len() {
            self.switch(task);
        }
    }

    fn complete_if_done(&mut self, task: usize) {
        let holder = &mut self.holders[task];
        if holder.jobs.is_empty() || !holder.left.is_zero() {
            return;
        }
        self.emit(task, Kind::Complete);
        let holder = &mut self.holders[task];
        holder.jobs.pop_front();
        holder.left = holder.jobs.front().map_or(Service::ZERO, |job| job.exec_time);
        (holder.begun, holder.running) = (false, false);
        holder.index += 1;
    }

    fn arrive(&mut self, task: usize) {
        let holder = &mut self.holders[task];
        while holder.coming.known <= self.now && holder.coming.known < self.until {
            if holder.jobs.is_empty() {
                holder.left = holder.coming.exec_time;
            }
            holder.jobs.push_back(holder.coming);
            holder.coming = self.arrivals.next(task as u32);
        }
    }

    /// Records that a holder gets the processor, or loses it.
    fn switch(&mut self, task: usize) {
        let runs = self.first == Some(task) && self.stretch.served;
        let holder = &mut self.holders[task];
        if holder.running == runs || holder.jobs.is_empty() {
            return;
        }
        let kind = match (runs, holder.begun) {
            (true, false) => Kind::Start,
            (true, true) => Kind::Resume,
            (false, _) => Kind::GiveWay,
        };
        (holder.running, holder.begun) = (runs, true);
        self.emit(task, kind);
    }

    fn emit(&mut self, task: usize, kind: Kind) {
        let holder = &self.holders[task];
        let Some(job) = holder.jobs.front() else { return };
        let id = JobId { task: task as u32, index: holder.index };
        self.sink.record(Event { at: self.now, job: id, release: job.release, kind });
    }
}

impl Holder {
    /// Has the driver look, if it does so at `now`.
    fn look(&mut self, now: Instant, late: Duration) {
        match self.look {
            Look::Period { at, limit } if now < at => {
                if self.used >= limit {
                    self.look = Look::Exhausted { known: now + late };
                    self.look(now, late);
                }
            }
            Look::Exhausted { known } if now < known => {}
            Look::Use { noticed } if self.used < noticed => {}
            _ => self.decide(now, late),
        }
    }

    /// Has the driver look at `now`.
    fn decide(&mut self, now: Instant, late: Duration) {
        let Decision { left, until, idle } = self.server.at(now, self.used);
        self.is_served = !left.is_zero();
        let limit = if self.is_served { self.used + left } else { Service::MAX };
        self.look = if idle {
            Look::Use { noticed: self.used + late.max(Duration::from_nanos(1)).as_full_service() }
        } else {
            Look::Period { at: until + late, limit }
        };
    }
}

impl<P: Processor, A: Arrivals, S: Sink> Processor for Served<P, A, S> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        while self.next() < now {
            self.step(self.next());
        }
        self.step(now);
        self.stretch = self.processor.at(now, wanted || self.first.is_some());
        let until = self.next().min(self.stretch.until);
        Stretch { served: self.stretch.served && self.first.is_none(), until }
    }

    fn preempts(&self) -> bool {
        self.first.is_some() || self.processor.preempts()
    }
}
