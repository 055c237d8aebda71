//! One CPU after the other.

use std::cell::RefCell;
use std::slice;

use punctual_model::{Instant, Policy, Service, Task};
use punctual_policy::jobs::Jobs;
use punctual_policy::timetable::Turns;
use punctual_sim::arrivals::Arrivals;
use punctual_sim::overheads::Overheads;
use punctual_sim::processor::{Part, Processor, Tabled};
use punctual_sim::streams::Working;
use punctual_sim::tasks::{Below, Setting, run_in};
use punctual_trace::{Event, Sink, Summary};

use super::arrivals::{self, Draws, Purpose, longest_quantum};
use super::channels::Channels;
use super::entries::OnCpu;
use super::faults::{Cpu, Struck, broken};
use super::options::Args;
use super::receiving::Receiving;
use super::streams::Streams;
use super::traces::Traces;

/// What became of the entries of a CPU, in their order.
pub(super) struct Ran {
    pub(super) summary: Summary,
    pub(super) struck: Struck,
}

/// Runs what is on `cpu`, layer by layer: the kernel's reservations by deadline, the others in the slots of their
/// timetable, the thread that sends the messages of `sent` and beneath it the one that receives what comes for
/// `received` on what both leave, and tasks under the contract's policy on what they leave, the turns of `streams` among
/// them. A slot loses `allowance` at its start.
pub(super) fn run(
    args: &Args,
    policy: Policy,
    allowance: Service,
    cpu: u16,
    on_cpu: &OnCpu,
    (received, sent, streams): (&mut Receiving, Option<&mut Channels>, &Streams<'_>),
    traces: &mut Traces,
) -> Ran {
    let all = on_cpu.as_tasks();
    let (tasks, rest) = all.split_at(on_cpu.tasks);
    let (kernel, held) = rest.split_at(on_cpu.kernel);
    let draws = Draws { seed: args.draws_from(), cpu };
    let blocker = longest_quantum(tasks);
    let critical = arrivals::critical(args, tasks, blocker);
    let above = |entries, which| {
        arrivals::above(args, draws.rng_of(Purpose::Above, which), entries, critical)
    };
    let until = Instant::ZERO + args.until;
    // A reservation has the processor from its release on; who uses it wakes up as it can.
    let costs = Overheads { wake_up: Service::ZERO, ..args.overheads.unwrap_or_default().costs() };
    let sink = RefCell::new(Both::new(&all, traces, cpu));
    let of_entries = |first: usize| Layer { sink: &sink, first: Some(first as u32) };
    let mut whole = Cpu::of(args, draws);
    let mut of_owners: Vec<Cpu> = held.iter().map(|_| Cpu::of(args, draws)).collect();
    // The same each time that it runs: once beneath each owner of slots, and told of once.
    let without_kernels = |processor, sink| {
        let setting = Setting::default().costing(costs).on(processor, Instant::MAX);
        let jobs = Jobs::earliest_deadline(kernel.len());
        Below::new(setting, kernel, jobs, above(kernel, 1), until, sink)
    };
    let turns = || on_cpu.timetable.clone().map(|table| Turns::new(table, Instant::ZERO));
    for ((owner, entry), whole) in (0..).zip(held).zip(&mut of_owners) {
        let left = without_kernels(whole, Layer { sink: &sink, first: None });
        let slots = Tabled::new(left, turns(), Part::Slots(owner), allowance);
        let own = slice::from_ref(entry);
        let mut to = of_entries(all.len() - held.len() + owner as usize);
        let setting = Setting::default().on(slots, Instant::MAX);
        let jobs = Jobs::fixed_priority(&[0]);
        let left = run_in(setting, own, jobs, &mut above(own, 2 + owner), until, &mut to);
        debug_assert!(left.is_empty(), "{left:?}");
    }
    let mut left = without_kernels(&mut whole, of_entries(tasks.len()));
    let mut free = Tabled::new(&mut left, turns(), Part::Free, allowance);
    let first = Instant::ZERO + critical;
    let mut beneath = Beneath { args, draws, policy, on_cpu, tasks, until, streams, sink: &sink };
    let struck = match sent {
        None => beneath.run(received, first, &mut free),
        Some(sent) => {
            let end = sent.end();
            let mut thread = sent.thread(args, first, &mut free, streams);
            let struck = beneath.run(received, first, &mut thread);
            // What is left is counted as not sent.
            let _left = thread.finish(end);
            struck
        }
    };
    drop(free);
    left.finish();
    drop(left);
    let stolen_ns = whole.taken().as_nanos();
    Ran { summary: sink.into_inner().summary, struck: Struck { stolen_ns, ..struck } }
}

/// The thread that receives on a CPU, and the tasks.
struct Beneath<'a, 'b> {
    args: &'a Args,
    draws: Draws,
    policy: Policy,
    on_cpu: &'a OnCpu,
    tasks: &'a [Task],
    until: Instant,
    streams: &'a Streams<'b>,
    sink: &'a RefCell<Both<'b>>,
}

impl Beneath<'_, '_> {
    /// Runs them on what is left of their processor: messages come for `received` from `first` on.
    fn run(
        &mut self,
        received: &mut Receiving,
        first: Instant,
        processor: impl Processor,
    ) -> Struck {
        let mut left = received.thread(self.args, self.draws, first, processor);
        let struck = self.run_tasks(&mut left);
        received.see(&left.finish(received.end(self.args)));
        struck
    }

    fn run_tasks(&mut self, processor: impl Processor) -> Struck {
        let Self { args, draws, tasks, until, streams, sink, .. } = *self;
        let own = arrivals::own(args, draws, tasks, longest_quantum(tasks));
        let mut own = streams.turns(tasks, own);
        let of_task = &streams.of_tasks(tasks);
        let jobs = self.jobs();
        let turn = |arrivals: &mut dyn Arrivals| {
            let mut arrivals = arrivals;
            let costs = args.overheads.unwrap_or_default().costs();
            // Never away for ever, so everything is completed.
            let setting = Setting::default().costing(costs).on(processor, Instant::MAX);
            let sink = Layer { sink, first: Some(0) };
            let mut sink = Working { streams: streams.coupled(), of_task, sink };
            let left = run_in(setting, tasks, jobs, &mut arrivals, until, &mut sink);
            debug_assert!(left.is_empty(), "{left:?}");
        };
        broken(args, draws, tasks.len(), &mut own, turn)
    }

    fn jobs(&self) -> Jobs {
        if self.policy == Policy::EdfVd {
            let entries = &self.on_cpu.entries[..self.tasks.len()];
            let first: Vec<_> = entries.iter().map(|entry| entry.virtual_deadline).collect();
            return Jobs::edf_vd(self.tasks, &first, 0);
        }
        Jobs::of(self.policy, self.tasks, 0)
    }
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

/// Entries from `first` on, which run by themselves; `None`: they are told of elsewhere.
struct Layer<'a, 'b> {
    sink: &'a RefCell<Both<'b>>,
    first: Option<u32>,
}

impl Sink for Layer<'_, '_> {
    fn record(&mut self, event: Event) {
        let Some(first) = self.first else { return };
        let mut event = event;
        event.job.task += first;
        self.sink.borrow_mut().record(event);
    }
}
