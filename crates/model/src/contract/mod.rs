//! `contract.toml`: the declaration of a user's work.
//!
//! A contract is parsed raw (`raw`), then validated (`validate`) into a [`Contract`], which cannot
//! be wrong. Every error names file, line and column and says what would be right.
//!
//! ```toml
//! [[task]]
//! name = "video"
//! period = "40ms"
//! wcet = "3ms"
//! ```
//!
//! All sections and keys, with their units and defaults, are in `docs/contract.md`.

mod raw;
mod validate;

use alloc::string::String;
use alloc::vec::Vec;

use crate::channel::{
    AtmContract, Channel, Framing, LinearBounded, ReadLimit, Route, SenderSpec, Traffic,
};
use crate::command::{Backend, Holding};
use crate::{Command, Duration, Reservation, Stream, Task, Upcall};

/// The most entries, of all kinds together, that one contract may declare.
pub const MAX_ENTRIES: usize = 16_384;

/// The most CPUs that a contract may ask for.
pub const MAX_CPUS: u16 = 1024;

/// The scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Rate monotonic with delayed preemption (real-time upcalls, §5): the shorter period first,
    /// and a running job is preempted only at its yield points.
    Rmdp,
    /// Rate monotonic (Liu and Layland 1973): the shorter period first.
    Rm,
    /// Fixed priorities in file order; the first entry is the most urgent.
    Fp,
    /// Earliest absolute deadline first.
    Edf,
    /// Earliest deadline first with virtual deadlines: tasks of two criticalities (Baruah et al.,
    /// ECRTS 2012).
    EdfVd,
    /// First in, first out: jobs run in the order of their arrival without preemption. Of jobs that
    /// arrive together, the one listed first runs first.
    Fifo,
}

impl Policy {
    /// All policies with their names in a contract.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("rmdp", Self::Rmdp),
        ("rm", Self::Rm),
        ("fp", Self::Fp),
        ("edf", Self::Edf),
        ("edf-vd", Self::EdfVd),
        ("fifo", Self::Fifo),
    ];

    /// Returns the name in a contract.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

/// A reservation with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedReservation {
    /// The name, unique in its contract.
    pub name: String,
    /// X every Y.
    pub reservation: Reservation,
}

/// Traffic that is promised nothing but policed (class `ubr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestEffortChannel {
    /// The name, unique in its contract.
    pub name: String,
    /// The traffic that it may send.
    pub traffic: AtmContract,
}

/// A channel on which this host receives. It does not use the sending link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivingChannel {
    /// The name, unique in its contract.
    pub name: String,
    /// The traffic that its sender may send.
    pub traffic: Traffic,
    /// The delay bound that its sender was promised; `None` for class `ubr`.
    pub delay_bound: Option<Duration>,
}

impl ReceivingChannel {
    /// Returns the sender's traffic as linear bounded arrivals; `None` for class `ubr`.
    pub fn arrivals(&self) -> Option<LinearBounded> {
        let channel = Channel::new(self.name.clone(), &self.traffic, self.delay_bound?);
        Some(channel.ok()?.arrivals())
    }
}

/// A valid contract: at least one and at most [`MAX_ENTRIES`] entries, all names different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The scheduling policy of the tasks.
    pub policy: Policy,
    /// The number of CPUs asked for, from 1 to [`MAX_CPUS`].
    pub cpus: u16,
    /// All tasks in file order, including the upcalls as tasks.
    pub tasks: Vec<Task>,
    /// The upcalls alone, in file order.
    pub upcalls: Vec<Upcall>,
    /// The reservations in file order.
    pub reservations: Vec<NamedReservation>,
    /// The sending host. There is one if anything is sent.
    pub sender: Option<SenderSpec>,
    /// The sending channels with a delay bound, in file order.
    pub channels: Vec<Channel>,
    /// The best-effort sending channels, in file order.
    pub best_effort: Vec<BestEffortChannel>,
    /// The receiving channels, in file order.
    pub receiving: Vec<ReceivingChannel>,
    /// The route of each declared channel, of all three kinds, in file order. Channels derived from
    /// streams have none.
    pub routes: Vec<Route>,
    /// The streams in file order. Admission derives upcalls and channels from them.
    pub streams: Vec<Stream>,
    /// The programs to start, in file order. Admission sees only their reservations.
    pub commands: Vec<Command>,
}

impl Contract {
    /// Returns whether commands ask for no back end and may all have servers: not in a contract with
    /// channels or with a command in a timetable, because a CPU with either has no servers.
    pub fn may_have_servers_by_default(&self) -> bool {
        let has_channels = self.sender.is_some() || !self.receiving.is_empty();
        let mut held = self.commands.iter().filter_map(Command::held);
        let is_tabled = |held: Holding| held.backend == Some(Backend::Timetable);
        !has_channels && held.clone().any(|held| held.backend.is_none()) && !held.any(is_tabled)
    }

    /// Returns the same contract, in which commands that ask for no back end ask for this one.
    pub fn with_default_backend(&self, backend: Backend) -> Self {
        let with = |command: &Command| {
            let held = command.held();
            command.under(
                held.map(|held| Holding { backend: Some(held.backend.unwrap_or(backend)), ..held }),
            )
        };
        Self { commands: self.commands.iter().map(with).collect(), ..self.clone() }
    }

    /// Makes a contract that declares only tasks.
    pub fn of_tasks(policy: Policy, cpus: u16, tasks: Vec<Task>) -> Self {
        Self {
            policy,
            cpus,
            tasks,
            upcalls: Vec::new(),
            reservations: Vec::new(),
            sender: None,
            channels: Vec::new(),
            best_effort: Vec::new(),
            receiving: Vec::new(),
            routes: Vec::new(),
            streams: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Makes a contract for one CPU that declares only upcalls.
    pub fn of_upcalls(upcalls: Vec<Upcall>) -> Self {
        let tasks = upcalls.iter().map(Task::from).collect();
        Self { upcalls, ..Self::of_tasks(Policy::Rmdp, 1, tasks) }
    }

    /// Returns the datagrams that may be read of a receiving channel; `None` for class `ubr`.
    pub fn read_limit(&self, channel: &ReceivingChannel) -> Option<ReadLimit> {
        let framing = self.framing(&channel.name);
        Some(ReadLimit::of(channel.arrivals()?, framing, self.packet_bytes()))
    }

    /// Returns the framing of a channel. One without a route counts as the dearer of both.
    pub fn framing(&self, channel: &str) -> Framing {
        let route = self.routes.iter().find(|route| route.channel == channel);
        route.map_or(Framing::Fragments, |route| route.framing)
    }

    /// Returns the bytes of a packet: those of the sender, if there is one.
    pub fn packet_bytes(&self) -> u32 {
        self.sender.map_or(ReadLimit::USUAL_PACKET, |spec| spec.packetisation.packet_bytes())
    }
}

#[cfg(test)]
mod tests;
