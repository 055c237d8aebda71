//! Validates the receiving costs in the file.

use toml::Spanned;

use super::raw::{RawArrival, RawReceiving};
use super::sending::{at_least_one, packet_bytes};
use super::validate::{counted, duration, percentile, service, spread, text};
use crate::Duration;
use crate::channel::Framing;
use crate::host::{ArrivalCost, ReceiveCharge, ReceiveCosts, Under};
use crate::text_file::{self, Checked, choice};

pub(super) fn charge(raw: RawReceiving) -> Checked<ReceiveCharge> {
    let largest_packet = raw.largest_packet;
    Ok(ReceiveCharge {
        costs: ReceiveCosts {
            switch: service("switch", &raw.switch)?,
            cache: service("cache", &raw.cache)?,
            first_packet: service("first_packet", &raw.first_packet)?,
            packet: service("packet", &raw.packet)?,
        },
        path: raw.path.map(|path| text("path", path)).transpose()?,
        largest_packet: largest_packet
            .map(|bytes| packet_bytes("largest_packet", &bytes))
            .transpose()?,
        percentile: raw.percentile.as_ref().map(percentile).transpose()?,
    })
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
        under: choice("class", &raw.under, &Under::NAMES)?,
        spread: spread(&raw.samples, [&raw.min, &raw.p50, &raw.p99, &raw.max])?,
        discarded: raw.discarded.map_or(Ok(0), |count| counted("discarded", &count))?,
        stolen: raw.stolen.map_or(Ok(Duration::ZERO), |stolen| duration("stolen", &stolen))?,
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
