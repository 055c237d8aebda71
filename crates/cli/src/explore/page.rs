//! Renders the page of a contract.

use punctual_sweep::page::{Page, Section};

use punctual::host::Stamp;

/// Returns the page. `contract` is the name of the contract's file, `stamp` the profile used, and
/// `notes` say what was left out and why.
pub(super) fn page(
    contract: &str,
    stamp: &Stamp,
    notes: Vec<String>,
    sections: Vec<Section>,
) -> String {
    let footer = vec![
        stamp.line().to_string(),
        "Written by punctual explore. Times are exact, in the largest unit that fits; the CSV files \
         beside this page have nanoseconds (_ns) and millionths (_ppm)."
            .into(),
    ];
    let title = format!("{contract}: what would fit");
    Page { title, notes, sections, footer }.to_html()
}
