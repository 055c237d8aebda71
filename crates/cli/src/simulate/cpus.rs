//! One CPU after the other, or all as one queue.

use punctual_model::{Contract, Instant, Policy, Task};
use punctual_policy::global::Global;
use punctual_policy::jobs::Jobs;
use punctual_sim::global;
use punctual_sim::tasks::{Setting, run_in};
use punctual_trace::{Event, Sink, Summary};

use super::arrivals::{Draws, Patterns, longest_quantum};
use super::entries::OnCpu;
use super::faults::{Cpu, Struck, broken};
use super::options::Args;
use super::traces::Traces;
use crate::exit::Failure;

/// What became of the entries of a CPU, in their order.
pub(super) struct Ran {
    pub(super) summary: Summary,
    pub(super) struck: Struck,
}

/// Runs what is on `cpu` under the contract's policy.
pub(super) fn run(
    args: &Args,
    policy: Policy,
    cpu: u16,
    on_cpu: &OnCpu,
    traces: &mut Traces,
) -> Ran {
    let all = on_cpu.as_tasks();
    let (tasks, above) = all.split_at(on_cpu.tasks);
    let draws = Draws { seed: args.draws_from(), cpu };
    let mut patterns = Patterns::new(args, draws, tasks, above, longest_quantum(tasks));
    let jobs = jobs(policy, on_cpu);
    let until = Instant::ZERO + args.until;
    let mut sink = Both::new(&all, traces, cpu);
    let mut processor = Cpu::of(args, draws);
    let costs = args.overheads.unwrap_or_default().costs();
    let turn = |arrivals: &mut dyn punctual_sim::arrivals::Arrivals| {
        let mut arrivals = arrivals;
        // Never away for ever, so everything is completed.
        let setting = Setting::default().costing(costs).on(&mut processor, Instant::MAX);
        let left = run_in(setting, &all, jobs, &mut arrivals, until, &mut sink);
        debug_assert!(left.is_empty(), "{left:?}");
    };
    let struck = broken(args, draws, tasks.len(), &mut *patterns.own, &mut *patterns.above, turn);
    let summary = sink.summary;
    let stolen_ns = processor.taken().as_nanos();
    Ran { summary, struck: Struck { stolen_ns, ..struck } }
}

/// The order of a CPU's tasks, with what is above them.
pub(super) fn jobs(policy: Policy, on_cpu: &OnCpu) -> Jobs {
    let all = on_cpu.as_tasks();
    let (tasks, above) = all.split_at(on_cpu.tasks);
    if policy == Policy::EdfVd {
        let first: Vec<_> = on_cpu.entries.iter().map(|entry| entry.virtual_deadline).collect();
        return Jobs::edf_vd(tasks, &first, above.len() as u32);
    }
    Jobs::of(policy, tasks, above.len() as u32)
}

/// Runs all tasks of `contract` on all its CPUs, its reservations before them.
pub(super) fn run_globally(
    args: &Args,
    contract: &Contract,
    on_all: &OnCpu,
    traces: &mut Traces,
) -> Result<Ran, Failure> {
    let policy = global_policy(contract, on_all)?;
    let all = on_all.as_tasks();
    let (tasks, above) = all.split_at(on_all.tasks);
    let draws = Draws { seed: args.draws_from(), cpu: 0 };
    // Nobody's quantum keeps anybody off.
    let mut patterns = Patterns::new(args, draws, tasks, above, None);
    let until = Instant::ZERO + args.until;
    let mut sink = Both::new(&all, traces, 0);
    let turn = |arrivals: &mut dyn punctual_sim::arrivals::Arrivals| {
        let mut arrivals = arrivals;
        global::run(&all, contract.cpus.into(), policy, &mut arrivals, until, &mut sink);
    };
    let struck = broken(args, draws, tasks.len(), &mut *patterns.own, &mut *patterns.above, turn);
    Ok(Ran { summary: sink.summary, struck })
}

fn global_policy(contract: &Contract, on_all: &OnCpu) -> Result<Global, Failure> {
    let refuse = |why: &str| Err(Failure::bad_input(format!("--global: {why}")));
    if !contract.channels.is_empty() {
        return refuse("the handlers of channels stay on one CPU; run it without");
    }
    let (cpus, tasks) = (u32::from(contract.cpus), on_all.tasks as u32);
    let mut order: Vec<u32> = (0..tasks).collect();
    match contract.policy {
        Policy::Rmdp | Policy::Rm => {
            order.sort_by_key(|task| on_all.entries[*task as usize].task.min_inter_arrival())
        }
        Policy::Fp => {}
        Policy::Edf if contract.reservations.is_empty() => {
            return Ok(Global::earliest_deadline(cpus, on_all.tasks));
        }
        Policy::Edf => {
            return refuse(
                "under edf nothing goes before all tasks, as reservations would have to",
            );
        }
        Policy::EdfVd => return refuse("there is no edf-vd over several CPUs"),
        Policy::Fifo => return refuse("there is no first in, first out over several CPUs"),
    }
    let above = tasks..on_all.entries.len() as u32;
    let order: Vec<u32> = above.chain(order).collect();
    Ok(Global::fixed_priority(cpus, &order))
}

/// Every event goes into the summary, and into the traces if there are any.
struct Both<'a> {
    summary: Summary,
    traces: &'a mut Traces,
    cpu: u16,
    names: Vec<&'a str>,
}

impl<'a> Both<'a> {
    fn new(tasks: &'a [Task], traces: &'a mut Traces, cpu: u16) -> Self {
        let names = tasks.iter().map(Task::name).collect();
        Self { summary: Summary::new(tasks), traces, cpu, names }
    }
}

impl Sink for Both<'_> {
    fn record(&mut self, event: Event) {
        self.summary.record(event);
        self.traces.record(self.cpu, self.names[event.job.task as usize], event);
    }
}
