//! Shows the contract of the run and its admission.

use maud::{Markup, html};

use super::parts;
use crate::Report;
use crate::admission::Admission;
use crate::shown;

/// The number of bytes of a contract that are shown.
const LONGEST: usize = 64 << 10;

pub(super) fn contract(report: &Report) -> Markup {
    let Some(text) = report.contract() else {
        return html! { p { "The trace has no contract: the run was under none, or its first block is missing." } };
    };
    html! {
        @match &report.admission {
            None => {}
            Some(Err(error)) => {
                p.note.warning { strong { "Note: " } "the contract cannot be admitted again: " (shown::line(error)) }
            }
            Some(Ok(admission)) => { (arithmetic(admission)) }
        }
        details {
            summary { "The contract as its author wrote it" }
            (source(text))
        }
    }
}

fn arithmetic(admission: &Admission) -> Markup {
    html! {
        p {
            "Admitted again when this page was made: "
            span class=(if admission.is_admitted { "kept" } else { "broken" }) {
                (parts::mark(if admission.is_admitted { "kept" } else { "broken" }))
                (admission.verdict)
            }
            "."
        }
        p.seen { (admission.host) }
        @for (stream, lines) in &admission.arithmetic {
            h3 { "Stream " bdi { (stream) } }
            ul { @for line in lines { li { (line) } } }
        }
        @for (caption, sheet) in &admission.tables { (parts::table(sheet, caption)) }
    }
}

fn source(text: &str) -> Markup {
    let end = (0..=text.len().min(LONGEST)).rev().find(|&end| text.is_char_boundary(end));
    let end = end.unwrap_or(0);
    html! {
        div.wide role="region" aria-label="The contract" tabindex="0" {
            pre { code { (shown::lines(&text[..end])) } }
        }
        @if end < text.len() { p { "The first " (end) " of " (text.len()) " bytes." } }
    }
}
