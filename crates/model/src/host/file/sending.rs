//! Validates the sending costs in the file.

use alloc::format;

use toml::Spanned;

use super::raw::{RawMessage, RawSending, Text};
use super::validate::{counted, duration, percentile, problem, quantity, service, spread, text};
use crate::Duration;
use crate::channel::SendCosts;
use crate::host::{MessageCost, SendCharge, Under};
use crate::text_file::{self, Checked, choice};
use crate::units;

pub(super) fn charge(raw: RawSending) -> Checked<SendCharge> {
    Ok(SendCharge {
        costs: SendCosts {
            switch: service("switch", &raw.switch)?,
            cache: service("cache", &raw.cache)?,
            first_packet: service("first_packet", &raw.first_packet)?,
            packet: service("packet", &raw.packet)?,
            link_scheduling: service("link_scheduling", &raw.link_scheduling)?,
        },
        path: raw.path.map(|path| text("path", path)).transpose()?,
        largest_packet: raw
            .largest_packet
            .map(|bytes| packet_bytes("largest_packet", &bytes))
            .transpose()?,
        percentile: raw.percentile.as_ref().map(percentile).transpose()?,
    })
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
        under: choice("class", &raw.under, &Under::NAMES)?,
        spread: spread(&raw.samples, [&raw.min, &raw.p50, &raw.p99, &raw.max])?,
        discarded: raw.discarded.map_or(Ok(0), |count| counted("discarded", &count))?,
        stolen: raw.stolen.map_or(Ok(Duration::ZERO), |stolen| duration("stolen", &stolen))?,
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

pub(super) fn packet_bytes(key: &str, raw: &Text) -> Checked<u32> {
    match u32::try_from(quantity(key, raw, units::parse_bytes)?) {
        Ok(bytes @ 1..) => Ok(bytes),
        _ => problem(raw, format!("{key} must be from 1B to {}B", u32::MAX)),
    }
}

pub(super) fn at_least_one(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    match counted(key, raw)? {
        0 => problem(raw, format!("{key} is zero; it must be at least 1")),
        count => Ok(count),
    }
}
