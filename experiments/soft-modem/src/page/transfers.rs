//! Tables 1 to 3: file transfers.

use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Plot, Shape};

use crate::map::transfers::{Found, Row, TRANSFERS, VARIANTS, sheets, statistics};

/// Returns the section.
pub fn section(rows: &[Row], found: &[Found]) -> Section {
    let mut tables = sheets(rows, found);
    let first = tables.remove(0);
    let others = tables.into_iter().enumerate().map(|(at, sheet)| Part {
        title: VARIANTS[at + 1].title.into(),
        plots: vec![successes(rows, found, at + 1)],
        sheet,
    });
    Section {
        title: "File transfers (Tables 1 to 3)".into(),
        about: vec![
            "Ten transfers of each kind, in virtual time: two real modems dial, train and carry a \
             file with V.42 error correction over a line with 10 dB loss and 30 dB signal over \
             noise; the one that receives hangs on the emulated card and is served in the context \
             named. Its driver is charged what the study's modem needed, 1.84 ms a batch of 12.5 ms. \
             V.22bis carries 2,400 bit/s, V.21 300; files are of a size that takes some 37 and \
             42 s, as the study's 200,000 bytes did at 50 kbit/s."
                .into(),
            "Times count from CONNECT to the last byte, of the transfers that succeeded. A transfer \
             failed if the call ended, did not connect, or was not done 260 s after dialling. \
             \"Study\" is its Table 2 (dedicated server) and, for hard reservations, Table 3."
                .into(),
            "The table has V.22bis over a card that is a latch; the same over a ring, and V.21, follow. \
             Where a hard reservation that the map calls sufficient lost samples, it was the wake-up \
             latency of up to a millisecond that the map does not have: it adds to the gap, and takes \
             from the budget. A batch lost now and then costs a retrain or a frame, and time; batch \
             after batch costs the call."
                .into(),
            "How late each context begins is a model, not a measurement (contexts.rs has the \
             numbers): DPC up to 50 µs and seldom 500, a real-time thread up to 40 µs and seldom \
             1 ms, an ordinary thread beside a competitor in turns of 120 ms."
                .into(),
        ],
        summary: first,
        plots: vec![successes(rows, found, 0)],
        parts: others.collect(),
    }
}

fn successes(rows: &[Row], found: &[Found], variant: usize) -> Plot {
    let name = VARIANTS[variant].name;
    // Bars are drawn from the bottom up, and the first belongs at the top.
    let counts = found.iter().rev().map(|one| statistics(&one.variants[variant]).2 as f64);
    Plot {
        title: format!("Transfers that succeeded, of {TRANSFERS}: {name}"),
        description: format!(
            "One bar for each context, as long as the number of its {TRANSFERS} transfers that \
             succeeded with {name}."
        ),
        x: Axis::new("transfers", 0.0, TRANSFERS as f64),
        y: Axis::of_names("", rows.iter().rev().map(|row| row.context.name()).collect()),
        shape: Shape::Bars(counts.collect()),
    }
}
