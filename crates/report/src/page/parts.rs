//! Makes tables and marks.

use maud::{Markup, html};
use punctual_sweep::sheet::{Sheet, Value};

/// The most rows of a table. Longer ones are of no use to a reader.
const MOST_ROWS: usize = 1_100;

/// Makes a table that can be scrolled sideways, also with keys.
pub(super) fn table(sheet: &Sheet, caption: &str) -> Markup {
    html! {
        div.wide role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { span { (caption) } }
                thead {
                    tr {
                        @for (at, (_, title)) in sheet.columns.iter().enumerate() {
                            th.number[is_number(sheet, at)] scope="col" { (title) }
                        }
                    }
                }
                tbody {
                    @for row in sheet.rows.iter().take(MOST_ROWS) {
                        tr {
                            @for (at, value) in row.iter().enumerate() {
                                @if at == 0 {
                                    th scope="row" { bdi { (value.to_text()) } }
                                } @else {
                                    (cell(sheet.columns[at].0, value))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if sheet.rows.len() > MOST_ROWS {
            p { "The first " (MOST_ROWS) " of " (sheet.rows.len()) " rows; all are in the JSON." }
        }
    }
}

/// Returns whether a column has numbers, judged by its first row.
fn is_number(sheet: &Sheet, column: usize) -> bool {
    column > 0 && sheet.rows.first().is_some_and(|row| row[column].is_number())
}

fn cell(column: &str, value: &Value) -> Markup {
    let text = value.to_text();
    html! {
        @if column == "verdict" {
            td { span class=(class_of(&text)) { (mark(&text)) (text) } }
        } @else if value.is_number() {
            td.number { (text) }
        } @else {
            td { (text) }
        }
    }
}

fn class_of(verdict: &str) -> &'static str {
    match verdict {
        "kept" => "kept",
        "broken" => "broken",
        _ => "unjudged",
    }
}

/// Returns a sign beside the word, so that nothing depends on colour alone.
pub(super) fn mark(verdict: &str) -> Markup {
    let sign = match verdict {
        "kept" => "✓",
        "broken" => "✗",
        _ => "?",
    };
    html! { span.sign aria-hidden="true" { (sign) } " " }
}
