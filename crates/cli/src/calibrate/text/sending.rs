//! The cost of sending, for a person: a row for each packet size.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::Duration;
use punctual_model::host::{Calibration, MessageCost};

use super::size;

/// Returns a table with the cost of messages of one packet and of the most packets, the median cost
/// of each packet beyond the first (alone and in a train), and the rate that trains reach.
pub(super) fn table(calibration: &Calibration) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "packets of",
        "class",
        "samples",
        "discarded",
        "first: p50",
        "p99",
        "max",
        "each further: p50",
        "in a train",
        "at most",
    ]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for of_a_size in calibration.messages.chunk_by(|a, b| a.packet_bytes == b.packet_bytes) {
        let Some(one) = of_a_size.iter().find(|one| one.packets == 1) else { continue };
        let longest = |trains: bool| {
            let those = of_a_size.iter().filter(|one| (one.packets_per_block > 1) == trains);
            those.max_by_key(|one| one.packets)
        };
        let further = |long: Option<&MessageCost>| match long {
            Some(long) if long.packets > 1 => {
                let beyond = long.sampled.spread.p50().saturating_sub(one.sampled.spread.p50());
                (beyond / (u64::from(long.packets) - 1)).to_string()
            }
            _ => String::new(),
        };
        let rate =
            longest(true).map(|long| format!("{} Mbit/s", long.bits_per_second() / 1_000_000));
        let times = [one.sampled.spread.p50(), one.sampled.spread.p99(), one.sampled.spread.max()];
        let cells = [
            size(one.packet_bytes.into()),
            one.sampled.under.name().to_owned(),
            one.sampled.spread.samples().to_string(),
            one.sampled.discarded.to_string(),
        ];
        let cells = cells.into_iter().chain(times.map(|time: Duration| time.to_string()));
        let rest = [further(longest(false)), further(longest(true)), rate.unwrap_or_default()];
        table.add_row(cells.chain(rest));
    }
    table
}

/// Returns in one line what admission charges.
pub(super) fn charge(calibration: &Calibration) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = match &calibration.sending {
        Some(charge) => {
            let costs = &charge.costs;
            let of = charge.largest_packet.map_or(String::new(), |bytes| {
                format!(" with packets of at most {}", size(bytes.into()))
            });
            let by = charge.path.as_ref().map_or(String::new(), |path| format!(" by {path}"));
            let kept = if calibration.absent.iter().any(|absent| absent.what == "sending") {
                " (measured before, and kept)"
            } else {
                ""
            };
            writeln!(
                line,
                "admission charges {} for the first packet of a message{of}{by}, {} for each further \
                 one, {} for the picking of each, and {} for each change between channels{kept}",
                costs.first_packet,
                costs.packet,
                costs.link_scheduling,
                costs.change_of_handler(),
            )
        }
        None => writeln!(
            line,
            "admission takes what sending costs from contracts alone: it could not be measured"
        ),
    };
    line
}
