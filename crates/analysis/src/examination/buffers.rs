//! The memory in which messages wait.
//!
//! A message is in its channel from the moment it is sent to the end of its transmission. That
//! begins at most `J` before its logical arrival, with `J = (B_max − 1)·I_min` the most by which a
//! conforming sender is early, and ends at most the delay bound `d` after it. Logical arrivals are
//! at least `I_min` apart. So at most `⌊(d + J)/I_min⌋ + 1` messages are in the channel at once.
//! `d` is the promised bound, not the one proven today, because later admissions may use it up.
//!
//! A receiving channel has room for the messages of a burst and one more, at most
//! [`MOST_RECEIVED`]: those that may be incomplete at once, or wait for their client. Messages
//! beyond that are lost and counted.

use alloc::format;
use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::{Channel, Traffic};
use punctual_model::contract::ReceivingChannel;

use super::Failure;
use super::expanded::Expanded;
use crate::channel::buffers::{Component, buffer_bytes, buffer_units, chain_buffers};
use crate::entry::Entry;
use crate::verdict::{Resource, Shortfall};

pub(super) const TEST: &str = "buffers";

/// The most messages for which a receiving channel has room.
const MOST_RECEIVED: u64 = 64;

/// Returns the bytes for each channel, including those of the streams.
pub(super) fn of_each(whole: &Expanded<'_>) -> Vec<u64> {
    whole.contract().channels.iter().map(of_channel).collect()
}

/// Returns the bytes for a sending channel, saturating at 64 bits.
fn of_channel(channel: &Channel) -> u64 {
    let held = Component { least_delay: Duration::ZERO, most_delay: channel.delay_bound() };
    chain_buffers(channel.arrivals(), &[held])
        .and_then(|messages| messages[0].checked_mul(channel.arrivals().max_message().into()))
        .unwrap_or(u64::MAX)
}

/// Returns the bytes for a receiving channel. A best-effort burst is `1 + ⌈τ/T⌉`, as in the other
/// classes.
fn of_receiving(channel: &ReceivingChannel) -> u64 {
    let (burst, max_message) = match channel.traffic {
        Traffic::Bounded(bounded) => (bounded.max_burst().into(), bounded.max_message()),
        Traffic::Atm(contract) => {
            (buffer_units(contract).saturating_add(1), contract.spec().max_sdu)
        }
    };
    // At most 64 · 2³².
    burst.saturating_add(1).min(MOST_RECEIVED) * u64::from(max_message)
}

/// Returns the bytes that all need together: sending and receiving channels; streams, with the
/// messages that wait for their upcalls; and for each best-effort channel the units of its
/// tolerance and the unit in use.
pub(super) fn needed(whole: &Expanded<'_>) -> u64 {
    let best_effort = whole.contract().best_effort.iter().map(|channel| {
        let unit = channel.traffic.spec().max_sdu.into();
        buffer_bytes(channel.traffic).and_then(|bytes| bytes.checked_add(unit)).unwrap_or(u64::MAX)
    });
    let receiving = whole.contract().receiving.iter().map(of_receiving);
    // A stream's own count includes its channel.
    let declared = of_each(whole).into_iter().take(whole.declared_channels());
    let streams = whole.mappings.iter().map(|mapping| mapping.buffers.bytes);
    declared.chain(best_effort).chain(receiving).chain(streams).fold(0, u64::saturating_add)
}

pub(super) fn failure(whole: &Expanded<'_>) -> Option<Failure> {
    let memory = whole.contract().sender?.memory?;
    let needed = needed(whole);
    let missing = needed.checked_sub(memory).filter(|&missing| missing > 0)?;
    let sent = of_each(whole).into_iter().enumerate().map(|(at, bytes)| (whole.channel(at), bytes));
    let received = whole.contract().receiving.iter().map(of_receiving);
    let received = received.enumerate().map(|(at, bytes)| (Entry::Receiving(at), bytes));
    let largest = sent.chain(received).max_by_key(|&(_, bytes)| bytes);
    Some(Failure {
        test: TEST,
        resource: Resource::Buffers,
        entry: largest.map(|(entry, _)| entry),
        shortfall: Some(Shortfall::Bytes(missing)),
        why: format!(
            "the messages may need {needed} B at once and there are {memory} B: {missing} B too few"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::{AtmContract, BitRate, LinearBounded, ServiceClass, TrafficSpec};
    use punctual_model::{Contract, HostProfile};

    fn receiving(traffic: Traffic) -> ReceivingChannel {
        ReceivingChannel { name: "r".into(), traffic, delay_bound: None }
    }

    /// A burst and one more, at most 64.
    #[test]
    fn a_channel_that_receives_has_room_for_a_burst_and_one_more() {
        let bytes = |burst| {
            let arrivals = LinearBounded::new(1, 1_000, Duration::from_millis(1), burst);
            of_receiving(&receiving(Traffic::Bounded(arrivals.expect("valid"))))
        };
        let counted: Vec<u64> = [1, 5, 62, 63, 64, u32::MAX].map(bytes).into();
        assert_eq!(counted, [2_000, 6_000, 63_000, 64_000, 64_000, 64_000]);
    }

    /// Units of 1,000 bytes each millisecond, up to 2.5 of them early: bursts of 1 + 3.
    #[test]
    fn best_effort_that_is_received_counts_by_its_tolerance() {
        for class in [ServiceClass::Cbr, ServiceClass::Ubr] {
            let rate = BitRate::new(8_000_000).expect("valid");
            let contract = AtmContract::new(TrafficSpec {
                class,
                peak_rate: rate,
                sustained_rate: rate,
                max_sdu: 1_000,
                delay_variation_tolerance: Duration::from_micros(2_500),
            });
            let traffic = Traffic::Atm(contract.expect("valid"));
            assert_eq!(of_receiving(&receiving(traffic)), 5_000);
        }
    }

    fn parsed(text: &str) -> Contract {
        Contract::parse("in.toml", text.as_bytes()).expect("valid")
    }

    fn sending(memory: u32) -> alloc::string::String {
        format!(
            "[system]\npolicy = \"rmdp\"\n[sending]\nbandwidth = \"100mbit/s\"\nstartup = \"1us\"\n\
             packet = \"4KiB\"\nmemory = \"{memory}B\"\n[sending.costs]\nswitch = \"0us\"\n\
             cache = \"0us\"\nfirst_packet = \"1us\"\npacket = \"1us\"\nlink_scheduling = \"0us\"\n"
        )
    }

    fn channel(name: &str, direction: &str, burst: u32) -> alloc::string::String {
        format!(
            "[[channel]]\nname = \"{name}\"\ndirection = \"{direction}\"\nmax_message = \"1000B\"\n\
             max_rate = \"100/s\"\nmax_burst = {burst}\ndelay_bound = \"10ms\"\n"
        )
    }

    #[test]
    fn received_messages_count_beside_sent_ones() {
        let with = |memory: u32| {
            let contract = parsed(&(sending(memory) + &channel("in", "receive", 9)));
            crate::admit(&contract, &HostProfile::ideal(1)).map_err(|refusal| refusal.shortfall)
        };
        assert!(with(10_000).is_ok());
        assert_eq!(with(9_999).err(), Some(Some(Shortfall::Bytes(1))));
    }

    /// A sending channel holds two messages here, and one more for each that may be early.
    #[test]
    fn the_channel_with_the_largest_buffer_is_named_in_either_direction() {
        for (out, into, named) in [(1, 20, "in"), (20, 1, "out")] {
            let channels = channel("out", "send", out) + &channel("in", "receive", into);
            let contract = parsed(&(sending(20_000) + &channels));
            let host = HostProfile::ideal(1);
            let refusal = crate::admit(&contract, &host).expect_err("too little memory");
            assert_eq!((refusal.test, refusal.entry.as_deref()), (TEST, Some(named)));
            let burst = refusal.offers.along(named, crate::offer::Axis::Burst).expect("offered");
            let smaller = burst.taken(&contract).expect("names an entry");
            assert!(crate::admit(&smaller, &host).is_ok(), "{refusal}");
        }
    }
}
