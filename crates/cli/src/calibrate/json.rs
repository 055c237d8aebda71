//! The figures for a program. Field names are part of the interface.

use std::path::Path;

use punctual_model::Duration;
use punctual_model::host::{Calibration, Percentile, Spread, Under};
use serde::Serialize;

#[derive(Serialize)]
struct Page<'a> {
    path: String,
    cpu_model: &'a str,
    kernel_release: &'a str,
    cpus: u16,
    at_unix_s: u64,
    duration_ns: u64,
    version: &'a str,
    quick: bool,
    /// Null: /proc/stat cannot be read.
    stolen_ns: Option<u64>,
    /// Null: not measured, and switches are free.
    switching: Option<Switching>,
    figures: Vec<Figure>,
    /// Null: not measured; a contract with channels must say what sending costs.
    sending: Option<Sending<'a>>,
    /// Null: not measured; what comes in is charged as what goes out.
    receiving: Option<Receiving<'a>>,
    cache_refill: Vec<Refill>,
    messages: Vec<Message>,
    arrivals: Vec<Arrival>,
    absent: Vec<Absent<'a>>,
}

#[derive(Serialize)]
struct Switching {
    context_switch_ns: u64,
    switch_ns: u64,
    by: &'static str,
    cache_refill_ns: u64,
    working_set_bytes: u64,
    percentile_ppm: u32,
}

#[derive(Serialize)]
struct Figure {
    operation: &'static str,
    #[serde(flatten)]
    sampled: Sampled,
}

#[derive(Serialize)]
struct Refill {
    working_set_bytes: u64,
    #[serde(flatten)]
    sampled: Sampled,
}

#[derive(Serialize)]
struct Sending<'a> {
    switch_ns: u64,
    cache_ns: u64,
    first_packet_ns: u64,
    packet_ns: u64,
    link_scheduling_ns: u64,
    path: Option<&'a str>,
    largest_packet_bytes: Option<u32>,
    percentile_ppm: Option<u32>,
}

#[derive(Serialize)]
struct Message {
    packet_bytes: u32,
    packets_per_block: u32,
    packets: u32,
    #[serde(flatten)]
    sampled: Sampled,
    /// Content that would leave if the processor alone limited it.
    bits_per_second: u64,
}

#[derive(Serialize)]
struct Receiving<'a> {
    switch_ns: u64,
    cache_ns: u64,
    first_packet_ns: u64,
    packet_ns: u64,
    /// What any packet that comes in is charged.
    per_packet_ns: u64,
    path: Option<&'a str>,
    largest_packet_bytes: Option<u32>,
    percentile_ppm: Option<u32>,
}

#[derive(Serialize)]
struct Arrival {
    packet_bytes: u32,
    framing: &'static str,
    packets: u32,
    #[serde(flatten)]
    sampled: Sampled,
    /// Content that would be received if the processor alone limited it.
    bits_per_second: u64,
}

#[derive(Serialize)]
struct Sampled {
    under: &'static str,
    samples: u32,
    min_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// Thrown away because of what was stolen meanwhile.
    discarded: u32,
    stolen_ns: u64,
}

#[derive(Serialize)]
struct Absent<'a> {
    what: &'a str,
    why: &'a str,
}

/// One JSON object and a line end.
pub(super) fn page(calibration: &Calibration, path: &Path) -> String {
    let Calibration { host, run, switching, sending, receiving, .. } = calibration;
    let Calibration { figures, cache_refill, messages, arrivals, absent, .. } = calibration;
    let page = Page {
        path: path.display().to_string(),
        cpu_model: &host.cpu_model,
        kernel_release: &host.kernel_release,
        cpus: host.cpus,
        at_unix_s: run.at_unix_s,
        duration_ns: run.duration.as_nanos(),
        version: &run.version,
        quick: run.quick,
        stolen_ns: run.stolen.map(Duration::as_nanos),
        switching: switching.map(|charge| Switching {
            context_switch_ns: charge.context_switch().as_nanos(),
            switch_ns: charge.switch.as_nanos(),
            by: charge.by.name(),
            cache_refill_ns: charge.cache_refill.as_nanos(),
            working_set_bytes: charge.working_set,
            percentile_ppm: charge.percentile.as_ppm(),
        }),
        figures: figures
            .iter()
            .map(|figure| Figure {
                operation: figure.operation.name(),
                sampled: sampled(figure.under, &figure.spread, figure.discarded, figure.stolen),
            })
            .collect(),
        cache_refill: cache_refill
            .iter()
            .map(|refill| Refill {
                working_set_bytes: refill.working_set,
                sampled: sampled(refill.under, &refill.spread, refill.discarded, refill.stolen),
            })
            .collect(),
        sending: sending.as_ref().map(|charge| Sending {
            switch_ns: charge.costs.switch.as_nanos(),
            cache_ns: charge.costs.cache.as_nanos(),
            first_packet_ns: charge.costs.first_packet.as_nanos(),
            packet_ns: charge.costs.packet.as_nanos(),
            link_scheduling_ns: charge.costs.link_scheduling.as_nanos(),
            path: charge.path.as_deref(),
            largest_packet_bytes: charge.largest_packet,
            percentile_ppm: charge.percentile.map(Percentile::as_ppm),
        }),
        receiving: receiving.as_ref().map(|charge| Receiving {
            switch_ns: charge.costs.switch.as_nanos(),
            cache_ns: charge.costs.cache.as_nanos(),
            first_packet_ns: charge.costs.first_packet.as_nanos(),
            packet_ns: charge.costs.packet.as_nanos(),
            per_packet_ns: charge.costs.per_packet().as_nanos(),
            path: charge.path.as_deref(),
            largest_packet_bytes: charge.largest_packet,
            percentile_ppm: charge.percentile.map(Percentile::as_ppm),
        }),
        messages: messages
            .iter()
            .map(|one| Message {
                packet_bytes: one.packet_bytes,
                packets_per_block: one.packets_per_block,
                packets: one.packets,
                sampled: sampled(one.under, &one.spread, one.discarded, one.stolen),
                bits_per_second: one.bits_per_second(),
            })
            .collect(),
        arrivals: arrivals
            .iter()
            .map(|one| Arrival {
                packet_bytes: one.packet_bytes,
                framing: one.framing_name(),
                packets: one.packets,
                sampled: sampled(one.under, &one.spread, one.discarded, one.stolen),
                bits_per_second: one.bits_per_second(),
            })
            .collect(),
        absent: absent.iter().map(|one| Absent { what: &one.what, why: &one.why }).collect(),
    };
    // Strings and numbers alone: there is nothing in it that JSON cannot say.
    serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
}

fn sampled(under: Under, spread: &Spread, discarded: u32, stolen: Duration) -> Sampled {
    Sampled {
        under: under.name(),
        samples: spread.samples(),
        min_ns: spread.min().as_nanos(),
        p50_ns: spread.p50().as_nanos(),
        p99_ns: spread.p99().as_nanos(),
        max_ns: spread.max().as_nanos(),
        discarded,
        stolen_ns: stolen.as_nanos(),
    }
}
