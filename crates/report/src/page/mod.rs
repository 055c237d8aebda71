//! Writes the page: tables with plots between them. Everything in a plot is also in a table or a
//! sentence. Without JavaScript only zooming is missing.
//!
//! - `parts`: the head with the content security policy and the script, tables, notes.
//! - `scale`: from instants and times to places.
//! - `timeline`: when each subject ran, and which jobs were late.
//! - `plots`: response times, wake-up latencies and the use of budgets, a plot a subject.
//! - `worst`: the latest jobs, one by one.

mod parts;
mod plots;
mod scale;
mod timeline;
mod worst;

use maud::{DOCTYPE, Markup, html};
use punctual_model::{Duration, Instant, host};
use punctual_trace::file::Run;

use crate::admission::Admission;
use crate::gather::{Survey, counted};
use crate::tables::{Tally, tally};
use crate::{Report, shown, tables};

/// The sections, in order, by id and heading.
const SECTIONS: &[(&str, &str)] = &[
    ("promises", "Promises"),
    ("timeline", "Timeline"),
    ("late", "Late jobs"),
    ("times", "Response times and wake-up latencies"),
    ("budgets", "Use of budgets"),
    ("contract", "The contract and its admission"),
    ("host", "The host"),
    ("missing", "What is missing"),
];

/// The number of bytes of a contract that are shown.
const LONGEST: usize = 64 << 10;

impl Report {
    /// Returns the page. `file` is the name of the trace, for its title.
    pub fn to_html(&self, file: &str) -> String {
        page(self, file)
    }
}

fn page(report: &Report, file: &str) -> String {
    let survey = &report.survey;
    let title = format!("{}: what happened", shown::name(file));
    html! {
        (DOCTYPE)
        html lang="en" {
            (parts::head(&title))
            body {
                a.skip href="#main" { "To the report" }
                header {
                    h1 { (title) }
                    (facts(survey))
                    (promise_counts(tally(survey)))
                    @for warning in report.warnings() { p.note.warning { strong { "Note: " } (warning) } }
                }
                nav aria-label="Sections" {
                    ul { @for (id, heading) in SECTIONS { li { a href={ "#" (id) } { (heading) } } } }
                }
                main id="main" tabindex="-1" {
                    (section("promises", promises(survey)))
                    (section("timeline", timeline::timeline(report)))
                    (section("late", worst::late(report)))
                    (section("times", plots::times(report)))
                    (section("budgets", plots::budgets(survey)))
                    (section("contract", contract(report)))
                    (section("host", host_facts(survey.run.as_ref())))
                    (section("missing", missing(survey)))
                }
                footer {
                    p {
                        "Written by Punctual from the trace alone. Percentiles are at most one \
                         percent too long, the longest times are exact. Instants count from the first \
                         event. The report as JSON has the same tables."
                    }
                }
                (parts::script())
            }
        }
    }
    .into_string()
}

fn section(id: &str, inside: Markup) -> Markup {
    let heading =
        SECTIONS.iter().find(|(known, _)| *known == id).map_or(id, |(_, heading)| heading);
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (heading) }
            (inside)
        }
    }
}

/// Lists the facts of the run.
fn facts(survey: &Survey) -> Markup {
    let run = survey.run.as_ref();
    let command = run.map_or("", |run| run.command.as_str());
    html! {
        dl.facts {
            @if !command.is_empty() { dt { "Command" } dd { code { (shown::line(command)) } } }
            @match run {
                Some(run) if run.live => {
                    dt { "When" }
                    dd { (moment(run, survey.from())) ", live" }
                }
                Some(_) => { dt { "When" } dd { "in virtual time" } }
                None => { dt { "When" } dd { "not known: the first block is not there" } }
            }
            dt { "How long" }
            dd {
                (scale::short(survey.span())) ": " (counted(survey.events, "event")) ", "
                (counted(survey.jobs, "job")) " of " (counted(survey.subjects.all().len() as u64, "subject"))
            }
        }
    }
}

/// Formats an instant as a date and a time of day, in UTC.
fn moment(run: &Run, at: Instant) -> String {
    let nanos = i128::from(run.epoch_unix_ns) + i128::from(at.as_nanos());
    let Ok(at_unix_s) = u64::try_from(nanos / 1_000_000_000) else {
        return "before 1970".into();
    };
    let (duration, version) = (Duration::ZERO, String::new());
    let of_calendar = host::Run { at_unix_s, duration, version, quick: false, stolen: None };
    let (year, month, day) = of_calendar.date();
    let (hour, minute, second) = (at_unix_s / 3600 % 24, at_unix_s / 60 % 60, at_unix_s % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Shows how many promises were kept, in words and marks.
fn promise_counts(tally: Tally) -> Markup {
    let Tally { kept, broken, not_judgeable } = tally;
    html! {
        ul.standing aria-label="Promises" {
            li.kept { (parts::mark("kept")) b { (kept) } " kept" }
            li.broken { (parts::mark("broken")) b { (broken) } " broken" }
            li.unjudged { (parts::mark("not judgeable")) b { (not_judgeable) } " not judgeable" }
        }
    }
}

fn promises(survey: &Survey) -> Markup {
    let [promises, fates] = tables::promises_and_fates(survey);
    let constraints = tables::constraints(survey);
    html! {
        p {
            "A promise is kept if every job of the run was complete by its absolute deadline. Where \
             events were lost, or the trace ends before its run, it is broken or not judgeable, never \
             kept."
        }
        (parts::table(&promises, "What was promised to whom, and what became of it"))
        @if !fates.rows.is_empty() {
            (parts::table(&fates, "What else became of jobs, where anything did"))
        }
        @if !constraints.rows.is_empty() {
            p {
                "A time constraint is a promise of its own: so much work, not before its start, by its \
                 deadline. It is kept if its thread ended it by then. One that was refused was promised \
                 nothing."
            }
            (parts::table(&constraints, "Time constraints"))
        }
    }
}

fn host_facts(run: Option<&Run>) -> Markup {
    let facts = run.map_or(&[][..], |run| &run.host);
    html! {
        @if facts.is_empty() {
            p { "The trace does not describe its host." }
        } @else {
            p { "As the host said of itself when the run began." }
            ul { @for fact in facts { li { (shown::line(fact)) } } }
        }
    }
}

fn missing(survey: &Survey) -> Markup {
    let sentences = survey.losses.sentences();
    let table = tables::missing(survey);
    html! {
        @if sentences.is_empty() {
            p { "Nothing: no event was lost and the file is whole as far as it goes." }
        }
        @for sentence in sentences { p { (sentence) } }
        @if survey.end.is_none() {
            p { "The trace has no end: its writer died, or still writes." }
        }
        @if !table.rows.is_empty() { (parts::table(&table, "Where something is missing")) }
    }
}

fn contract(report: &Report) -> Markup {
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
