//! Runs a scenario on the simulator.

use punctual_model::{Duration, Handler, Instant, Service};
use punctual_sim::cpu::{Cpu, Supply};
use punctual_sim::upcalls::{Guard, Machine, Order as Machines};
use punctual_trace::Event;

use crate::scenario::{Command, Scenario, Step, best_effort};

struct Stepper {
    step: Step,
    takes: u64,
}

impl Handler for Stepper {
    fn iterate(&mut self, _: Instant, _: u32) -> u32 {
        let (takes, pdus) = self.step.take();
        self.takes = takes;
        pdus
    }
}

fn stepper(script: crate::scenario::Script) -> Stepper {
    Stepper { step: Step::of(script), takes: 0 }
}

pub(crate) fn run(scenario: &Scenario, unit: Duration) -> Vec<Event> {
    let at = |units: u64| Instant::ZERO + unit * units;
    let guard = scenario.containment.map(|(grace, most)| Guard { grace: unit * grace, most });
    let takes = |handler: &Stepper, _| Service::from_nanos(unit.as_nanos() * handler.takes);
    let mut machine = Machine::new(8, guard, takes);
    for (job, task) in scenario.jobs.iter().zip(0..) {
        let (upcall, handler) = (job.upcall(unit), stepper(job.script));
        let first_release = at(job.first_release);
        machine.order(at(0), Machines::Create { task, upcall, handler, first_release });
    }
    let mut created = scenario.jobs.len() as u32;
    for (when, order) in scenario.commands {
        let order = match *order {
            Command::Create(job) => {
                created += 1;
                let (upcall, handler) = (job.upcall(unit), stepper(job.script));
                let first_release = at(job.first_release);
                Machines::Create { task: created - 1, upcall, handler, first_release }
            }
            Command::Suspend(task) => Machines::Suspend { task },
            Command::Resume(task) => Machines::Resume { task },
            Command::Close(task) => Machines::Close { task },
            Command::Change(task, period) => {
                let job = crate::scenario::Job { period, ..scenario.jobs[task as usize] };
                Machines::Change { task, upcall: job.upcall(unit) }
            }
            Command::BestEffort { poll, script } => {
                created += 1;
                let (upcall, handler) = (best_effort(poll, unit), stepper(script));
                Machines::CreateBestEffort { task: created - 1, upcall, handler }
            }
        };
        machine.order(at(*when), order);
    }
    let mut events: Vec<Event> = Vec::new();
    let mut cpu = Cpu::new(Supply::Whole, Instant::ZERO);
    machine.run(&mut cpu, at(scenario.until), &mut events).expect("all orders can be followed");
    events
}
