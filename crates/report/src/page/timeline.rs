//! Shows the whole run, with a lane for each subject: the contents of an SVG element that may be
//! stretched. After zooming the script draws from data in the page: nanoseconds since the first
//! event, in short lists.

use maud::{Markup, PreEscaped, html};
use punctual_model::{Duration, Instant};
use serde_json::{Value, json};

use super::scale::{Boxes, Line, WIDTH, short};
use crate::gather::{COLUMNS, Fate, Job, Lane, Late, Survey, counted};
use crate::{Report, shown, tables};

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

/// The height of a lane.
pub(super) const HEIGHT: u32 = 24;

/// `2^53`, beyond which a script's numbers have gaps.
const EXACT: u64 = 1 << 53;

/// The fates by number, as the script names them.
const FATES: [&str; 5] = ["complete", "aborted", "contained", "never begun", "end not seen"];

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
            (legend())
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
            svg viewBox={ "0 0 1000 " (HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label=(seen(survey, drawn, &name)) {
                (overview(drawn))
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
    let text = data(report).to_string().replace('<', "\\u003c");
    html! { script type="application/json" id="data" { (PreEscaped(text)) } }
}

/// Draws how busy the subject was over the whole run, and its late jobs.
fn overview(lane: &Lane) -> Markup {
    let mut area = format!("M0 {HEIGHT}");
    let mut at = 0;
    for busy in lane.busy.chunk_by(|a, b| a == b) {
        at += busy.len();
        let height = f64::from(busy[0]) * 0.19;
        let x = at as f64 * WIDTH / COLUMNS as f64;
        area += &format!("V{:.1}H{x}", f64::from(HEIGHT) - height);
    }
    area += &format!("V{HEIGHT}Z");
    let mut late = Boxes::default();
    for (column, _) in &lane.late {
        let x = f64::from(*column) * WIDTH / COLUMNS as f64;
        late.add((x, x + 2.0), (0, HEIGHT));
    }
    html! {
        path.r d=(area) {}
        @if !late.0.is_empty() { path.l d=(late.0) {} }
    }
}

/// Draws jobs one by one. `deadline` returns the absolute deadline of a late job.
pub(super) fn jobs<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    line: Line,
    deadline: impl Fn(&Job) -> Option<u64>,
) -> Markup {
    let [mut waits, mut runs, mut throttled, mut late, mut never] =
        std::array::from_fn(|_| Boxes::default());
    for job in jobs {
        let place = |at: punctual_model::Instant| line.at(at.as_nanos());
        let (from, to) = (place(job.release), place(job.end));
        match job.fate {
            Fate::Skipped(_) => never.add((from, from + 2.0), (2, HEIGHT - 2)),
            _ => waits.add((from, to), (11, 13)),
        }
        job.ran.iter().for_each(|ran| runs.add((place(ran.0), place(ran.1)), (6, 18)));
        let stopped = job.throttled.iter();
        stopped.for_each(|ran| throttled.add((place(ran.0), place(ran.1)), (8, 16)));
        if let Some(deadline) = deadline(job) {
            late.add((line.at(deadline), to), (0, HEIGHT));
        }
    }
    let paths = [("l", late), ("w", waits), ("t", throttled), ("r", runs), ("n", never)];
    html! {
        @for (class, boxes) in paths {
            @if !boxes.0.is_empty() { path class=(class) d=(boxes.0) {} }
        }
    }
}

/// Explains the signs of a timeline.
fn legend() -> Markup {
    let sign = |class: &'static str, d: &'static str, text: &'static str| {
        html! {
            li {
                svg viewBox="0 0 30 24" width="30" height="24" aria-hidden="true" { path class=(class) d=(d) {} }
                " " (text)
            }
        }
    };
    html! {
        ul.legend {
            (sign("r", "M2 6H28V18H2Z", "runs (over the whole run: how much of the time)"))
            (sign("w", "M2 11H28V13H2Z", "released, not running"))
            (sign("l", "M8 0H22V24H8Z", "late: beyond its deadline"))
            (sign("t", "M2 8H28V16H2Z", "throttled"))
            (sign("n", "M13 2H16V22H13Z", "never begun"))
        }
    }
}

fn data(report: &Report) -> Value {
    let (survey, drawn) = (&report.survey, &report.drawn);
    let since = |at: Instant| at.saturating_since(drawn.from).as_nanos().min(EXACT);
    let lane_of = |subject: u32| drawn.lanes.iter().position(|lane| lane.subject == subject);
    let lanes: Vec<Value> = drawn
        .lanes
        .iter()
        .map(|lane| {
            let deadline = survey.subjects.all()[lane.subject as usize].promise.relative_deadline;
            json!({
                "name": tables::name(survey, lane.subject),
                "busy": lane.busy,
                "late": lane.late,
                "deadline": deadline.map(punctual_model::Duration::as_nanos),
            })
        })
        .collect();
    let job = |job: &Job| -> Option<Value> {
        let lane = lane_of(job.subject)?;
        let pairs = |stretches: &[(Instant, Instant)]| -> Vec<u64> {
            stretches.iter().flat_map(|&(from, to)| [since(from), since(to)]).collect()
        };
        Some(json!([
            lane,
            job.index.to_string(),
            signed_since(job.release, drawn.from),
            job.start.map(since),
            since(job.end),
            fate(job.fate),
            pairs(&job.ran),
            pairs(&job.throttled),
        ]))
    };
    let windows: Vec<Value> = drawn
        .windows
        .all
        .iter()
        .map(|window| {
            let jobs: Vec<Value> = window.jobs.iter().filter_map(job).collect();
            json!({ "from": since(window.from), "to": since(window.to), "jobs": jobs })
        })
        .collect();
    let late = |late: &&Late| -> Option<Value> {
        let lane = lane_of(late.subject)?;
        Some(json!([
            lane,
            late.index.to_string(),
            signed_since(late.release, drawn.from),
            signed_since(late.deadline, drawn.from),
            since(late.end),
            causes(late),
        ]))
    };
    let mut latest: Vec<&Late> = survey.late.latest();
    latest.sort_by_key(|late| (late.deadline, late.subject, late.index));
    json!({
        "span": drawn.span.min(EXACT),
        "fates": FATES,
        "lanes": lanes,
        "windows": windows,
        "late": latest.iter().filter_map(late).collect::<Vec<_>>(),
    })
}

/// Returns the difference, which is negative before the first event.
fn signed_since(at: Instant, from: Instant) -> i64 {
    let difference = i128::from(at.as_nanos()) - i128::from(from.as_nanos());
    let exact = i128::from(EXACT);
    // The value is now within an i64.
    difference.clamp(-exact, exact) as i64
}

fn fate(fate: Fate) -> usize {
    FATES.iter().position(|&word| word == fate.word()).unwrap_or(FATES.len() - 1)
}

fn causes(late: &Late) -> String {
    match &late.causes {
        None => "the trace has no causes".into(),
        Some(causes) if causes.is_empty() => "no cause was named".into(),
        Some(causes) => {
            let told = causes.iter().take(3);
            let told = told.map(|one| {
                format!("{} for {}", shown::line(&one.text), short(one.share.as_nanos()))
            });
            told.collect::<Vec<_>>().join("; ")
        }
    }
}
