//! The tasks of executors on the CPUs of a system, within the share of each that may be promised.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::Task;
use punctual_model::units::percent;

use super::{BANDWIDTH, Request, System};
use crate::incremental::Denial;
use crate::load::TaskLoad;
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource, Shortfall};

impl<Id: Copy + Ord> System<Id> {
    /// Returns the share of `request` that counts against the limit on grants.
    pub(super) fn counted_ppm(&self, request: Request<'_>) -> u64 {
        match request {
            Request::Executor(_) if self.unbounded => 0,
            _ => request.share_ppm(),
        }
    }

    pub(super) fn within_limits(&self, wanted: u64) -> Result<(), Box<Refusal>> {
        let most = self.host.reservable_ppm;
        within(wanted, most, || {
            let (wanted, most) = (percent(wanted), percent(most));
            format!("{wanted} of a CPU is more than the {most} of one CPU that may be promised")
        })?;
        let taken = self.granted_ppm + self.leaving_ppm() + self.withheld_ppm + self.slots_ppm();
        let left = self.capacity_ppm().saturating_sub(taken);
        within(wanted, left, || {
            let (wanted, left) = (percent(wanted), percent(left));
            format!("{wanted} of a CPU is wanted and {left} is left on all CPUs together")
        })
    }

    pub(super) fn loads_of(&self, tasks: &[Task]) -> Box<[TaskLoad]> {
        tasks.iter().map(|task| TaskLoad::new(task, self.host.context_switch)).collect()
    }

    pub(super) fn place(
        &mut self,
        id: Id,
        tasks: &[Task],
        loads: &[TaskLoad],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<usize, Box<Refusal>> {
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&cpu| Reverse(self.cpus[cpu].share_ppm()));
        let mut refusals = Vec::with_capacity(order.len());
        for cpu in order {
            match self.place_on(cpu, id, tasks, loads, share_ppm, steps) {
                Ok(()) => return Ok(cpu),
                Err(refusal) => refusals.push((cpu, refusal)),
            }
        }
        Err(self.on_no_cpu(tasks, refusals))
    }

    /// Refuses tasks that fit on no CPU, with the numbers of the CPU with the least shortfall.
    pub(super) fn on_no_cpu(
        &self,
        tasks: &[Task],
        refusals: Vec<(usize, Box<Refusal>)>,
    ) -> Box<Refusal> {
        let short = |refusal: &Refusal| match refusal.shortfall {
            Some(Shortfall::Time(time)) => (0, time.as_nanos()),
            Some(Shortfall::Share(ppm)) => (1, ppm),
            _ => (2, 0),
        };
        // Of equal ones the fullest.
        let nearest = refusals.into_iter().min_by_key(|(_, refusal)| short(refusal));
        let Some((cpu, refusal)) = nearest else {
            let why = "the host promises no CPU".into();
            return Box::new(Refusal::new("cpus", Resource::Cpus, why));
        };
        let cpus = self.cpus.len();
        if cpus == 1 {
            return refusal;
        }
        let what = match tasks {
            [task] => format!("task \"{}\" fits", task.name()),
            _ => format!("{} tasks of one executor fit", tasks.len()),
        };
        let why = &refusal.why;
        let why = format!("{what} on none of the {cpus} CPUs; nearest on CPU {cpu}, where {why}");
        Box::new(Refusal { why, ..*refusal })
    }

    pub(super) fn place_on(
        &mut self,
        cpu: usize,
        id: Id,
        tasks: &[Task],
        loads: &[TaskLoad],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let (has, most) = (self.cpus[cpu].share_ppm(), self.host.reservable_ppm);
        within(has + share_ppm, most, || {
            let (wanted, has, most) = (percent(share_ppm), percent(has), percent(most));
            format!("{wanted} beside {has} is more than the {most} of one CPU")
        })?;
        self.cpus[cpu]
            .admit(id, loads, share_ppm, steps)
            .map_err(|(at, denial): (_, Denial)| late(denial, tasks.get(at)))
    }
}

fn within(wanted: u64, most: u64, why: impl FnOnce() -> String) -> Result<(), Box<Refusal>> {
    match wanted.checked_sub(most) {
        None | Some(0) => Ok(()),
        Some(short) => Err(Box::new(Refusal {
            shortfall: Some(Shortfall::Share(short)),
            ..Refusal::new(BANDWIDTH, Resource::Bandwidth, why())
        })),
    }
}

/// Refuses a request that makes a task late. Names the task if it is `asked`, because the tasks of
/// other holders are private.
pub(super) fn late(denial: Denial, asked: Option<&Task>) -> Box<Refusal> {
    let own = asked.map_or_else(|| "a task".into(), |task| format!("task \"{}\"", task.name()));
    let named = asked.filter(|_| denial.is_of_own());
    Box::new(Refusal {
        entry: named.map(|task| task.name().into()),
        shortfall: denial.shortfall().map(Shortfall::Time),
        ..Refusal::new("response-time", Resource::Cpu, denial.said_of(&own))
    })
}
