//! Renders the figures for a person.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::Duration;
use punctual_model::host::{ArrivalCost, Calibration, MessageCost, Sampled};

use punctual::calibrate::{Written, size};

/// Returns the tables, the list of what could not be measured, and what admission charges.
pub(super) fn page(written: &Written) -> String {
    let calibration = &written.calibration;
    let mut page = String::new();
    let mut figures = table("operation");
    for figure in &calibration.figures {
        let name = figure.operation.name();
        row(&mut figures, name, &figure.sampled);
    }
    let mut refills = table("refill of");
    for refill in &calibration.cache_refill {
        let name = size(refill.working_set);
        row(&mut refills, &name, &refill.sampled);
    }
    let (messages, arrivals) = (sending(calibration), receiving(calibration));
    // Writing to a string cannot fail.
    for table in [figures, refills, messages, arrivals].iter().filter(|table| !table.is_empty()) {
        let _ = writeln!(page, "{table}\n");
    }
    for absent in &calibration.absent {
        let _ = writeln!(page, "not measured: {}: {}", absent.what, absent.why);
    }
    if let Some(stolen) = calibration.run.stolen.filter(|stolen| !stolen.is_zero()) {
        let _ = writeln!(
            page,
            "the hypervisor took {stolen} of processor time meanwhile; samples of bursts in which it \
             did are discarded"
        );
    }
    let _ = match calibration.switching {
        Some(charge) => writeln!(
            page,
            "admission charges {} for each of the two switches of a job: {} of samples of {} took at most \
             {}, and {} of refills of any set up to {} at most {}",
            charge.context_switch(),
            charge.percentile,
            charge.by,
            charge.switch,
            charge.percentile,
            size(charge.working_set),
            charge.cache_refill,
        ),
        None => {
            writeln!(page, "admission charges nothing for switches: they could not be measured")
        }
    };
    page.push_str(&charge_of_sending(calibration));
    page.push_str(&charge_of_receiving(calibration));
    let _ = writeln!(page, "written to {}", written.path);
    page
}

fn table(of: &str) -> Table {
    table_of(&[of, "class", "samples", "discarded", "min", "p50", "p99", "max"], 2)
}

/// Returns an empty table of numbers beside `names` columns of names.
fn table_of(header: &[&str], names: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(table: &mut Table, name: &str, sampled: &Sampled) {
    let Sampled { under, spread, discarded, .. } = sampled;
    let times = [spread.min(), spread.p50(), spread.p99(), spread.max()]
        .map(|time: Duration| time.to_string());
    let counts = [spread.samples().to_string(), discarded.to_string()];
    let cells = [name.to_owned(), under.name().to_owned()].into_iter().chain(counts).chain(times);
    table.add_row(cells);
}

/// Returns a table with the cost of messages of one packet and of the most packets, the median cost
/// of each packet beyond the first (alone and in a train), and the rate that trains reach.
fn sending(calibration: &Calibration) -> Table {
    let mut table = table_of(
        &[
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
        ],
        2,
    );
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
fn charge_of_sending(calibration: &Calibration) -> String {
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

/// Returns a table with the cost of a single packet, the median cost of each further packet in the
/// largest batch, and the rate of that batch.
fn receiving(calibration: &Calibration) -> Table {
    let mut table = table_of(
        &[
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
        ],
        3,
    );
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
fn charge_of_receiving(calibration: &Calibration) -> String {
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
