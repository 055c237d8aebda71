//! Draws one subject's line of a timeline, as the contents of an SVG element that may be stretched.

use maud::{Markup, html};

use super::scale::{Boxes, Line, WIDTH};
use crate::gather::{COLUMNS, Fate, Job, Lane};

/// The height of a lane.
pub(super) const HEIGHT: u32 = 24;

/// Draws how busy the subject was over the whole run, and its late jobs.
pub(super) fn overview(lane: &Lane) -> Markup {
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
pub(super) fn legend() -> Markup {
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
