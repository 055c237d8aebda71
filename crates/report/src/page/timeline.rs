//! Shows the whole run, with a lane for each subject.

use maud::{Markup, PreEscaped, html};
use punctual_model::Duration;

use super::scale::{Line, short};
use super::{data, lane};
use crate::Report;
use crate::gather::{Lane, Survey, counted};
use crate::tables;

/// The buttons: the action of the script, the words, the key.
const BUTTONS: &[(&str, &str, &str)] = &[
    ("in", "Zoom in", "+"),
    ("out", "Zoom out", "−"),
    ("left", "Earlier", "←"),
    ("right", "Later", "→"),
    ("whole", "Whole run", "0"),
    ("before", "Late job before", "p"),
    ("next", "Next late job", "n"),
];

pub(super) fn timeline(report: &Report) -> Markup {
    let (survey, drawn) = (&report.survey, &report.drawn);
    let from = drawn.from.as_nanos();
    let line = Line { from, to: from.saturating_add(drawn.span) };
    html! {
        @if drawn.lanes.is_empty() {
            p { "There is no job in this trace." }
        } @else {
            p { (what_is_drawn(report)) }
            @if drawn.without_lane > 0 {
                p.note {
                    (counted(drawn.without_lane as u64, "subject")) " with fewer late jobs, or fewer jobs, \
                     have no lane here; the tables have all of them."
                }
            }
            div.controls hidden role="group" aria-label="Timeline" {
                @for (action, words, key) in BUTTONS {
                    button type="button" data-do=(action) {
                        (words) " " kbd aria-hidden="true" { (key) }
                    }
                }
            }
            p.seen id="keys" hidden {
                "Keys in the timeline: + and − zoom, ← and → move, Home and End go to the beginning and \
                 the end, 0 shows the whole run, n and p go to the next late job and the one before, ↑ and ↓ \
                 choose a lane, [ and ] a job in it. A click chooses a job."
            }
            div.timeline id="plot" {
                (ticks(line, from))
                ul.lanes {
                    @for lane in &drawn.lanes { (one(survey, lane)) }
                }
            }
            p.said id="said" role="status" {}
            (lane::legend())
            (data_block(report))
        }
    }
}

/// Makes the scale above lanes.
pub(super) fn ticks(line: Line, zero: u64) -> Markup {
    html! {
        div.ticks aria-hidden="true" {
            @for (place, text) in line.ticks(zero) {
                span style={ "left:" (format!("{place:.2}")) "%" } { (text) }
            }
        }
    }
}

fn one(survey: &Survey, drawn: &Lane) -> Markup {
    let name = tables::name(survey, drawn.subject);
    html! {
        li {
            span.who { bdi { (name) } }
            svg viewBox={ "0 0 1000 " (lane::HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label=(seen(survey, drawn, &name)) {
                (lane::overview(drawn))
            }
        }
    }
}

/// Describes a lane for readers who cannot see it.
fn seen(survey: &Survey, lane: &Lane, name: &str) -> String {
    let judged = &survey.judged[lane.subject as usize];
    let busy: u64 = lane.busy.iter().map(|&busy| u64::from(busy)).sum();
    let percent = busy / lane.busy.len().max(1) as u64;
    let mut text = format!(
        "{name}: {} complete, busy {percent} % of the time",
        counted(judged.complete, "job")
    );
    if judged.late > 0 {
        text += &format!(", {} late", judged.late);
        let column =
            |column: u16| survey.span() / lane.busy.len().max(1) as u64 * u64::from(column);
        if let [(first, _), ..] = lane.late[..] {
            text += &format!(", the first deadline missed at about {}", short(column(first)));
        }
        text += &format!(", at most by {}", short(judged.max_tardiness.as_nanos()));
    }
    text
}

/// Says what is drawn, and what was left out.
fn what_is_drawn(report: &Report) -> String {
    let (survey, drawn) = (&report.survey, &report.drawn);
    let windows = &drawn.windows;
    let whole =
        format!("{} in {} columns", Duration::from_nanos(survey.span()), crate::gather::COLUMNS);
    if windows.is_whole {
        return format!("The whole run, {whole}: zoomed in, every job is drawn.");
    }
    format!(
        "The whole run, {whole}: how much of the time each subject ran, and where deadlines were missed. \
         Too many jobs to draw each of them: zoomed in, {} of {} are drawn one by one, at the beginning and \
         around the latest jobs, in {}; elsewhere the columns are all there is.",
        windows.jobs(),
        survey.jobs,
        counted(windows.all.len() as u64, "window"),
    )
}

fn data_block(report: &Report) -> Markup {
    // No part of it can end the element.
    let text = data::data(report).to_string().replace('<', "\\u003c");
    html! { script type="application/json" id="data" { (PreEscaped(text)) } }
}
