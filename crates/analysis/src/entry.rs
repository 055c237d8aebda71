//! The entries of a contract, by position and by name.

use alloc::string::String;

use punctual_model::Contract;

/// The kind of a contract's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// `[[task]]`
    Task,
    /// `[[upcall]]`
    Upcall,
    /// `[[reservation]]`
    Reservation,
    /// `[[channel]]`
    Channel,
    /// `[[stream]]`
    Stream,
    /// `[[command]]`
    Command,
    /// `[sending]`
    Sending,
    /// `[system]`
    System,
}

impl EntryKind {
    /// Returns the name as written in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Upcall => "upcall",
            Self::Reservation => "reservation",
            Self::Channel => "channel",
            Self::Stream => "stream",
            Self::Command => "command",
            Self::Sending => "sending",
            Self::System => "system",
        }
    }
}

/// An entry, by its position in its own list of the contract as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// A task, or an upcall by its position among the tasks.
    Task(usize),
    Reservation(usize),
    Channel(usize),
    /// A receiving channel, by its position among those.
    Receiving(usize),
    Stream(usize),
    /// A command's memory.
    Command(usize),
    Sending,
    System,
}

impl Entry {
    /// Returns all entries of `contract` except receiving channels and commands, because their
    /// numbers matter for memory alone.
    pub(crate) fn all(contract: &Contract) -> impl Iterator<Item = Self> {
        (0..contract.tasks.len())
            .map(Self::Task)
            .chain((0..contract.reservations.len()).map(Self::Reservation))
            .chain((0..contract.channels.len()).map(Self::Channel))
            .chain((0..contract.streams.len()).map(Self::Stream))
    }

    pub(crate) fn name(self, contract: &Contract) -> String {
        match self {
            Self::Task(at) => contract.tasks[at].name().into(),
            Self::Reservation(at) => contract.reservations[at].name.clone(),
            Self::Channel(at) => contract.channels[at].name().into(),
            Self::Receiving(at) => contract.receiving[at].name.clone(),
            Self::Stream(at) => contract.streams[at].name().into(),
            Self::Command(at) => contract.commands[at].name().into(),
            Self::Sending | Self::System => String::new(),
        }
    }

    pub(crate) fn kind(self, contract: &Contract) -> EntryKind {
        match self {
            Self::Task(at) if upcall_of(contract, at).is_some() => EntryKind::Upcall,
            Self::Task(_) => EntryKind::Task,
            Self::Reservation(_) => EntryKind::Reservation,
            Self::Channel(_) | Self::Receiving(_) => EntryKind::Channel,
            Self::Stream(_) => EntryKind::Stream,
            Self::Command(_) => EntryKind::Command,
            Self::Sending => EntryKind::Sending,
            Self::System => EntryKind::System,
        }
    }
}

/// Returns the position among the upcalls of the task at `at`, if it is one.
pub(crate) fn upcall_of(contract: &Contract, at: usize) -> Option<usize> {
    let name = contract.tasks[at].name();
    contract.upcalls.iter().position(|upcall| upcall.name() == name)
}
