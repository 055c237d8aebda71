//! What runs where: tasks, and above them reservations, in layers.

use punctual_analysis::{Grant, Refusal};
use punctual_model::contract::NamedReservation;
use punctual_model::{Contract, Duration, Task, TaskSpec, Timetable};

use super::{Args, refused};
use crate::exit::Failure;

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Reservation,
}

/// A task, or something above the tasks in the form of one, and what admission proved of it.
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) bound: Option<Duration>,
    /// Under `edf-vd`, where it is not its own.
    pub(super) virtual_deadline: Option<Duration>,
    pub(super) kind: Kind,
}

/// What a CPU has to do.
pub(super) struct OnCpu {
    /// Tasks, the kernel's reservations, and those of the timetable in the order of its owners.
    pub(super) entries: Vec<Entry>,
    pub(super) tasks: usize,
    pub(super) kernel: usize,
    pub(super) timetable: Option<Timetable>,
}

impl OnCpu {
    fn new(tasks: Vec<Entry>, kernel: Vec<Entry>) -> Self {
        let counts = (tasks.len(), kernel.len());
        let entries = tasks.into_iter().chain(kernel).collect();
        let (tasks, kernel) = counts;
        Self { entries, tasks, kernel, timetable: None }
    }

    /// All entries as tasks.
    pub(super) fn as_tasks(&self) -> Vec<Task> {
        self.entries.iter().map(|entry| entry.task.clone()).collect()
    }
}

/// What runs on `cpu`, as admission placed it; what it refused runs on the only CPU.
pub(super) fn on_cpu(cpu: u16, contract: &Contract, answer: &Result<Grant, Box<Refusal>>) -> OnCpu {
    let grant = answer.as_ref().ok();
    let here = |placed: Option<u16>| placed.unwrap_or(0) == cpu;
    let tasks = contract.tasks.iter().enumerate().filter_map(|(at, task)| {
        let granted = grant.map(|grant| &grant.tasks[at]);
        here(granted.map(|granted| granted.cpu)).then(|| Entry {
            task: task.clone(),
            bound: granted.map(|granted| granted.response_time_bound),
            virtual_deadline: granted.and_then(|granted| granted.virtual_deadline),
            kind: Kind::Task,
        })
    });
    let table = grant.and_then(|grant| grant.timetables.iter().find(|table| table.cpu == cpu));
    let held: &[usize] = table.map_or(&[], |table| &table.holds);
    let kernel = reservations(contract, |at| {
        here(grant.map(|grant| grant.reservations[at].cpu)) && !held.contains(&at)
    });
    let mut on_cpu = OnCpu::new(tasks.collect(), kernel);
    on_cpu.entries.extend(held.iter().map(|&at| reservation(&contract.reservations[at])));
    on_cpu.timetable = table.map(|table| table.table.clone());
    on_cpu
}

/// Whether the channels are on `cpu`: the last is theirs.
pub(super) fn has_channels(contract: &Contract, cpu: u16) -> bool {
    cpu + 1 == contract.cpus
}

/// Why a contract that was refused does not say what runs where, if it does not.
pub(super) fn unplaced(
    args: &Args,
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
) -> Result<(), Failure> {
    match answer {
        Err(refusal) if contract.cpus > 1 => {
            let and = format!("; so nothing says what runs on which of its {} CPUs", contract.cpus);
            Err(refused(args, refusal, &and))
        }
        _ => Ok(()),
    }
}

/// Returns the reservations at those positions, the shorter period first: where they have fixed priorities, as in the
/// search for a witness, that is the order that keeps two of them the longest.
fn reservations(contract: &Contract, here: impl Fn(usize) -> bool) -> Vec<Entry> {
    let here = contract.reservations.iter().enumerate().filter(|(at, _)| here(*at));
    let mut entries: Vec<Entry> = here.map(|(_, named)| reservation(named)).collect();
    entries.sort_by_key(|entry| entry.task.min_inter_arrival());
    entries
}

fn reservation(named: &NamedReservation) -> Entry {
    let (budget, period) = (named.reservation.budget(), named.reservation.period());
    // A valid reservation has 0 < budget ≤ period, which is all that a task needs.
    let task = Task::new(TaskSpec::periodic(&named.name, period, budget))
        .expect("a valid reservation is a valid task");
    Entry { task, bound: None, virtual_deadline: None, kind: Kind::Reservation }
}
