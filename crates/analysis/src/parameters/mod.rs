//! The parameters of a contract, with the direction in which each makes room.
//!
//! `counter_offer` varies them until a refused contract fits, `sensitivity` until an admitted one
//! no longer does. A new axis is one more line here.

mod channel;
mod command;
mod search;
mod sending;
mod stream;
mod task;

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::entry::Entry;
use crate::offer::Axis;

pub(crate) use search::Search;

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
            Self::Command(at) => command::set(original, at, axis, value, trial),
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
            Self::Command(at) => command::parameters(contract, at),
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
