//! Shows response times and wake-up latencies (percentiles of all subjects, and plots of some), and
//! the use of budgets: a table, and a bar for each subject.

use std::fmt::Write;

use maud::{Markup, html};
use punctual_model::Duration;

use super::parts;
use super::scale::{Boxes, short};
use crate::gather::{Measured, PER_DECADE, Survey, Times, counted};
use crate::{Report, tables};

/// The number of subjects whose times are drawn: those with the most late jobs.
const MOST_PLOTS: usize = 24;
/// The size of a plot, and the area between its axes.
const SIZE: (f64, f64) = (400.0, 210.0);
const INSIDE: (f64, f64, f64, f64) = (44.0, 12.0, 374.0, 176.0);
/// The bucket of 100 ns, in which shorter times are drawn too.
const FIRST: i32 = 2 * PER_DECADE;

/// The number of subjects that have a bar.
const MOST_BARS: usize = 48;

pub(super) fn times(report: &Report) -> Markup {
    let survey = &report.survey;
    let proven = report.admission().map(|admission| admission.proven.clone()).unwrap_or_default();
    let with_jobs = |place: &u32| {
        let measured = &survey.measured[*place as usize];
        measured.response_time.count() + measured.wakeup_latency.count() > 0
    };
    let mut places: Vec<u32> = (0..survey.measured.len() as u32).filter(with_jobs).collect();
    let all = places.len();
    places.sort_by_key(|&place| (std::cmp::Reverse(survey.judged[place as usize].late), place));
    places.truncate(MOST_PLOTS);
    places.sort_unstable();
    let axis = Axis::over(places.iter().map(|&place| &survey.measured[place as usize]));
    html! {
        p {
            "A response time is from a job's release to its completion, a wake-up latency from its release \
             to its first instruction. Both axes of the plots are logarithmic, and alike in all of them; \
             what took less than 100 ns is drawn there."
        }
        (parts::table(&tables::times(survey, &proven), "Percentiles"))
        @if all > places.len() {
            p.note {
                "Plots of " (places.len()) " of " (all) " subjects, those with the most late jobs; the \
                 table above has all."
            }
        }
        @if !places.is_empty() { (legend()) }
        div.plots {
            @for place in places { (figure(survey, place, axis)) }
        }
    }
}

fn legend() -> Markup {
    html! {
        ul.legend {
            li {
                svg viewBox="0 0 30 16" width="30" height="16" aria-hidden="true" { path.bar d="M2 2H28V14H2Z" {} }
                " response times"
            }
            li {
                svg viewBox="0 0 30 16" width="30" height="16" aria-hidden="true" { path.outline d="M2 14V4H16V9H28V14" {} }
                " wake-up latencies"
            }
            li {
                svg viewBox="0 0 30 16" width="30" height="16" aria-hidden="true" { path.deadline d="M15 0V16" {} }
                " deadline"
            }
        }
    }
}

/// The axes in buckets and in jobs, the same for all plots.
#[derive(Clone, Copy)]
struct Axis {
    from: i32,
    to: i32,
    most: u64,
}

impl Axis {
    fn over<'a>(all: impl Iterator<Item = &'a Measured>) -> Self {
        let times = all.flat_map(|one| [&one.response_time, &one.wakeup_latency]);
        let buckets: Vec<(i32, u64)> = times.flat_map(drawn).collect();
        let from = buckets.iter().map(|(bucket, _)| *bucket).min().unwrap_or(0);
        let to = buckets.iter().map(|(bucket, _)| *bucket + 1).max().unwrap_or(1);
        let most = buckets.iter().map(|(_, count)| *count).max().unwrap_or(1);
        // Whole decades, so that the labels are at the ends.
        let (from, to) = (from.div_euclid(PER_DECADE) * PER_DECADE, to.div_euclid(PER_DECADE) + 1);
        Self { from, to: to * PER_DECADE, most }
    }

    fn x(&self, bucket: f64) -> f64 {
        let (left, _, right, _) = INSIDE;
        let part = (bucket - f64::from(self.from)) / f64::from(self.to - self.from);
        left + (right - left) * part.clamp(0.0, 1.0)
    }

    /// Returns the height of a count. The axis begins at a half, so that one job is visible.
    fn y(&self, count: u64) -> f64 {
        let (_, top, _, bottom) = INSIDE;
        let all = (2.0 * self.most.max(2) as f64).log10();
        bottom - (bottom - top) * (2.0 * count as f64).log10() / all
    }
}

fn figure(survey: &Survey, place: u32, axis: Axis) -> Markup {
    let measured = &survey.measured[place as usize];
    let name = tables::name(survey, place);
    let deadline = survey.subjects.all()[place as usize].promise.relative_deadline;
    let seen = seen(measured, deadline);
    html! {
        figure {
            figcaption { bdi { (name) } }
            svg.histogram viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label={ (name) ": " (seen) } {
                (grid(axis))
                path.bar d=(bars(&measured.response_time, axis)) {}
                path.outline d=(outline(&measured.wakeup_latency, axis)) {}
                @if let Some(deadline) = deadline {
                    path.deadline d={ "M" (at(axis, deadline)) " " (INSIDE.1) "V" (INSIDE.3) } {}
                }
            }
            p.seen { (seen) }
            details {
                summary { "The numbers of " bdi { (name) } }
                (parts::table(&tables::histogram(measured), &format!("{name}: jobs by time")))
            }
        }
    }
}

/// Returns the buckets, with those of the shortest times merged.
fn drawn(times: &Times) -> Vec<(i32, u64)> {
    let mut drawn: Vec<(i32, u64)> = Vec::new();
    for (bucket, count) in times.buckets() {
        match drawn.last_mut().filter(|_| bucket <= FIRST) {
            Some(last) => last.1 += count,
            None => drawn.push((bucket.max(FIRST), count)),
        }
    }
    drawn
}

fn at(axis: Axis, time: Duration) -> String {
    let bucket = (time.as_nanos().max(1) as f64).log10() * f64::from(PER_DECADE);
    format!("{:.1}", axis.x(bucket))
}

/// Describes the plot for readers who cannot see it.
fn seen(measured: &Measured, deadline: Option<Duration>) -> String {
    let of = |times: &Times| {
        let percentile = |percent| {
            times.percentile(percent).map_or_else(String::new, |time| short(time.as_nanos()))
        };
        let longest = times.max().map_or_else(String::new, |time| short(time.as_nanos()));
        format!(
            "half within {}, 99 % within {}, the longest {longest}",
            percentile(50.0),
            percentile(99.0)
        )
    };
    let mut text = String::new();
    let (response, wakeup) = (&measured.response_time, &measured.wakeup_latency);
    if response.count() > 0 {
        let _ = write!(
            text,
            "Response times of {}: {}",
            counted(response.count(), "job"),
            of(response)
        );
        if let Some(deadline) = deadline {
            let _ = write!(text, "; deadline {}", short(deadline.as_nanos()));
        }
        text.push_str(". ");
    }
    if wakeup.count() > 0 {
        let _ = write!(
            text,
            "Wake-up latencies of {}: {}.",
            counted(wakeup.count(), "job"),
            of(wakeup)
        );
    }
    text.trim_end().to_owned()
}

fn bars(times: &Times, axis: Axis) -> String {
    let mut boxes = String::new();
    for (bucket, count) in drawn(times) {
        let (from, to) = (axis.x(f64::from(bucket)) + 0.4, axis.x(f64::from(bucket + 1)) - 0.4);
        let _ = write!(boxes, "M{from:.1} {}H{to:.1}V{:.1}H{from:.1}Z", INSIDE.3, axis.y(count));
    }
    boxes
}

/// Returns a line over the buckets that drops to the axis between separate ones.
fn outline(times: &Times, axis: Axis) -> String {
    let mut line = String::new();
    let mut before = None;
    for (bucket, count) in drawn(times) {
        let (from, to) = (axis.x(f64::from(bucket)), axis.x(f64::from(bucket + 1)));
        if before != Some(bucket - 1) {
            let end = if before.is_some() { format!("V{}", INSIDE.3) } else { String::new() };
            let _ = write!(line, "{end}M{from:.1} {}", INSIDE.3);
        }
        let _ = write!(line, "V{:.1}H{to:.1}", axis.y(count));
        before = Some(bucket);
    }
    if before.is_some() {
        let _ = write!(line, "V{}", INSIDE.3);
    }
    line
}

fn grid(axis: Axis) -> Markup {
    let (left, top, right, bottom) = INSIDE;
    let decades: Vec<i32> = (axis.from / PER_DECADE..=axis.to / PER_DECADE).collect();
    // At most eight labels fit.
    let every = decades.len().div_ceil(8);
    let most = axis.most.max(1).ilog10();
    let mut lines = Boxes::default();
    for decade in &decades {
        let _ = write!(lines.0, "M{:.1} {top}V{bottom}", axis.x(f64::from(decade * PER_DECADE)));
    }
    for power in 0..=most {
        let _ = write!(lines.0, "M{left} {:.1}H{right}", axis.y(10u64.pow(power)));
    }
    html! {
        path.grid d=(lines.0) {}
        path.axis d={ "M" (left) " " (top) "V" (bottom) "H" (right) } {}
        @for decade in decades.iter().step_by(every) {
            text x=(format!("{:.1}", axis.x(f64::from(decade * PER_DECADE)))) y=(bottom + 16.0) text-anchor="middle" {
                (short(10u64.saturating_pow(decade.unsigned_abs())))
            }
        }
        @for power in 0..=most {
            text x=(left - 5.0) y=(format!("{:.1}", axis.y(10u64.pow(power)) + 4.0)) text-anchor="end" {
                (jobs(power))
            }
        }
        text x=(SIZE.0 / 2.0) y=(SIZE.1 - 2.0) text-anchor="middle" { "time; jobs upwards" }
    }
}

/// Formats a power of ten briefly.
fn jobs(power: u32) -> String {
    match power {
        0..=3 => 10u64.pow(power).to_string(),
        4..=5 => format!("{}k", 10u64.pow(power - 3)),
        6..=8 => format!("{}M", 10u64.pow(power - 6)),
        _ => format!("1e{power}"),
    }
}

pub(super) fn budgets(survey: &Survey) -> Markup {
    let table = tables::budgets(survey);
    let places = (0..survey.measured.len()).filter(|&at| survey.measured[at].budget.is_some());
    let places: Vec<usize> = places.collect();
    html! {
        @if table.rows.is_empty() {
            p { "No budget and no longest work of a job is known of any subject." }
        } @else {
            p {
                "What a job ran, by its own events: from its first instruction or going on to giving way \
                 or its end, with whatever the kernel did on top. Held against its budget, or what it was \
                 declared to need at most."
            }
            (parts::table(&table, "Use of budgets"))
            ul.bars {
                @for &place in places.iter().take(MOST_BARS) { (bar(survey, place)) }
            }
            @if places.len() > MOST_BARS { p.note { "Bars of the first " (MOST_BARS) " subjects." } }
        }
    }
}

/// Draws the median, the 99th percentile and the maximum of the jobs against the budget.
fn bar(survey: &Survey, place: usize) -> Markup {
    let Some(budget) = survey.measured[place].budget.as_deref() else {
        return html! {};
    };
    let whole = budget.budget.as_nanos().max(1);
    let nanos =
        |percent| budget.used.percentile(percent).map_or(0, punctual_model::Duration::as_nanos);
    let most = budget.used.max().map_or(0, punctual_model::Duration::as_nanos);
    // Use far beyond the budget is drawn as three times the budget.
    let end = whole.max(most.min(whole.saturating_mul(3))) as f64 * 1.02;
    let x = |nanos: u64| format!("{:.1}", (1000.0 * nanos as f64 / end).min(1000.0));
    // There are as many subjects as there are places.
    let name = tables::name(survey, place as u32);
    let seen = format!(
        "half of the jobs used at most {}, 99 % at most {}, the most {}, of {}",
        short(nanos(50.0)),
        short(nanos(99.0)),
        short(most),
        short(whole)
    );
    html! {
        li {
            span.who { bdi { (name) } }
            svg viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={ (name) ": " (seen) } {
                path.track d="M0 4H1000V20H0Z" {}
                path.soft d={ "M0 4H" (x(nanos(99.0))) "V20H0Z" } {}
                path.r d={ "M0 4H" (x(nanos(50.0))) "V20H0Z" } {}
                path.most d={ "M" (x(most)) " 2V22" } {}
                path.deadline d={ "M" (x(whole)) " 0V24" } {}
            }
            span.seen { (seen) }
        }
    }
}
