//! Runs one CPU after the other, in layers: the reservations, and below them the tasks.

use std::cell::RefCell;
use std::slice;

use punctual_analysis::{Grant, Refusal};
use punctual_model::contract::NamedReservation;
use punctual_model::{
    Contract, Duration, Instant, Policy, Reservation, Service, Task, TaskSpec, Timetable,
};
use punctual_policy::jobs::Jobs;
use punctual_policy::timetable::Turns;
use punctual_sim::arrivals::Arrivals;
use punctual_sim::overheads::Overheads;
use punctual_sim::processor::{Part, Processor, Served, Tabled};
use punctual_sim::streams::Working;
use punctual_sim::tasks::{Below, Setting, run_in};
use punctual_trace::{Event, Promise, Sink, Subject, SubjectKind, Summary};

use super::arrivals::{self, Cpu, Draws, FaultCounts, Purpose, broken, longest_quantum};
use super::channels::Channels;
use super::options::Options;
use super::presence::{Presence, Present, Stay};
use super::receiving::Receiving;
use super::streams::Streams;
use crate::Failure;

/// An observer of a run in progress.
///
/// `()` observes nothing.
pub trait Watching: Sink {
    /// Receives the subjects of the events that follow, by their positions, and their `cpu`.
    ///
    /// # Errors
    /// Any error of the observer; it ends the run.
    fn turn_to(&mut self, cpu: u16, subjects: &[Subject]) -> Result<(), Failure>;
}

impl Watching for () {
    fn turn_to(&mut self, _: u16, _: &[Subject]) -> Result<(), Failure> {
        Ok(())
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Reservation,
}

/// A task, or a higher layer in the form of a task, with the bound that admission proved.
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) bound: Option<Duration>,
    /// Used under `edf-vd`, if it is not the task's own.
    pub(super) virtual_deadline: Option<Duration>,
    pub(super) kind: Kind,
    pub(super) stay: Stay,
}

impl Entry {
    fn subject(&self, cpu: u16) -> Subject {
        let task = &self.task;
        let kind = match self.kind {
            Kind::Task => SubjectKind::Task,
            Kind::Reservation => SubjectKind::Reservation,
        };
        let promise = Promise {
            period: Some(task.min_inter_arrival()),
            relative_deadline: Some(task.relative_deadline()),
            wcet: Some(task.wcet()),
        };
        Subject { promise, cpu: Some(cpu), ..Subject::new(task.name(), kind) }
    }
}

/// The entries of a CPU.
pub(super) struct OnCpu {
    /// Tasks, then the kernel's reservations, then those of the timetable in the order of its
    /// owners, then those of servers in the order of their levels.
    pub(super) entries: Vec<Entry>,
    pub(super) tasks: usize,
    pub(super) kernel: usize,
    pub(super) timetable: Option<Timetable>,
    pub(super) served: Vec<Reservation>,
}

impl OnCpu {
    fn new(tasks: Vec<Entry>, kernel: Vec<Entry>) -> Self {
        let counts = (tasks.len(), kernel.len());
        let entries = tasks.into_iter().chain(kernel).collect();
        let (tasks, kernel) = counts;
        Self { entries, tasks, kernel, timetable: None, served: Vec::new() }
    }

    /// Returns the entries as subjects for an observer.
    pub(super) fn subjects(&self, cpu: u16) -> Vec<Subject> {
        self.entries.iter().map(|entry| entry.subject(cpu)).collect()
    }

    /// Returns all entries as tasks.
    pub(super) fn as_tasks(&self) -> Vec<Task> {
        self.entries.iter().map(|entry| entry.task.clone()).collect()
    }
}

/// Returns the entries of `cpu` as admission placed them. A contract that was refused runs on the
/// only CPU.
pub(super) fn on_cpu(cpu: u16, contract: &Contract, answer: &Result<Grant, Box<Refusal>>) -> OnCpu {
    let grant = answer.as_ref().ok();
    let stay = Stay::throughout(cpu);
    let here = |placed: Option<u16>| placed.unwrap_or(0) == cpu;
    let tasks = contract.tasks.iter().enumerate().filter_map(|(at, task)| {
        let granted = grant.map(|grant| &grant.tasks[at]);
        here(granted.map(|granted| granted.cpu)).then(|| Entry {
            task: task.clone(),
            bound: granted.map(|granted| granted.response_time_bound),
            virtual_deadline: granted.and_then(|granted| granted.virtual_deadline),
            kind: Kind::Task,
            stay,
        })
    });
    let table = grant.and_then(|grant| grant.timetables.iter().find(|table| table.cpu == cpu));
    let held: &[usize] = table.map_or(&[], |table| &table.holds);
    let bound = |at: usize| grant.and_then(|grant| grant.reservations[at].job_within);
    let kernel = reservations(contract, |at| {
        let is_here = here(grant.map(|grant| grant.reservations[at].cpu));
        (is_here && !held.contains(&at) && bound(at).is_none()).then_some(stay)
    });
    let mut on_cpu = OnCpu::new(tasks.collect(), kernel);
    on_cpu.entries.extend(held.iter().map(|&at| reservation(&contract.reservations[at], stay)));
    on_cpu.timetable = table.map(|table| table.table.clone());
    let all = contract.reservations.iter().enumerate();
    let granted = |at: usize| grant.map(|grant| grant.reservations[at].cpu);
    let served = all.filter(|(at, _)| bound(*at).is_some() && here(granted(*at)));
    let mut served: Vec<(usize, &NamedReservation)> = served.collect();
    // As admission orders their levels.
    served.sort_by_key(|(at, named)| (named.reservation.period(), *at));
    for (at, named) in served {
        on_cpu.entries.push(Entry { bound: bound(at), ..reservation(named, stay) });
        on_cpu.served.push(named.reservation);
    }
    on_cpu
}

/// Returns the entries of `cpu` for a contract whose entries join and leave. An entry that joins
/// later may increase response times beyond what was proven before, so only deadlines are proven.
pub(super) fn on_cpu_while(
    cpu: u16,
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
    presence: &Presence,
) -> OnCpu {
    let here = |name: &str| presence.of_entry(name).filter(|stay| stay.cpu == cpu);
    let tasks = contract.tasks.iter().filter_map(|task| {
        let stay = here(task.name())?;
        let (bound, virtual_deadline) = (None, None);
        Some(Entry { task: task.clone(), bound, virtual_deadline, kind: Kind::Task, stay })
    });
    let tasks: Vec<Entry> = tasks.collect();
    if contract.commands.is_empty() && contract.cpus == 1 {
        return OnCpu::new(
            tasks,
            reservations(contract, |at| here(&contract.reservations[at].name)),
        );
    }
    // Reservations are always present, where they were placed.
    let above = Contract { tasks: Vec::new(), ..contract.clone() };
    let above = on_cpu(cpu, &above, answer);
    let count = tasks.len();
    OnCpu { entries: tasks.into_iter().chain(above.entries).collect(), tasks: count, ..above }
}

/// Returns the reservations that are present, shorter periods first. In the search for a witness
/// they have fixed priorities, and this is the best order for two of them.
fn reservations(contract: &Contract, stay: impl Fn(usize) -> Option<Stay>) -> Vec<Entry> {
    let all = contract.reservations.iter().enumerate();
    let mut entries: Vec<Entry> =
        all.filter_map(|(at, named)| Some(reservation(named, stay(at)?))).collect();
    entries.sort_by_key(|entry| entry.task.min_inter_arrival());
    entries
}

fn reservation(named: &NamedReservation, stay: Stay) -> Entry {
    let (budget, period) = (named.reservation.budget(), named.reservation.period());
    // A valid reservation has 0 < budget ≤ period; a task needs no more.
    let task = Task::new(TaskSpec::periodic(&named.name, period, budget))
        .expect("a valid reservation is a valid task");
    Entry { task, bound: None, virtual_deadline: None, kind: Kind::Reservation, stay }
}

/// The results of the entries of a CPU, in their order.
pub(super) struct Ran {
    pub(super) summary: Summary,
    pub(super) struck: FaultCounts,
}

/// Runs the entries of `cpu`, layer by layer, each on the time that those above it leave: the
/// kernel's reservations by deadline, those of commands in the slots of their timetable or in
/// servers, the
/// thread that sends the messages of `sent`, the thread that receives those of `received`, and
/// tasks under the contract's policy, including the upcalls of `streams`. A slot loses `allowance`
/// at its start, and a server's driver looks that late.
pub(super) fn run(
    options: &Options,
    policy: Policy,
    allowance: Service,
    cpu: u16,
    on_cpu: &OnCpu,
    (received, sent, streams): (&mut Receiving, Option<&mut Channels>, &Streams<'_>),
    watching: &mut dyn Watching,
) -> Ran {
    let all = on_cpu.as_tasks();
    let (tasks, rest) = all.split_at(on_cpu.tasks);
    let (kernel, held) = rest.split_at(on_cpu.kernel);
    let (held, served) = held.split_at(held.len() - on_cpu.served.len());
    let draws = Draws { seed: options.draws_from(), cpu };
    let blocker = longest_quantum(tasks);
    let critical = arrivals::critical(options, tasks, blocker);
    let stays: Vec<Stay> = on_cpu.entries.iter().map(|entry| entry.stay).collect();
    let (of_tasks, of_rest) = stays.split_at(on_cpu.tasks);
    let (of_kernel, of_held) = of_rest.split_at(on_cpu.kernel);
    let (of_held, of_served) = of_held.split_at(held.len());
    let above = |entries, which, stays: &[Stay]| {
        let rng = draws.rng_of(Purpose::Above, which);
        let arrivals = arrivals::above(options, rng, entries, critical);
        Present { arrivals, stays: stays.to_vec() }
    };
    let until = Instant::ZERO + options.until;
    // A reservation has the processor from its release on, and its program pays for its own
    // wake-up.
    let costs =
        Overheads { wake_up: Service::ZERO, ..options.overheads.unwrap_or_default().costs() };
    let sink = RefCell::new(Both { summary: Summary::new(&all), watching });
    let of_entries = |first: usize| Layer { sink: &sink, first: Some(first as u32) };
    let mut whole = Cpu::of(options, draws);
    let mut of_owners: Vec<Cpu> = held.iter().map(|_| Cpu::of(options, draws)).collect();
    // The kernel's reservations run alike below each owner of slots, but are recorded only once.
    let without_kernels = |processor, sink| {
        let setting = Setting::default().costing(costs).on(processor, Instant::MAX);
        let jobs = Jobs::earliest_deadline(kernel.len());
        Below::new(setting, kernel, jobs, above(kernel, 1, of_kernel), until, sink)
    };
    let turns = || on_cpu.timetable.clone().map(|table| Turns::new(table, Instant::ZERO));
    for ((owner, entry), whole) in (0..).zip(held).zip(&mut of_owners) {
        let left = without_kernels(whole, Layer { sink: &sink, first: None });
        let slots = Tabled::new(left, turns(), Part::Slots(owner), allowance);
        let own = slice::from_ref(entry);
        let mut to = of_entries(tasks.len() + kernel.len() + owner as usize);
        let setting = Setting::default().on(slots, Instant::MAX);
        let jobs = Jobs::fixed_priority(&[0]);
        let stay = slice::from_ref(&of_held[owner as usize]);
        let mut arrivals = above(own, 2 + owner, stay);
        let left = run_in(setting, own, jobs, &mut arrivals, until, &mut to);
        debug_assert!(left.is_empty(), "{left:?}");
    }
    let mut left = without_kernels(&mut whole, of_entries(tasks.len()));
    let budgets = on_cpu.served.iter().copied();
    let jobs = above(served, 2, of_served);
    let of_served = of_entries(all.len() - served.len());
    let mut servers = Served::new(&mut left, budgets, jobs, until, allowance, of_served);
    let mut free = Tabled::new(&mut servers, turns(), Part::Free, allowance);
    let first = Instant::ZERO + critical;
    let mut beneath = Beneath {
        options,
        draws,
        policy,
        on_cpu,
        tasks,
        stays: of_tasks,
        until,
        streams,
        sink: &sink,
    };
    let struck = match sent {
        None => beneath.run(received, first, &mut free),
        Some(sent) => {
            let end = sent.end();
            let mut thread = sent.thread(options, first, &mut free, streams);
            let struck = beneath.run(received, first, &mut thread);
            // Messages that are left are counted as not sent.
            let _left = thread.finish(end);
            struck
        }
    };
    drop(free);
    servers.finish();
    drop(servers);
    left.finish();
    drop(left);
    let stolen_ns = whole.taken().as_nanos();
    Ran { summary: sink.into_inner().summary, struck: FaultCounts { stolen_ns, ..struck } }
}

/// The thread that receives on a CPU, and the tasks.
struct Beneath<'a, 'b> {
    options: &'a Options,
    draws: Draws,
    policy: Policy,
    on_cpu: &'a OnCpu,
    tasks: &'a [Task],
    stays: &'a [Stay],
    until: Instant,
    streams: &'a Streams<'b>,
    sink: &'a RefCell<Both<'b>>,
}

impl Beneath<'_, '_> {
    /// Runs both on the time that is left of the processor. Messages come for `received` from
    /// `first` on.
    fn run(
        &mut self,
        received: &mut Receiving,
        first: Instant,
        processor: impl Processor,
    ) -> FaultCounts {
        let mut left = received.thread(self.options, self.draws, first, processor);
        let struck = self.run_tasks(&mut left);
        received.see(&left.finish(received.end(self.options)));
        struck
    }

    fn run_tasks(&mut self, processor: impl Processor) -> FaultCounts {
        let Self { options, draws, tasks, until, streams, sink, .. } = *self;
        let own = arrivals::own(options, draws, tasks, longest_quantum(tasks));
        let own = Present { arrivals: own, stays: self.stays.to_vec() };
        let mut own = streams.turns(tasks, own);
        let of_task = &streams.of_tasks(tasks);
        let jobs = self.jobs();
        let turn = |arrivals: &mut dyn Arrivals| {
            let mut arrivals = arrivals;
            let costs = options.overheads.unwrap_or_default().costs();
            // The processor is never away for ever, so all jobs complete.
            let setting = Setting::default().costing(costs).on(processor, Instant::MAX);
            let sink = Layer { sink, first: Some(0) };
            let mut sink = Working { streams: streams.coupled(), of_task, sink };
            let left = run_in(setting, tasks, jobs, &mut arrivals, until, &mut sink);
            debug_assert!(left.is_empty(), "{left:?}");
        };
        broken(options, draws, tasks.len(), &mut own, turn)
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

/// A sink that passes every event to the summary and to the observer.
struct Both<'a> {
    summary: Summary,
    watching: &'a mut dyn Watching,
}

impl Sink for Both<'_> {
    fn record(&mut self, event: Event) {
        self.summary.record(event);
        self.watching.record(event);
    }
}

/// A sink for entries from `first` on; `None` drops events that another layer records.
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
