//! The numbers of the sending host and of the system.

use alloc::vec::Vec;

use punctual_model::channel::Packetisation;
use punctual_model::{Contract, HostProfile};

use super::{Numbers, Relief};
use crate::offer::Axis;

pub(super) fn knobs(contract: &Contract) -> Vec<Numbers> {
    let Some(sender) = &contract.sender else { return Vec::new() };
    let cut = sender.packetisation;
    let (bytes, packets) = (cut.packet_bytes().into(), cut.packets_per_block().into());
    let mut knobs = Vec::from([
        (Axis::Packet, Relief::Either, bytes, 256, 1 << 16),
        (Axis::PacketsPerBlock, Relief::Either, packets, 1, 64),
    ]);
    if let Some(memory) = sender.memory {
        knobs.push((Axis::Memory, Relief::More, memory, 0, u64::MAX / 2));
    }
    knobs
}

pub(super) fn system_knobs(contract: &Contract, host: &HostProfile) -> Vec<Numbers> {
    let cpus = contract.cpus.into();
    Vec::from([(Axis::Cpus, Relief::More, cpus, 1, host.cpus.into())])
}

pub(super) fn turn(axis: Axis, value: u64, trial: &mut Contract) -> Option<()> {
    if axis == Axis::Cpus {
        trial.cpus = u16::try_from(value).ok()?;
        return Some(());
    }
    let sender = trial.sender.as_mut()?;
    let cut = sender.packetisation;
    let short = u32::try_from(value).ok();
    match axis {
        Axis::Packet => {
            sender.packetisation = Packetisation::new(short?, cut.packets_per_block()).ok()?;
        }
        Axis::PacketsPerBlock => {
            sender.packetisation = Packetisation::new(cut.packet_bytes(), short?).ok()?;
        }
        Axis::Memory => sender.memory = Some(value),
        _ => return None,
    }
    Some(())
}
