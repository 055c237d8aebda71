//! `contract.toml`: what a user declares.
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

use crate::channel::{AtmContract, Channel, LinearBounded, Route, SenderSpec, Traffic};
use crate::{Command, Duration, FileError, Reservation, Stream, Task, Upcall};

/// The most entries of all kinds together that one contract may declare.
pub const MAX_ENTRIES: usize = 16_384;

/// The most CPUs a contract may ask for.
pub const MAX_CPUS: u16 = 1024;

/// Who goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Rate monotonic with delayed preemption (real-time upcalls, §5): shorter period first, and a
    /// running job gives way only at its yield points.
    Rmdp,
    /// Rate monotonic (Liu and Layland 1973): shorter period first.
    Rm,
    /// Fixed priorities in file order; the first entry is the most urgent.
    Fp,
    /// Earliest absolute deadline first.
    Edf,
    /// Earliest deadline first with virtual deadlines: tasks of two criticalities (Baruah et al., ECRTS 2012).
    EdfVd,
    /// First in, first out: jobs in the order in which they become known, none preempts another;
    /// of those that become known together the one listed first.
    Fifo,
}

impl Policy {
    /// All policies with the names they have in a contract.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("rmdp", Self::Rmdp),
        ("rm", Self::Rm),
        ("fp", Self::Fp),
        ("edf", Self::Edf),
        ("edf-vd", Self::EdfVd),
        ("fifo", Self::Fifo),
    ];

    /// The name in a contract.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

/// A reservation and what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedReservation {
    /// Unique in its contract.
    pub name: String,
    /// X every Y.
    pub reservation: Reservation,
}

/// Traffic that is promised nothing and policed all the same (class `ubr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestEffortChannel {
    /// Unique in its contract.
    pub name: String,
    /// What it may send.
    pub traffic: AtmContract,
}

/// A channel on which this host receives. It takes none of the sending link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivingChannel {
    /// Unique in its contract.
    pub name: String,
    /// What its sender may send.
    pub traffic: Traffic,
    /// What its sender was promised; `None` of class `ubr`.
    pub delay_bound: Option<Duration>,
}

impl ReceivingChannel {
    /// Returns what its sender may send as messages with a spacing and a burst; `None` of class `ubr`.
    pub fn arrivals(&self) -> Option<LinearBounded> {
        let channel = Channel::new(self.name.clone(), &self.traffic, self.delay_bound?);
        Some(channel.ok()?.arrivals())
    }
}

/// A valid contract: at least one and at most [`MAX_ENTRIES`] entries, all names different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Who goes next among the tasks.
    pub policy: Policy,
    /// CPUs asked for; from 1 to [`MAX_CPUS`].
    pub cpus: u16,
    /// All tasks in file order, upcalls among them in their form as tasks.
    pub tasks: Vec<Task>,
    /// The upcalls alone, in file order.
    pub upcalls: Vec<Upcall>,
    /// The reservations in file order.
    pub reservations: Vec<NamedReservation>,
    /// How this host sends; there is one wherever something is sent.
    pub sender: Option<SenderSpec>,
    /// The channels that send and are promised a delay, in file order.
    pub channels: Vec<Channel>,
    /// The channels that send and are promised nothing, in file order.
    pub best_effort: Vec<BestEffortChannel>,
    /// The channels that receive, in file order.
    pub receiving: Vec<ReceivingChannel>,
    /// The way of each declared channel, of all three kinds, in file order. Those that are derived
    /// from streams have none.
    pub routes: Vec<Route>,
    /// The streams in file order. Admission derives upcalls and channels from them.
    pub streams: Vec<Stream>,
    /// The programs to start, in file order. Admission knows only the reservations they hold.
    pub commands: Vec<Command>,
}

impl Contract {
    /// A contract that declares tasks and nothing else.
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

    /// A contract for one CPU that declares upcalls and nothing else.
    pub fn of_upcalls(upcalls: Vec<Upcall>) -> Self {
        let tasks = upcalls.iter().map(Task::from).collect();
        Self { upcalls, ..Self::of_tasks(Policy::Rmdp, 1, tasks) }
    }

    /// Parses and validates the bytes of a contract. `file` is only for the messages.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        validate::parse(file, bytes)
    }
}

#[cfg(test)]
mod tests;
