//! What runs where: tasks, and above them the handlers of channels and reservations, in layers.

use punctual_analysis::{Grant, Refusal};
use punctual_model::channel::{Channel, LinkScheduling, Sender};
use punctual_model::contract::NamedReservation;
use punctual_model::{Contract, Duration, Service, Task, TaskSpec, Timetable};

use crate::exit::Failure;

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Reservation,
    /// The messages of a channel: they take time from the tasks; whether they are late is seen where
    /// the channels are simulated.
    Handler,
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
    /// Tasks, handlers, the kernel's reservations, and those of the timetable in the order of its owners.
    pub(super) entries: Vec<Entry>,
    pub(super) tasks: usize,
    pub(super) handlers: usize,
    pub(super) kernel: usize,
    pub(super) timetable: Option<Timetable>,
}

impl OnCpu {
    fn new(tasks: Vec<Entry>, handlers: Vec<Entry>, kernel: Vec<Entry>) -> Self {
        let timetable = None;
        let counts = (tasks.len(), handlers.len(), kernel.len());
        let entries = tasks.into_iter().chain(handlers).chain(kernel).collect();
        let (tasks, handlers, kernel) = counts;
        Self { entries, tasks, handlers, kernel, timetable }
    }

    /// All entries as tasks.
    pub(super) fn as_tasks(&self) -> Vec<Task> {
        self.entries.iter().map(|entry| entry.task.clone()).collect()
    }
}

/// What runs on `cpu`, as admission placed it; what it refused runs on the only CPU.
pub(super) fn on_cpu(
    cpu: u16,
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
    sender: Option<&Sender>,
) -> OnCpu {
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
    let sender = sender.filter(|_| sends(contract, cpu));
    let handlers = sender
        .into_iter()
        .flat_map(|sender| contract.channels.iter().filter_map(|channel| handler(sender, channel)));
    let mut on_cpu = OnCpu::new(tasks.collect(), handlers.collect(), kernel);
    on_cpu.entries.extend(held.iter().map(|&at| reservation(&contract.reservations[at])));
    on_cpu.timetable = table.map(|table| table.table.clone());
    on_cpu
}

/// All of it, for CPUs that share one queue.
pub(super) fn on_all_cpus(contract: &Contract) -> OnCpu {
    let task = |task: &Task| Entry {
        task: task.clone(),
        bound: None,
        virtual_deadline: None,
        kind: Kind::Task,
    };
    let tasks = contract.tasks.iter().map(task).collect();
    OnCpu::new(tasks, Vec::new(), reservations(contract, |_| true))
}

/// Whether the channels are on `cpu`: the last is theirs.
pub(super) fn sends(contract: &Contract, cpu: u16) -> bool {
    !contract.channels.is_empty() && cpu + 1 == contract.cpus
}

/// Why a contract that was refused does not say what runs where, if it does not.
pub(super) fn unplaced(
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
) -> Result<(), Failure> {
    if answer.is_ok() || contract.cpus == 1 {
        return Ok(());
    }
    Err(Failure::bad_input(
        "the contract is refused, so nothing says what runs on which of its CPUs; see what would fit \
         with: punctual admit; or run them as one queue: --global",
    ))
}

/// The reservations at those positions, the shorter period first: where they have fixed priorities, as over all CPUs,
/// that is the order that keeps two of them the longest.
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

/// The largest messages of a channel as jobs, at their logical arrivals: their packets, a change to
/// the handler and one back, and handing each packet to the link, which with a link thread is two
/// changes more. `None`: they cost nothing.
fn handler(sender: &Sender, channel: &Channel) -> Option<Entry> {
    let (costs, arrivals) = (sender.costs, channel.arrivals());
    let packets = u64::from(sender.packetisation.packets_of(arrivals.max_message()));
    let change = costs.change_of_handler().as_nanos();
    let handing = costs.link_scheduling.as_nanos()
        + match sender.link_scheduling {
            LinkScheduling::InInterrupt => 0,
            LinkScheduling::InThread => 2 * change,
        };
    let packet = costs.packet.as_nanos();
    let each = [costs.first_packet.as_nanos(), packet.saturating_mul(packets - 1), 2 * change];
    let work = each.into_iter().fold(handing.saturating_mul(packets), u64::saturating_add);
    let wcet = Service::from_nanos(work);
    let spec = TaskSpec {
        relative_deadline: channel.delay_bound().max(wcet.at_full_speed()),
        ..TaskSpec::periodic(channel.name(), arrivals.min_inter_arrival(), wcet)
    };
    let task = Task::new(spec).ok()?;
    Some(Entry { task, bound: None, virtual_deadline: None, kind: Kind::Handler })
}
