//! The parameters of a contract, with the direction in which each makes room.
//!
//! `counter_offer` varies them until a refused contract fits, `sensitivity` until an admitted one
//! no longer does. A new axis is one more line here.

mod channel;
mod search;
mod sending;
mod stream;
mod task;

use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::offer::{Axis, EntryKind};

pub(crate) use search::Search;

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
    Sending,
    System,
}

/// The direction that makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Smaller numbers.
    Less,
    /// Larger numbers.
    More,
    /// Either direction may: only a few candidates are tried.
    Either,
}

/// One number of one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(crate) entry: Entry,
    pub(crate) axis: Axis,
    pub(crate) relief: Relief,
    /// The number in the contract.
    pub(crate) value: u64,
    /// The smallest and the largest permitted number.
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Entry {
    /// Returns all entries of `contract` except receiving channels, because their numbers matter
    /// for buffers alone.
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
            Self::Sending | Self::System => String::new(),
        }
    }

    pub(crate) fn kind(self, contract: &Contract) -> EntryKind {
        match self {
            Self::Task(at) if task::upcall_of(contract, at).is_some() => EntryKind::Upcall,
            Self::Task(_) => EntryKind::Task,
            Self::Reservation(_) => EntryKind::Reservation,
            Self::Channel(_) | Self::Receiving(_) => EntryKind::Channel,
            Self::Stream(_) => EntryKind::Stream,
            Self::Sending => EntryKind::Sending,
            Self::System => EntryKind::System,
        }
    }

    /// Sets a parameter: see [`Parameter::set`].
    pub(crate) fn set(
        self,
        axis: Axis,
        value: u64,
        original: &Contract,
        trial: &mut Contract,
    ) -> bool {
        let written = match self {
            Self::Task(at) => task::set(original, at, axis, value, trial),
            Self::Reservation(at) => task::set_reservation(original, at, axis, value, trial),
            Self::Channel(at) => channel::set(original, at, axis, value, trial),
            Self::Receiving(at) => channel::set_receiving(original, at, axis, value, trial),
            Self::Stream(at) => stream::set(original, at, axis, value, trial),
            Self::Sending | Self::System => sending::set(original, axis, value, trial),
        };
        written.is_some()
    }

    /// Returns the entry's parameters.
    pub(crate) fn parameters(self, contract: &Contract, host: &HostProfile) -> Vec<Parameter> {
        let parameters = match self {
            Self::Task(at) => task::parameters(contract, at),
            Self::Reservation(at) => task::reservation_parameters(contract, host, at),
            Self::Channel(at) => channel::parameters(contract, at),
            Self::Receiving(at) => channel::receiving_parameters(contract, at),
            Self::Stream(at) => stream::parameters(contract, at),
            Self::Sending => sending::parameters(contract),
            Self::System => sending::system_parameters(contract, host),
        };
        parameters
            .into_iter()
            .map(|(axis, relief, value, least, most)| Parameter {
                entry: self,
                axis,
                relief,
                value,
                least,
                most,
            })
            .collect()
    }
}

impl Parameter {
    /// Returns whether one direction is known not to make room.
    pub(crate) fn has_known_direction(&self) -> bool {
        self.relief != Relief::Either
    }

    /// Returns the range for a counter-offer: from a tenth of the number to ten times it. Beyond
    /// that it would be another contract. Resources of the host (memory, CPUs, packets) are not
    /// limited.
    pub(crate) fn acceptable(&self) -> (u64, u64) {
        match self.axis {
            Axis::Memory | Axis::Cpus | Axis::Packet | Axis::PacketsPerBlock => {
                (self.least, self.most)
            }
            // Without tolerated loss, up to a twentieth may be offered.
            Axis::Loss => (self.least, (2 * self.value).max(50_000).min(self.most)),
            Axis::ReleaseJitter | Axis::Tolerance | Axis::MinSize => (self.least, self.most),
            _ => {
                let (least, most) = (self.value / FAR, self.value.saturating_mul(FAR));
                (least.max(self.least), most.min(self.most))
            }
        }
    }

    /// Returns the number moved by `sixteenths` of itself in the direction that makes room (16
    /// halve or double it), within the permitted range.
    pub(crate) fn moved(&self, sixteenths: u64) -> u64 {
        let (value, factor) = (u128::from(self.value), u128::from(16 + sixteenths));
        let moved = match self.relief {
            Relief::More => value * factor / 16,
            Relief::Less | Relief::Either => value * 16 / factor,
        };
        u64::try_from(moved).unwrap_or(u64::MAX).clamp(self.least, self.most.max(self.least))
    }

    /// Writes the entry of `original` with this number into `trial`. Returns `false`, and writes
    /// nothing, if the entry would be invalid.
    pub(crate) fn set(&self, original: &Contract, value: u64, trial: &mut Contract) -> bool {
        self.entry.set(self.axis, value, original, trial)
    }
}

/// The largest factor between a number and its counter-offer.
const FAR: u64 = 10;

/// Axis, relief, value, least, most.
type Numbers = (Axis, Relief, u64, u64, u64);
