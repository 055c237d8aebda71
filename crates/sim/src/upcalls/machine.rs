//! Runs the loop of the live runtime in virtual time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Backlog, BestEffort, Duration, Handler, Instant, Service, Upcall};
use punctual_policy::rmdp::{CreateError, Fate, Missed, NoSuchUpcall, Rmdp, Then, YieldPoint};
use punctual_policy::virtual_time::VirtualTime;
use punctual_policy::{rmdp, virtual_time};
use punctual_trace::{Event, Kind, Sink};
use thiserror::Error;

use crate::cpu::Cpu;

/// Containment of handlers that do not return to their yield point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The allowed excess of an iteration over a quantum's processor time.
    pub grace: Duration,
    /// The number of containments after which an upcall is closed, at least one.
    pub most: u32,
}

/// Upcalls on a virtual CPU. `S` returns the processor time of an iteration for a handler that has
/// just processed the given number of PDUs.
pub struct Machine<H, S> {
    policy: Rmdp,
    best_effort: VirtualTime,
    /// In the order of their numbers.
    members: Vec<Member<H>>,
    service: S,
    guard: Option<Guard>,
    /// In the order of their instants.
    orders: VecDeque<(Instant, Order<H>)>,
}

impl<H: Handler, S: FnMut(&H, u32) -> Service> Machine<H, S> {
    /// Makes a machine without upcalls, and with room for `capacity` of them.
    pub fn new(capacity: usize, guard: Option<Guard>, service: S) -> Self {
        Self {
            policy: Rmdp::with_capacity(capacity),
            best_effort: VirtualTime::with_capacity(capacity),
            members: Vec::with_capacity(capacity),
            service,
            guard,
            orders: VecDeque::new(),
        }
    }

    /// Schedules `order` for the first end of a turn at or after `at`. Orders for the same instant
    /// are followed in the order of these calls.
    pub fn order(&mut self, at: Instant, order: Order<H>) {
        let before = self.orders.partition_point(|(other, _)| *other <= at);
        self.orders.insert(before, (at, order));
    }

    /// Returns the handler of an upcall that was not closed.
    pub fn handler(&self, task: u32) -> Option<&H> {
        self.members.iter().find(|one| one.task == task).map(|one| &one.handler)
    }

    /// Runs until the end of the turn that reaches `until`. Returns the jobs that are then released
    /// and not complete.
    pub fn run(
        &mut self,
        cpu: &mut Cpu,
        until: Instant,
        sink: &mut impl Sink,
    ) -> Result<Vec<Backlog>, OrderError> {
        while cpu.now() < until {
            self.follow_orders(cpu.now(), sink)?;
            self.take_back(cpu.now())?;
            match self.policy.next(cpu.now()) {
                rmdp::Next::Run(turn) => self.run_turn(turn, cpu, sink)?,
                rmdp::Next::Missed(missed) => tell(missed, cpu.now(), sink),
                rmdp::Next::Idle { until: release, .. } => match self.best_effort.next(cpu.now()) {
                    virtual_time::Next::Run(turn) => self.run_quantum(&turn, cpu, sink)?,
                    virtual_time::Next::Idle { until: poll } => {
                        let next = release.min(poll).min(self.next_from_outside());
                        if next >= until {
                            break;
                        }
                        cpu.sleep_until(next);
                    }
                },
            }
        }
        Ok(self.policy.unfinished(cpu.now().min(until)).collect())
    }

    /// Returns when the next order is due or a handler returns.
    fn next_from_outside(&self) -> Instant {
        let order = self.orders.front().map(|(at, _)| *at);
        let back = self.members.iter().filter_map(|one| one.out.map(|out| out.back));
        order.into_iter().chain(back).min().unwrap_or(Instant::MAX)
    }

    /// Runs a job until it gives way or is over.
    fn run_turn(
        &mut self,
        mut turn: rmdp::Turn,
        cpu: &mut Cpu,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        let (job, release) = (turn.job, turn.release);
        let event = |at, kind| Event { at, job, release, kind };
        let begins = if turn.resumed { Kind::Resume } else { Kind::Start };
        sink.record(event(cpu.now(), begins));
        loop {
            let Some(processed) = self.iterate(job.task, turn.pdus, cpu) else {
                sink.record(event(cpu.now(), Kind::Contained));
                let left = self.policy.contain(cpu.now());
                let behind = Event::dropped(left, cpu.now()).filter(|e| e.kind != Kind::Abort);
                behind.for_each(|event| sink.record(event));
                return self.give_up(job.task, cpu.now());
            };
            let look = match turn.iterated(cpu.now(), processed) {
                YieldPoint::Continue => continue,
                YieldPoint::Look => self.policy.look(&mut turn, cpu.now()),
                YieldPoint::Complete => {
                    if let Some(missed) = self.policy.complete(&turn, cpu.now()) {
                        tell(missed, cpu.now(), sink);
                    }
                    sink.record(event(cpu.now(), Kind::Complete));
                    return Ok(());
                }
            };
            if let Some(missed) = look.missed {
                tell(missed, cpu.now(), sink);
            }
            match look.then {
                Then::Continue => {}
                Then::Abort => return Ok(()),
                Then::Yield => {
                    sink.record(event(cpu.now(), Kind::GiveWay));
                    return Ok(());
                }
            }
        }
    }

    /// Runs a best-effort handler's turn.
    fn run_quantum(
        &mut self,
        turn: &virtual_time::Turn,
        cpu: &mut Cpu,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        let (job, release, began) = (turn.job, turn.release, cpu.now());
        let mut emit = |at, kind| sink.record(Event { at, job, release, kind });
        if !turn.resumed {
            emit(began, Kind::Start);
        }
        let Some(processed) = self.iterate(job.task, turn.pdus, cpu) else {
            emit(cpu.now(), Kind::Contained);
            self.best_effort.contain(job.task)?;
            return self.give_up(job.task, cpu.now());
        };
        if processed == 0 {
            emit(cpu.now(), Kind::Complete);
        }
        let service = (cpu.now() - began).as_full_service();
        self.best_effort.ended(turn, cpu.now(), processed, service);
        Ok(())
    }

    /// Runs one iteration. Returns `None` if the guard gave up before it ended.
    fn iterate(&mut self, task: u32, pdus: u32, cpu: &mut Cpu) -> Option<u32> {
        let at = self.find(task).expect("the policies know only members");
        let member = &mut self.members[at];
        let began = cpu.now();
        let processed = member.handler.iterate(began, pdus);
        let service = (self.service)(&member.handler, processed);
        if let Some(guard) = self.guard {
            let limit = member.quantum_service() + guard.grace.as_full_service();
            if service > limit {
                cpu.run(limit);
                // It goes on aside, and uses no processor time of this CPU.
                let back = began + service.at_full_speed();
                member.out = Some(Out { back, not_before: Instant::ZERO });
                return None;
            }
        }
        cpu.run(service);
        self.members[at].handler.commit(cpu.now());
        Some(processed)
    }

    fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.members.binary_search_by_key(&task, |one| one.task).map_err(|_| NoSuchUpcall { task })
    }

    fn follow_orders(&mut self, now: Instant, sink: &mut impl Sink) -> Result<(), OrderError> {
        while self.orders.front().is_some_and(|(at, _)| *at <= now) {
            let (_, order) = self.orders.pop_front().expect("there is one");
            self.follow(order, now, sink)?;
        }
        Ok(())
    }

    fn follow(
        &mut self,
        order: Order<H>,
        now: Instant,
        sink: &mut impl Sink,
    ) -> Result<(), OrderError> {
        match order {
            Order::Create { task, upcall, handler, first_release } => {
                self.is_free(task)?;
                self.policy.create(task, &upcall, first_release, now)?;
                self.join(Member::new(task, Promise::RealTime(upcall), handler));
            }
            Order::CreateBestEffort { task, upcall, handler } => {
                self.is_free(task)?;
                self.best_effort.create(task, &upcall, now)?;
                self.join(Member::new(task, Promise::BestEffort(upcall), handler));
            }
            Order::Close { task } => self.close(task, now, sink)?,
            Order::Suspend { task } => {
                let at = self.find(task)?;
                self.members[at].suspended = true;
                match self.members[at].kind {
                    Promise::RealTime(_) => drop_jobs(self.policy.suspend(task, now)?, now, sink),
                    Promise::BestEffort(_) => self.best_effort.suspend(task)?,
                }
            }
            Order::Resume { task } => {
                let at = self.find(task)?;
                let member = &mut self.members[at];
                member.suspended = false;
                match (&member.kind, member.out) {
                    (_, Some(_)) => {}
                    (Promise::RealTime(_), None) => {
                        let _next = self.policy.resume(task, now)?;
                    }
                    (Promise::BestEffort(_), None) => self.best_effort.resume(task, now)?,
                }
            }
            Order::Change { task, upcall } => {
                let at = self.find(task)?;
                drop_jobs(self.policy.change(task, &upcall, now)?, now, sink);
                self.members[at].kind = Promise::RealTime(upcall);
            }
        }
        Ok(())
    }

    fn close(&mut self, task: u32, now: Instant, sink: &mut impl Sink) -> Result<(), OrderError> {
        let at = self.find(task)?;
        match self.members.remove(at).kind {
            Promise::RealTime(_) => drop_jobs(self.policy.close(task, now)?, now, sink),
            Promise::BestEffort(_) => self.best_effort.close(task)?,
        }
        Ok(())
    }

    fn join(&mut self, member: Member<H>) {
        let at = self.members.partition_point(|other| other.task < member.task);
        self.members.insert(at, member);
    }

    fn is_free(&self, task: u32) -> Result<(), CreateError> {
        if self.find(task).is_ok() { Err(CreateError::Taken { task }) } else { Ok(()) }
    }

    /// Contains a handler that did not return in time. It rejoins a longest period later, or never.
    fn give_up(&mut self, task: u32, now: Instant) -> Result<(), OrderError> {
        let longest = self.longest_period();
        let most = self.guard.map_or(1, |guard| guard.most);
        let at = self.find(task)?;
        let member = &mut self.members[at];
        member.contained += 1;
        if let Some(out) = &mut member.out {
            out.not_before = now.saturating_add(longest);
        }
        if member.contained >= most {
            self.close(task, now, &mut ())?;
        }
        Ok(())
    }

    fn longest_period(&self) -> Duration {
        let periods = self.members.iter().filter_map(|one| match &one.kind {
            Promise::RealTime(upcall) => Some(upcall.period()),
            Promise::BestEffort(_) => None,
        });
        periods.max().unwrap_or(Duration::ZERO)
    }

    /// Releases contained handlers again that have returned.
    fn take_back(&mut self, now: Instant) -> Result<(), OrderError> {
        for member in &mut self.members {
            let Some(Out { not_before, .. }) = member.out.take_if(|out| out.back <= now) else {
                continue;
            };
            member.handler.commit(now);
            if member.suspended {
                continue;
            }
            match member.kind {
                Promise::RealTime(_) => {
                    let _next = self.policy.resume(member.task, now.max(not_before))?;
                }
                Promise::BestEffort(_) => {
                    self.best_effort.resume(member.task, now.max(not_before))?;
                }
            }
        }
        Ok(())
    }
}

fn tell(missed: Missed, now: Instant, sink: &mut impl Sink) {
    let Missed { oldest, release, jobs, fate, .. } = missed;
    let kind = match fate {
        Fate::Late => Kind::Overrun { jobs },
        Fate::Skipped => Kind::Skip { jobs },
        Fate::Aborted => Kind::Abort,
    };
    sink.record(Event { at: now, job: oldest, release, kind });
}

/// An order of the upcalls' owner, followed between two turns.
#[derive(Debug)]
pub enum Order<H> {
    /// Creates a real-time upcall.
    Create {
        /// Its number in all events.
        task: u32,
        /// Its contract.
        upcall: Upcall,
        /// Its code.
        handler: H,
        /// The release of its first job. If that has passed, see
        /// [`first_release`](punctual_policy::rmdp::first_release).
        first_release: Instant,
    },
    /// Creates a best-effort upcall, which is runnable from now on.
    CreateBestEffort {
        /// Its number in all events.
        task: u32,
        /// Its parameters.
        upcall: BestEffort,
        /// Its code.
        handler: H,
    },
    /// Closes an upcall.
    Close {
        /// Its number.
        task: u32,
    },
    /// Stops the releases of an upcall.
    Suspend {
        /// Its number.
        task: u32,
    },
    /// Releases a suspended upcall again, at the instants of its old phase.
    Resume {
        /// Its number.
        task: u32,
    },
    /// Changes the contract of an upcall.
    Change {
        /// Its number.
        task: u32,
        /// Its contract from now on.
        upcall: Upcall,
    },
}

/// The reason why an order cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// There is no room, or the number is taken.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is no such upcall.
    #[error(transparent)]
    NoSuchUpcall(#[from] NoSuchUpcall),
}

fn drop_jobs(left: Option<Backlog>, now: Instant, sink: &mut impl Sink) {
    left.into_iter().flat_map(|left| Event::dropped(left, now)).for_each(|e| sink.record(e));
}

/// A handler and its state.
#[derive(Debug)]
struct Member<H> {
    task: u32,
    kind: Promise,
    handler: H,
    /// The number of times that it was contained.
    contained: u32,
    /// Set while its handler is in an iteration that was given up.
    out: Option<Out>,
    /// Suspended by order, so that it does not rejoin by itself.
    suspended: bool,
}

#[derive(Debug)]
enum Promise {
    RealTime(Upcall),
    BestEffort(BestEffort),
}

/// A handler that did not return to its yield point in time.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// The instant at which it returns.
    back: Instant,
    /// The earliest instant of its next release.
    not_before: Instant,
}

impl<H> Member<H> {
    fn new(task: u32, kind: Promise, handler: H) -> Self {
        Self { task, kind, handler, contained: 0, out: None, suspended: false }
    }

    /// Returns the processor time that it may use between two yield points.
    fn quantum_service(&self) -> Service {
        match &self.kind {
            Promise::RealTime(upcall) => upcall.quantum_service(),
            Promise::BestEffort(upcall) => upcall.quantum_service(),
        }
    }
}
