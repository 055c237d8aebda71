//! One HTML page with everything in it: no script, and nothing to fetch.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Plot, SIZE};
use super::section::Section;
use super::sheet::Sheet;
use crate::host_profile::Stamp;

/// The most rows of a table: beyond them, nobody reads and browsers stall.
const MOST_ROWS: usize = 2_000;

const STYLE: &str = include_str!("page.css");

/// The page. `contract` is its file's name, `stamp` the profile it is for, `notes` say what was left out and why.
pub(super) fn page(
    contract: &str,
    stamp: &Stamp,
    notes: &[String],
    sections: &[Section],
) -> String {
    let title = format!("{contract}: what would fit");
    let mut plots = 0;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Whatever stands in it, a browser loads nothing for it.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(plot::style())) }
            }
            body {
                main {
                    h1 { (title) }
                    @for note in notes { p.note { (note) } }
                    @for section in sections {
                        section {
                            h2 { (section.title) }
                            @for sentence in &section.about { p { (sentence) } }
                            (table(&section.summary))
                            @for plot in &section.plots { (figure(plot, &mut plots)) }
                            @for part in &section.parts {
                                h3 { (part.title) }
                                @for plot in &part.plots { (figure(plot, &mut plots)) }
                                details {
                                    summary { "The numbers (" (part.sheet.file()) ")" }
                                    (table(&part.sheet))
                                }
                            }
                        }
                    }
                    footer {
                        p { (stamp.line()) }
                        p {
                            "Written by punctual explore. Times are exact, in the largest unit that "
                            "fits; the CSV files beside this page have nanoseconds (_ns) and "
                            "millionths (_ppm)."
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn table(sheet: &Sheet) -> Markup {
    html! {
        @if sheet.rows.len() > MOST_ROWS {
            p { "The first " (MOST_ROWS) " of " (sheet.rows.len()) " rows." }
        }
        div.wide role="region" aria-label=(sheet.file()) tabindex="0" {
            table {
                thead {
                    tr { @for (_, title) in sheet.columns { th scope="col" { (title) } } }
                }
                tbody {
                    @for row in sheet.rows.iter().take(MOST_ROWS) {
                        tr {
                            @for value in row {
                                td.number[value.is_number()] { (value.to_text()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(plot: &Plot, before: &mut usize) -> Markup {
    *before += 1;
    let (title, description) = (format!("plot-{before}-title"), format!("plot-{before}-text"));
    let names = format!("{title} {description}");
    html! {
        figure {
            figcaption { (plot.title) }
            svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-labelledby=(names) {
                title id=(title) { (plot.title) }
                desc id=(description) { (plot.description) }
                (PreEscaped(plot::draw(plot)))
            }
            (legend(plot))
            p.seen { (plot.description) }
        }
    }
}

fn legend(plot: &Plot) -> Markup {
    let lines = plot::legend(plot);
    html! {
        @if !lines.is_empty() {
            ul.legend {
                @for (name, colour) in lines {
                    li {
                        svg viewBox="0 0 40 8" width="40" height="8" aria-hidden="true" {
                            line x1="0" y1="4" x2="40" y2="4" stroke=(colour) stroke-width="2" {}
                        }
                        " " (name)
                    }
                }
            }
        }
    }
}
