//! Writes one self-contained HTML page: no script, and nothing to fetch.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plot::{self, Key, Plot, SIZE, Shown};
use crate::sheet::Sheet;

/// The most rows of a table. Browsers stall on longer ones, and readers do not need them.
const MOST_ROWS: usize = 2_000;

/// The style sheet of tables, notes and figures, in light and dark. Other pages use it too.
pub const STYLE: &str = include_str!("page.css");

/// The page.
pub struct Page {
    /// The title and first heading.
    pub title: String,
    /// Notes on what was left out and why, or on what to know first.
    pub notes: Vec<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// The sentences at the foot of the page.
    pub footer: Vec<String>,
}

/// The results of one sweep, for every form of output.
pub struct Section {
    /// The heading.
    pub title: String,
    /// Sentences that say what was asked, what was assumed and how to read the answer.
    pub about: Vec<String>,
    /// The table that goes to the terminal.
    pub summary: Sheet,
    /// The plots of the summary.
    pub plots: Vec<Plot>,
    /// The parts that go only to files and to the page.
    pub parts: Vec<Part>,
}

/// All numbers of one question, with their plots.
pub struct Part {
    /// The heading.
    pub title: String,
    /// The plots, shown before the numbers.
    pub plots: Vec<Plot>,
    /// The numbers, folded away.
    pub sheet: Sheet,
}

impl Section {
    /// Returns every table, the summary first.
    pub fn sheets(&self) -> impl Iterator<Item = &Sheet> {
        std::iter::once(&self.summary).chain(self.parts.iter().map(|part| &part.sheet))
    }
}

impl Page {
    /// Returns the page as HTML. All texts are escaped, so that a browser runs and loads nothing
    /// because of them.
    pub fn to_html(&self) -> String {
        let mut plots = 0;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy"
                        content="default-src 'none'; style-src 'unsafe-inline'";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) (PreEscaped(plot::style())) }
                }
                body {
                    main {
                        h1 { (self.title) }
                        @for note in &self.notes { p.note { (note) } }
                        @for section in &self.sections { (whole(section, &mut plots)) }
                        footer { @for sentence in &self.footer { p { (sentence) } } }
                    }
                }
            }
        };
        page.into_string()
    }
}

fn whole(section: &Section, plots: &mut usize) -> Markup {
    html! {
        section {
            h2 { (section.title) }
            @for sentence in &section.about { p { (sentence) } }
            (table(&section.summary, &section.title))
            @for plot in &section.plots { (figure(plot, plots)) }
            @for part in &section.parts {
                h3 { (part.title) }
                @for plot in &part.plots { (figure(plot, plots)) }
                details {
                    summary { "The numbers (" (part.sheet.file()) ")" }
                    (table(&part.sheet, &part.title))
                }
            }
        }
    }
}

fn table(sheet: &Sheet, caption: &str) -> Markup {
    html! {
        @if sheet.rows.len() > MOST_ROWS {
            p { "The first " (MOST_ROWS) " of " (sheet.rows.len()) " rows." }
        }
        div.wide role="region" aria-label=(sheet.file()) tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (at, (_, title)) in sheet.columns.iter().enumerate() {
                            th.number[is_of_numbers(sheet, at)] scope="col" { (title) }
                        }
                    }
                }
                tbody {
                    @for row in sheet.rows.iter().take(MOST_ROWS) {
                        tr {
                            @for (at, value) in row.iter().enumerate() {
                                td.number[value.is_number() || is_of_numbers(sheet, at)] { (value.to_text()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether the first non-empty cell of the column is a number or reads as one.
fn is_of_numbers(sheet: &Sheet, column: usize) -> bool {
    let cells = sheet.rows.iter().map(|row| &row[column]);
    let mut held = cells.filter(|value| value.to_text() != "-");
    held.next().is_some_and(|value| value.is_number() || value.to_text().parse::<f64>().is_ok())
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
    let keys = plot::legend(plot);
    html! {
        @if !keys.is_empty() {
            ul.legend { @for key in keys { li { (sample(key)) } } }
        }
    }
}

fn sample(key: Key<'_>) -> Markup {
    html! {
        @match key {
            Key::Line(name, colour) => {
                svg viewBox="0 0 40 8" width="40" height="8" aria-hidden="true" {
                    line x1="0" y1="4" x2="40" y2="4" stroke=(colour) stroke-width="2" {}
                }
                " " (name)
            }
            Key::Class(name, colour) => {
                svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
                    rect width="16" height="16" fill=(colour) {}
                }
                " " (name)
            }
            Key::Mark(name, shown) => {
                span aria-hidden="true" { (glyph(shown)) } " " (name)
            }
        }
    }
}

fn glyph(shown: Shown) -> &'static str {
    match shown {
        Shown::Disc => "●",
        Shown::Triangle => "▲",
        Shown::Cross => "×",
        Shown::Ring => "○",
    }
}
