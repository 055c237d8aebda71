//! The cost of receiving, for a person: a row for each packet size and framing.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::Duration;
use punctual_model::host::{ArrivalCost, Calibration};

use super::size;

/// Returns a table with the cost of a single packet, the median cost of each further packet in the
/// largest batch, and the rate of that batch.
pub(super) fn table(calibration: &Calibration) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "received",
        "as",
        "class",
        "samples",
        "discarded",
        "first: p50",
        "p99",
        "max",
        "each further: p50",
        "at most",
    ]);
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let kind = |one: &ArrivalCost| (one.packet_bytes, one.framing_name());
    for of_a_kind in calibration.arrivals.chunk_by(|a, b| kind(a) == kind(b)) {
        let (Some(one), Some(most)) =
            (of_a_kind.iter().find(|one| one.packets == 1), of_a_kind.last())
        else {
            continue;
        };
        let beyond = most.sampled.spread.p50().saturating_sub(one.sampled.spread.p50());
        let further = match most.packets {
            1 => String::new(),
            packets => (beyond / (u64::from(packets) - 1)).to_string(),
        };
        let times = [one.sampled.spread.p50(), one.sampled.spread.p99(), one.sampled.spread.max()];
        let cells = [
            size(one.packet_bytes.into()),
            one.framing_name().to_owned(),
            one.sampled.under.name().to_owned(),
            one.sampled.spread.samples().to_string(),
            one.sampled.discarded.to_string(),
        ];
        let cells = cells.into_iter().chain(times.map(|time: Duration| time.to_string()));
        let rate = format!("{} Mbit/s", most.bits_per_second() / 1_000_000);
        table.add_row(cells.chain([further, rate]));
    }
    table
}

/// Returns in one line what admission charges.
pub(super) fn charge(calibration: &Calibration) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = match &calibration.receiving {
        Some(charge) => {
            let costs = &charge.costs;
            let of = charge
                .largest_packet
                .map_or(String::new(), |bytes| format!(" of at most {}", size(bytes.into())));
            let by = charge.path.as_ref().map_or(String::new(), |path| format!(" by {path}"));
            let kept = if calibration.absent.iter().any(|absent| absent.what == "receiving") {
                " (measured before, and kept)"
            } else {
                ""
            };
            writeln!(
                line,
                "a packet{of} that comes in{by} is charged {}: {} for the first of those \
                 that wait together or {} for a further one, whichever is dearer, and {} for the change \
                 to the thread{kept}",
                costs.per_packet(),
                costs.first_packet,
                costs.packet,
                costs.switch.saturating_add(costs.cache),
            )
        }
        None => writeln!(
            line,
            "admission charges a packet that comes in as one that goes out: it could not be measured"
        ),
    };
    line
}
