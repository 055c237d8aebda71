//! The parameters of the sending host and of the system.

use alloc::vec::Vec;

use punctual_model::channel::{BitRate, Packetisation};
use punctual_model::{Contract, HostProfile};

use super::{Numbers, Relief};
use crate::breakdown::{Factor, scaled};
use crate::offer::Axis;

pub(super) fn parameters(contract: &Contract) -> Vec<Numbers> {
    let Some(sender) = &contract.sender else { return Vec::new() };
    let cut = sender.packetisation;
    let (bytes, packets) = (cut.packet_bytes().into(), cut.packets_per_block().into());
    let mut parameters = Vec::from([
        (Axis::Packet, Relief::Either, bytes, 256, 1 << 16),
        (Axis::PacketsPerBlock, Relief::Either, packets, 1, 64),
    ]);
    if let Some(rate) = sender.link.rate() {
        let most = BitRate::MAX.bits_per_second();
        parameters.push((Axis::Bandwidth, Relief::More, rate.bits_per_second(), 1, most));
    }
    if let Some(memory) = sender.memory {
        parameters.push((Axis::Memory, Relief::More, memory, 0, u64::MAX / 2));
    }
    parameters
}

pub(super) fn system_parameters(contract: &Contract, host: &HostProfile) -> Vec<Numbers> {
    let cpus = contract.cpus.into();
    let mut parameters = Vec::from([(Axis::Cpus, Relief::More, cpus, 1, host.cpus.into())]);
    if !contract.tasks.is_empty() {
        parameters.push((Axis::Work, Relief::Less, ALL_OF_IT, 1, ALL_OF_IT));
    }
    parameters
}

/// The declared work, in thousandths.
const ALL_OF_IT: u64 = 1_000;

pub(super) fn set(original: &Contract, axis: Axis, value: u64, trial: &mut Contract) -> Option<()> {
    match axis {
        Axis::Cpus => {
            trial.cpus = u16::try_from(value).ok()?;
            return Some(());
        }
        Axis::Work => {
            // A factor counts in millionths.
            trial.tasks = scaled(original, Factor::from_millionths(value * 1_000)?)?.tasks;
            return Some(());
        }
        _ => {}
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
        Axis::Bandwidth => {
            // A byte time that is not a whole rate stays as it is.
            let own = original.sender?.link;
            let rate = BitRate::new(value).ok()?;
            sender.link = if own.rate() == Some(rate) { own } else { own.at_rate(rate) };
        }
        Axis::Memory => sender.memory = Some(value),
        _ => return None,
    }
    Some(())
}
