//! Makes the parts of the page: tables, marks, and its head with the content security policy, which
//! allows a browser to show the page and run its one script, which is here too.

use maud::{Markup, PreEscaped, html};
use punctual_sweep::sheet::{Sheet, Value};

/// The most rows of a table. Longer ones are of no use to a reader.
const MOST_ROWS: usize = 1_100;

const BASE: &str = punctual_sweep::page::STYLE;
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("timeline.js");

/// The SHA-256 of the script in base64. A browser runs nothing else, and a test compares it.
const SCRIPT_HASH: &str = "O5OFzeoK3zSO1B6AhujqEj+Y5yT/QMtT0DDHVcM02yw=";

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

pub(super) fn head(title: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; \
         form-action 'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            meta http-equiv="Content-Security-Policy" content=(policy);
            title { (title) }
            style { (PreEscaped(BASE)) (PreEscaped(STYLE)) }
        }
    }
}

pub(super) fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_script_is_the_one_that_the_policy_names() {
        let digest = Sha256::digest(SCRIPT.as_bytes());
        assert_eq!(SCRIPT_HASH, STANDARD.encode(digest), "write this into SCRIPT_HASH");
        assert!(!SCRIPT.contains("</"), "would end the element");
    }
}
