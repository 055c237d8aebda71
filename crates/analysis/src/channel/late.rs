//! The refusal of channels that would be late, in the same words for a contract and for a host.

use alloc::format;
use alloc::string::String;

use punctual_model::Duration;
use punctual_model::channel::Channel;

use super::DelayBound;
use super::egress::Egress;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource, Shortfall};

/// The test of the delay bounds.
pub(crate) const TEST: &str = "channel-delay";

/// Returns the position of the most urgent late channel; those below it may be late because of it.
/// Among equal delay bounds it is the first.
pub(crate) fn most_urgent<'a>(
    channels: impl IntoIterator<Item = &'a Channel>,
    delays: &[DelayBound],
) -> Option<usize> {
    let all = channels.into_iter().zip(delays).enumerate();
    let late = all.filter(|(_, (channel, delay))| {
        delay.bound().is_none_or(|bound| bound > channel.delay_bound())
    });
    late.min_by_key(|(_, (channel, _))| channel.delay_bound()).map(|(at, _)| at)
}

/// Refuses channels because `who`, one of them, may take `delay`, which is not within its bound of
/// `asked`.
pub(crate) fn refusal(
    who: &str,
    asked: Duration,
    delay: DelayBound,
    resource: Resource,
) -> Refusal {
    let (shortfall, why) = match delay {
        DelayBound::AtMost(bound) => {
            let excess = bound.saturating_sub(asked);
            let why = format!(
                "{who} may take {bound}, which is {excess} longer than its delay bound of {asked}"
            );
            (Some(Shortfall::Time(excess)), why)
        }
        DelayBound::Unbounded => {
            let why = format!(
                "no delay can be proven for {who}: it and those above it ask for more than \
                 processor and link can do"
            );
            (None, why)
        }
        DelayBound::Undecided => {
            (None, format!("{who} was not decided within the bound on the analysis"))
        }
    };
    Refusal { shortfall, ..Refusal::new(TEST, resource, why) }
}

/// Refuses channels some of which may be late, without a search for which.
pub(crate) fn brief(resource: Resource) -> Refusal {
    Refusal::new(TEST, resource, String::from("not every message would leave in time"))
}

/// Returns the resource of which more alone would make `channels` fit beneath `above`: a link up to
/// 16 times as fast, or a processor that costs nothing.
pub(crate) fn binding<'a>(
    egress: Egress,
    channels: impl IntoIterator<Item = &'a Channel> + Clone,
    above: &[ReservedLoad],
    steps: &mut Steps,
) -> Resource {
    let mut fits = |changed: Option<Egress>| {
        changed.is_some_and(|changed| changed.all_in_time(channels.clone(), above, steps))
    };
    // Not infinitely fast, because packets would then take no time.
    if [2, 4, 8, 16].into_iter().any(|factor| fits(egress.with_faster_link(factor))) {
        Resource::Link
    } else if fits(egress.with_free_processor()) {
        Resource::Cpu
    } else {
        Resource::CpuAndLink
    }
}
