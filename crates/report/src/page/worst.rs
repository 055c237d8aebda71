//! Shows the late jobs: the causes, and the latest jobs one by one.

use maud::{Markup, html};
use punctual_model::Instant;

use super::scale::{Line, instant, short};
use super::timeline::ticks;
use super::{parts, timeline};
use crate::gather::{Job, Late, Survey, counted};
use crate::{Report, shown, tables};

/// The number of late jobs that have a drawing.
const MOST_DRAWN: usize = 8;
/// The number of lanes of one drawing.
const MOST_LANES: usize = 8;

pub(super) fn late(report: &Report) -> Markup {
    let survey = &report.survey;
    let ones = &survey.late;
    let latest = ones.latest();
    let causes = tables::by_cause(survey);
    html! {
        @if latest.is_empty() {
            p { "No job of this trace is known to have been late." }
        } @else {
            p { (summary(survey)) }
            @if !causes.rows.is_empty() { (parts::table(&causes, "Why, of all late jobs with causes")) }
            (parts::table(&tables::latest(survey), "The latest jobs; instants since the first event"))
            h3 { "The latest, one by one" }
            @for late in latest.iter().take(MOST_DRAWN) { (one(report, late)) }
        }
    }
}

fn summary(survey: &Survey) -> String {
    let ones = &survey.late;
    let mut text = match ones.all {
        0 => "No event shows a late job; the observer reported those below.".to_owned(),
        1 => "By the events, one job was late.".to_owned(),
        all => format!("By the events, {all} jobs were late."),
    };
    if ones.by_kernel > 0 {
        text +=
            &format!(" The trace has the causes of {}, by the kernel's evidence.", ones.by_kernel);
    }
    if ones.by_events > 0 {
        text += &format!(
            " Causes of the latest {} are from the events of this trace alone: which of its subjects ran \
             instead. Nobody asked the kernel about them, and what else held them up \
             is \"not known\".",
            ones.by_events
        );
    }
    if ones.by_kernel + ones.by_events > 0 {
        text +=
            " Shares add up to the tardiness: what the deadline left room for made nothing late.";
    }
    text
}

fn one(report: &Report, late: &Late) -> Markup {
    let survey = &report.survey;
    let name = tables::name(survey, late.subject);
    let since = |at: Instant| instant(at.saturating_since(survey.from()).as_nanos());
    let seen = format!(
        "released at {}, to be complete by {}, over at {}: late by {}",
        since(late.release),
        since(late.deadline),
        since(late.end),
        short(late.tardiness().as_nanos())
    );
    html! {
        figure.late {
            figcaption { bdi { (name) } ", job " (late.index) ": " (seen) }
            (drawing(report, late))
            (causes(late))
        }
    }
}

/// Draws the subjects that ran around the late job, its own first.
fn drawing(report: &Report, late: &Late) -> Markup {
    let (survey, drawn) = (&report.survey, &report.drawn);
    let length = late.end.saturating_since(late.release).as_nanos();
    let margin = (length / 10).max(1);
    let line = Line {
        from: late.release.as_nanos().saturating_sub(margin),
        to: late.end.as_nanos().saturating_add(margin),
    };
    let overlaps =
        |job: &&Job| job.end.as_nanos() >= line.from && job.release.as_nanos() <= line.to;
    let jobs: Vec<&Job> =
        drawn.windows.all.iter().flat_map(|window| window.jobs.iter()).filter(overlaps).collect();
    let mut lanes: Vec<u32> = vec![late.subject];
    for job in &jobs {
        if !lanes.contains(&job.subject) && lanes.len() < MOST_LANES {
            lanes.push(job.subject);
        }
    }
    let deadline =
        |job: &Job| survey.late.get(job.subject, job.index).map(|late| late.deadline.as_nanos());
    html! {
        @if jobs.is_empty() {
            p.seen { "Not drawn: too many jobs are as late." }
        } @else {
            div.timeline {
                (ticks(line, survey.from().as_nanos()))
                ul.lanes {
                    @for subject in lanes {
                        @let here = || jobs.iter().copied().filter(|job| job.subject == subject);
                        @let name = tables::name(survey, subject);
                        li {
                            span.who { bdi { (name) } }
                            svg viewBox={ "0 0 1000 " (timeline::HEIGHT) } preserveAspectRatio="none" role="img"
                                aria-label=(seen(&name, here().collect(), line)) {
                                (timeline::jobs(here(), line, deadline))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn seen(name: &str, jobs: Vec<&Job>, line: Line) -> String {
    let inside = |(from, to): &(Instant, Instant)| {
        to.as_nanos().min(line.to).saturating_sub(from.as_nanos().max(line.from))
    };
    let ran: u64 = jobs.iter().flat_map(|job| &job.ran).map(inside).fold(0, u64::saturating_add);
    format!("{name}: {} around it, ran for {}", counted(jobs.len() as u64, "job"), short(ran))
}

fn causes(late: &Late) -> Markup {
    html! {
        @match &late.causes {
            None => { p.seen { "The trace does not say why." } }
            Some(causes) if causes.is_empty() => { p.seen { "No cause was named." } }
            Some(causes) => {
                @if let Some(own) = late.own.filter(|own| !own.is_zero()) { p.seen { "It worked itself for " (short(own.as_nanos())) "." } }
                ol.causes {
                    @for cause in causes {
                        li {
                            b { (short(cause.share.as_nanos())) } ": " (shown::line(&cause.text))
                            span.seen {
                                " (took " (short(cause.took.as_nanos())) " in "
                                (counted(cause.times.into(), "stretch").replace("stretchs", "stretches")) ")"
                            }
                        }
                    }
                }
            }
        }
    }
}
