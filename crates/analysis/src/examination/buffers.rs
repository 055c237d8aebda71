//! The memory in which messages wait.
//!
//! A message is in its channel from the moment when it is sent to the end of its transmission. That
//! is at most `J` before its logical arrival, with `J = (B_max − 1)·I_min` the most by which a
//! conforming sender is early, and at most the delay bound `d` after it; logical arrivals are at
//! least `I_min` apart. So at most `⌊(d + J)/I_min⌋ + 1` messages are there at once. `d` is the bound
//! that is promised, not the one that is proven today: what is admitted later may use it up.

use alloc::format;
use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::Channel;

use super::Failure;
use super::whole::Whole;
use crate::channel::buffers::{Component, buffer_bytes, chain_buffers};
use crate::verdict::{Resource, Shortfall};

pub(super) const TEST: &str = "buffers";

/// Bytes for each channel, those of the streams included.
pub(super) fn of_each(whole: &Whole<'_>) -> Vec<u64> {
    whole.contract().channels.iter().map(of_channel).collect()
}

/// A number beyond 64 bits counts as the largest there is.
fn of_channel(channel: &Channel) -> u64 {
    let held = Component { least_delay: Duration::ZERO, most_delay: channel.delay_bound() };
    chain_buffers(channel.arrivals(), &[held])
        .and_then(|messages| messages[0].checked_mul(channel.arrivals().max_message().into()))
        .unwrap_or(u64::MAX)
}

/// What all need together: channels; streams, with what waits before their upcalls; and of each
/// best-effort channel what its tolerance needs and the unit in use.
pub(super) fn needed(whole: &Whole<'_>) -> u64 {
    let best_effort = whole.contract().best_effort.iter().map(|channel| {
        let unit = channel.traffic.spec().max_sdu.into();
        buffer_bytes(channel.traffic).and_then(|bytes| bytes.checked_add(unit)).unwrap_or(u64::MAX)
    });
    // A stream's own count has its channel in it.
    let declared = of_each(whole).into_iter().take(whole.declared_channels());
    let streams = whole.mappings.iter().map(|mapping| mapping.buffers.bytes);
    declared.chain(best_effort).chain(streams).fold(0, u64::saturating_add)
}

pub(super) fn failure(whole: &Whole<'_>) -> Option<Failure> {
    let memory = whole.contract().sender?.memory?;
    let needed = needed(whole);
    let missing = needed.checked_sub(memory).filter(|&missing| missing > 0)?;
    let largest = of_each(whole).into_iter().enumerate().max_by_key(|&(_, bytes)| bytes);
    Some(Failure {
        test: TEST,
        resource: Resource::Buffers,
        entry: largest.map(|(at, _)| whole.channel(at)),
        shortfall: Some(Shortfall::Bytes(missing)),
        why: format!(
            "the messages may need {needed} B at once and there are {memory} B: {missing} B too few"
        ),
    })
}
