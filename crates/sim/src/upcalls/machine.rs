//! Runs the loop of the live runtime in virtual time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Handler, Instant, Service};
use punctual_policy::rmdp::{self, Fate, Missed, NoSuchUpcall, Rmdp, Then, YieldPoint};
use punctual_policy::virtual_time::{self, VirtualTime};
use punctual_trace::{Event, Kind, Sink};

use crate::cpu::Cpu;

use super::member::{Member, Out};
use super::orders::{Order, OrderError};

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
    pub(super) policy: Rmdp,
    pub(super) best_effort: VirtualTime,
    /// In the order of their numbers.
    pub(super) members: Vec<Member<H>>,
    service: S,
    pub(super) guard: Option<Guard>,
    /// In the order of their instants.
    pub(super) orders: VecDeque<(Instant, Order<H>)>,
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

    pub(super) fn find(&self, task: u32) -> Result<usize, NoSuchUpcall> {
        self.members.binary_search_by_key(&task, |one| one.task).map_err(|_| NoSuchUpcall { task })
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
