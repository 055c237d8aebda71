//! The parameters of a command.

use alloc::vec::Vec;

use punctual_model::Contract;
use punctual_model::command::Holding;
use punctual_model::units::Bytes;

use super::{Numbers, Relief};
use crate::offer::Axis;

pub(super) fn parameters(contract: &Contract, at: usize) -> Vec<Numbers> {
    let memory = contract.commands[at].held().and_then(|held| held.memory);
    let number = |Bytes(memory)| (Axis::Memory, Relief::Less, memory, 1, memory);
    memory.map(number).into_iter().collect()
}

pub(super) fn set(
    original: &Contract,
    at: usize,
    axis: Axis,
    value: u64,
    trial: &mut Contract,
) -> Option<()> {
    let command = &original.commands[at];
    let held = command.held().filter(|_| axis == Axis::Memory)?;
    trial.commands[at] = command.under(Some(Holding { memory: Some(Bytes(value)), ..held }));
    Some(())
}
