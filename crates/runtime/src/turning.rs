//! The loop that turns the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie a clock read, a compare, and a look at the table
//! of other processes' releases; between two handlers of the process there is no lock, no
//! allocation and no system call, unless a more urgent upcall of another process waits.

use punctual_linux::clock;
use punctual_linux::park::Park;
use punctual_linux::sched::SchedError;
use punctual_model::{Backlog, Handler, Instant};
use punctual_policy::rmdp::{Next, Rmdp, Turn, YieldPoint};
use punctual_ring::spsc::Producer;
use punctual_trace::{Event, Kind};

use crate::ceiling::Ceiling;

/// What the thread owns while it turns.
pub(crate) struct Turning<'a, H> {
    pub(crate) policy: Rmdp,
    pub(crate) handlers: &'a mut [H],
    pub(crate) ceiling: Option<Ceiling>,
    pub(crate) events: Producer<Event>,
    pub(crate) stop: &'a Park,
}

impl<H: Handler> Turning<'_, H> {
    /// Turns until `stop` is woken; what is then released and not complete. An error only if the
    /// kernel takes the class away.
    pub(crate) fn run(mut self) -> Result<Vec<Backlog>, SchedError> {
        let mut now = clock::now();
        let mut gave_way = false;
        while !self.stop.is_woken() {
            match self.policy.next(now) {
                Next::Run(turn) => {
                    if let Some(ceiling) = &mut self.ceiling {
                        // Where it had to wait, its own upcalls may have been released as well.
                        if ceiling.rise()? {
                            now = clock::now();
                            continue;
                        }
                        // Once a quantum: so it gets on even if others never stop to press.
                        if !gave_way && ceiling.give_way(turn.job.task, now)? {
                            gave_way = true;
                            now = clock::now();
                            continue;
                        }
                        gave_way = false;
                    }
                    now = self.run_turn(turn, now);
                }
                Next::Idle { until, period } => {
                    if let Some(ceiling) = &mut self.ceiling {
                        ceiling.sink(period, until)?;
                    }
                    self.stop.sleep_until(until);
                    now = clock::now();
                }
            }
        }
        Ok(self.policy.unfinished(clock::now()).collect())
    }

    /// Runs a job until it gives way or is complete; returns the time then.
    fn run_turn(&mut self, turn: Turn, start: Instant) -> Instant {
        self.emit(turn, start, if turn.resumed { Kind::Resume } else { Kind::Start });
        let (mut now, mut pdus) = (start, turn.pdus);
        loop {
            let handler = &mut self.handlers[turn.job.task as usize];
            let processed = handler.iterate(now, pdus);
            now = clock::now();
            handler.commit(now);
            let kind = match self.policy.iterated(now, processed) {
                // Before the next turn, which may be of the same job, `run` gives way.
                YieldPoint::Continue { .. } if self.outranked(turn, now) => Kind::GiveWay,
                YieldPoint::Continue { pdus: more } => {
                    pdus = more;
                    continue;
                }
                YieldPoint::Yield => Kind::GiveWay,
                YieldPoint::Complete => Kind::Complete,
            };
            self.emit(turn, now, kind);
            return now;
        }
    }

    /// Whether another process has something more urgent than this job.
    fn outranked(&self, turn: Turn, now: Instant) -> bool {
        self.ceiling.as_ref().is_some_and(|ceiling| ceiling.must_give_way(turn.job.task, now))
    }

    /// A full ring drops the event and counts the loss: the upcalls go first.
    fn emit(&mut self, turn: Turn, at: Instant, kind: Kind) {
        self.events.push(Event { at, job: turn.job, release: turn.release, kind });
    }
}
