//! Runs a scenario on this kernel.

use punctual_linux::clock;
use punctual_model::{Duration, Handler, HostProfile, Instant};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::Event;

use crate::scenario::{Command, Scenario, Step, best_effort};

/// A handler whose iterations sleep for their time: only the order of decisions matters, and the
/// host is shared.
struct Stepper {
    step: Step,
    unit: Duration,
}

impl Handler for Stepper {
    fn iterate(&mut self, now: Instant, _: u32) -> u32 {
        let (takes, pdus) = self.step.take();
        clock::sleep_until(now + self.unit * takes);
        pdus
    }
}

pub(crate) fn run(scenario: &Scenario, unit: Duration, placement: Placement) -> Vec<Event> {
    let stepper = |script| Stepper { step: Step::of(script), unit };
    let upcalls: Upcalls<Stepper> = Upcalls::new(placement, HostProfile::ideal(1));
    let upcalls = match scenario.containment {
        Some((grace, most)) => upcalls.with_grace(unit * grace).with_most_containments(most),
        None => upcalls.without_containment(),
    };
    let mut running = upcalls.run(clock::now()).expect("tried out before");
    let start = clock::now() + unit * 6;
    let at = |units: u64| start + unit * units;
    for (job, task) in scenario.jobs.iter().zip(0..) {
        let created = running.create(job.upcall(unit), stepper(job.script), at(job.first_release));
        assert_eq!(created.expect("admitted"), task);
    }
    for (when, order) in scenario.commands {
        clock::sleep_until(at(*when));
        match *order {
            Command::Create(job) => {
                let first_release = at(job.first_release);
                let created = running.create(job.upcall(unit), stepper(job.script), first_release);
                created.expect("admitted");
            }
            Command::Suspend(task) => running.suspend(task).expect("there"),
            Command::Resume(task) => running.resume(task).expect("there"),
            Command::Close(task) => drop(running.close(task).expect("there")),
            Command::Change(task, period) => {
                let job = crate::scenario::Job { period, ..scenario.jobs[task as usize] };
                running.change(task, job.upcall(unit)).expect("admitted");
            }
            Command::BestEffort { poll, script } => {
                let upcall = best_effort(poll, unit);
                running.create_best_effort(upcall, stepper(script)).expect("admitted");
            }
        }
    }
    clock::sleep_until(at(scenario.until));
    let events = running.stop().expect("kept its class").events;
    events.into_iter().filter(|event| event.at < at(scenario.until)).collect()
}
