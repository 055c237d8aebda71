//! Validates the sending and receiving costs in the file.

use alloc::format;

use toml::Spanned;

use super::raw::{RawArrival, RawMessage, RawReceiving, RawSending};
use super::validate::{counted, problem};
use crate::channel::{Framing, SendCosts};
use crate::host::{ArrivalCost, MessageCost, ReceiveCharge, ReceiveCosts, SendCharge};
use crate::text_file::{self, Checked, choice};
use crate::units::MessageBytes;

pub(super) fn sending(raw: RawSending) -> Checked<SendCharge> {
    let costs = SendCosts {
        switch: raw.switch,
        cache: raw.cache,
        first_packet: raw.first_packet,
        packet: raw.packet,
        link_scheduling: raw.link_scheduling,
    };
    raw.charge(costs)
}

pub(super) fn receiving(raw: RawReceiving) -> Checked<ReceiveCharge> {
    let costs = ReceiveCosts {
        switch: raw.switch,
        cache: raw.cache,
        first_packet: raw.first_packet,
        packet: raw.packet,
    };
    raw.charge(costs)
}

/// Validates one message. `before` is the key of the previous entry.
pub(super) fn message(
    raw: Spanned<RawMessage>,
    before: &mut Option<(u32, u32, u32)>,
) -> Checked<MessageCost> {
    let at = raw.span();
    let raw = raw.into_inner();
    let message = MessageCost {
        packet_bytes: packet_bytes("packet", &raw.packet)?,
        packets_per_block: at_least_one("packets_per_block", &raw.packets_per_block)?,
        packets: at_least_one("packets", &raw.packets)?,
        sampled: raw.sampled()?,
    };
    if before.is_some_and(|before| before >= message.key()) {
        return text_file::problem(
            at,
            "the messages are not in ascending order of packet, packets_per_block and packets, \
             each once; sort the entries",
        );
    }
    *before = Some(message.key());
    Ok(message)
}

/// Validates one arrival. `before` is the key of the previous entry.
pub(super) fn arrival(
    raw: Spanned<RawArrival>,
    before: &mut Option<(u32, bool, u32)>,
) -> Checked<ArrivalCost> {
    let at = raw.span();
    let raw = raw.into_inner();
    let arrival = ArrivalCost {
        packet_bytes: packet_bytes("packet", &raw.packet)?,
        framing: choice("framing", &raw.framing, &Framing::NAMES)?,
        packets: at_least_one("packets", &raw.packets)?,
        sampled: raw.sampled()?,
    };
    if before.is_some_and(|before| before >= arrival.key()) {
        return text_file::problem(
            at,
            "the arrivals are not in ascending order of packet, framing (datagram first) and packets, \
             each once; sort the entries",
        );
    }
    *before = Some(arrival.key());
    Ok(arrival)
}

pub(super) fn packet_bytes(key: &str, raw: &Spanned<MessageBytes>) -> Checked<u32> {
    match raw.get_ref().0 {
        bytes @ 1.. => Ok(bytes),
        0 => problem(raw, format!("{key} must be from 1B to {}B", u32::MAX)),
    }
}

fn at_least_one(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    match counted(key, raw)? {
        0 => problem(raw, format!("{key} is zero; it must be at least 1")),
        count => Ok(count),
    }
}
