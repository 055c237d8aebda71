//! The numbers of a contract that can be turned, and which way makes room.
//!
//! `counter_offer` turns them until a refused contract fits, `sensitivity` until an admitted one no
//! longer does. A number along a new axis is one more line here.

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

/// An entry by its position in its own list of the contract as it was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// Also of upcalls: their position among the tasks.
    Task(usize),
    Reservation(usize),
    Channel(usize),
    /// A channel that receives: its position among those.
    Receiving(usize),
    Stream(usize),
    Sending,
    System,
}

/// Which way makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Smaller numbers.
    Less,
    /// Larger ones.
    More,
    /// That depends: only a few candidates are tried.
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
    /// The smallest and the largest that can be asked for.
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Entry {
    /// All entries of `contract` but channels that receive, whose numbers matter for buffers alone.
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

    /// See [`Parameter::turn`].
    pub(crate) fn turn(
        self,
        axis: Axis,
        value: u64,
        original: &Contract,
        trial: &mut Contract,
    ) -> bool {
        let turned = match self {
            Self::Task(at) => task::turn(original, at, axis, value, trial),
            Self::Reservation(at) => task::turn_reservation(original, at, axis, value, trial),
            Self::Channel(at) => channel::turn(original, at, axis, value, trial),
            Self::Receiving(at) => channel::turn_receiving(original, at, axis, value, trial),
            Self::Stream(at) => stream::turn(original, at, axis, value, trial),
            Self::Sending | Self::System => sending::turn(original, axis, value, trial),
        };
        turned.is_some()
    }

    /// Its numbers.
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
    /// Whether there is a way that does not make room.
    pub(crate) fn has_a_way_to_grow(&self) -> bool {
        self.relief != Relief::Either
    }

    /// How far a counter-offer may go: to a tenth of the number or ten times it. Beyond that it would
    /// be another contract. What the host gives (memory, CPUs, packets) may be any.
    pub(crate) fn acceptable(&self) -> (u64, u64) {
        match self.axis {
            Axis::Memory | Axis::Cpus | Axis::Packet | Axis::PacketsPerBlock => {
                (self.least, self.most)
            }
            // From nothing, a twentieth may be lost.
            Axis::Loss => (self.least, (2 * self.value).max(50_000).min(self.most)),
            Axis::ReleaseJitter | Axis::Tolerance | Axis::MinSize => (self.least, self.most),
            _ => {
                let (least, most) = (self.value / FAR, self.value.saturating_mul(FAR));
                (least.max(self.least), most.min(self.most))
            }
        }
    }

    /// The number with so many sixteenths of itself less or more room taken: 16 are half or twice. Within what may
    /// be asked for.
    pub(crate) fn moved(&self, sixteenths: u64) -> u64 {
        let (value, factor) = (u128::from(self.value), u128::from(16 + sixteenths));
        let moved = match self.relief {
            Relief::More => value * factor / 16,
            Relief::Less | Relief::Either => value * 16 / factor,
        };
        u64::try_from(moved).unwrap_or(u64::MAX).clamp(self.least, self.most.max(self.least))
    }

    /// Writes the entry of `original` with this number into `trial`; `false`, and nothing written,
    /// if that is no valid entry.
    pub(crate) fn turn(&self, original: &Contract, value: u64, trial: &mut Contract) -> bool {
        self.entry.turn(self.axis, value, original, trial)
    }
}

/// How many times less or more a counter-offer may be.
const FAR: u64 = 10;

/// Axis, relief, value, least, most.
type Numbers = (Axis, Relief, u64, u64, u64);
