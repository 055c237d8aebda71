//! Renders the figures for a person.

mod receiving;
mod sending;

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::Duration;
use punctual_model::host::Sampled;

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
    let (messages, arrivals) = (sending::table(calibration), receiving::table(calibration));
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
    page.push_str(&sending::charge(calibration));
    page.push_str(&receiving::charge(calibration));
    let _ = writeln!(page, "written to {}", written.path);
    page
}

fn table(of: &str) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([of, "class", "samples", "discarded", "min", "p50", "p99", "max"]);
    for column in table.column_iter_mut().skip(2) {
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
