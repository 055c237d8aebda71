//! Shows one row with all that is known of it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use crate::watch::look::Look;
use crate::watch::picture::{Late, Row};
use crate::watch::words::{percent, plain, signed_time, sparkline, time};

/// The most causes listed for a late job.
const CAUSES: usize = 5;

pub(super) fn draw(frame: &mut Frame, area: Rect, row: &Row, scroll: u16, look: Look) {
    let title = format!(" {} ", plain(&row.name));
    let block = Block::new().borders(Borders::TOP).title(Span::styled(title, look.head()));
    let inner = block.inner(area);
    let mut text: Vec<Line> = lines(row).into_iter().map(Line::raw).collect();
    if !row.latencies.is_empty() {
        // Drawn in the place that `lines` leaves for it.
        let spark = sparkline(&row.latencies, inner.width.into());
        if let Some(line) = text.iter_mut().find(|line| line.width() == 0) {
            *line = Line::styled(spark, look.good());
        }
    }
    // The last line stays in sight.
    let scroll = scroll.min(u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_sub(1));
    frame.render_widget(Paragraph::new(text).block(block).scroll((scroll, 0)), area);
}

/// Returns all lines of the detail; the empty one is the place of the sparkline.
pub(crate) fn lines(row: &Row) -> Vec<String> {
    let none = || "–".to_owned();
    let mut lines = vec![
        fact("what", &format!("{}: {}", row.kind, plain(&row.what))),
        fact("granted", &row.granted_ppm.map_or_else(none, percent)),
        fact("used", &row.used_ppm.map_or_else(none, percent)),
        fact("CPU", &row.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())),
        fact("jobs", &row.jobs.map_or_else(none, |jobs| jobs.to_string())),
        fact("late", &row.late.map_or_else(none, |late| late.to_string())),
        fact("least slack", &row.slack_ns.map_or_else(none, signed_time)),
    ];
    lines.extend(row.facts.iter().map(|(what, said)| fact(what, &plain(said))));
    lines.push(latencies(row));
    if !row.latencies.is_empty() {
        lines.push(String::new());
    }
    for late in &row.late_jobs {
        lines.extend(late_job(late));
    }
    lines
}

fn fact(what: &str, said: &str) -> String {
    format!("{what:<12}{said}")
}

/// Returns the percentiles of the recent wake-up latencies.
pub(super) fn latencies(row: &Row) -> String {
    match [50, 99, 100].map(|percent| row.latency(percent)) {
        [Some(p50), Some(p99), Some(max)] => format!(
            "wake-up latency of the last {}: p50 {}, p99 {}, max {}",
            row.latencies.len(),
            time(p50),
            time(p99),
            time(max)
        ),
        _ => "No wake-up was seen.".to_owned(),
    }
}

/// Describes a late job and its causes.
pub(super) fn late_job(late: &Late) -> Vec<String> {
    let Late { job, tardiness_ns, own_ns, causes } = late;
    let head = format!(
        "Job {job} was late by {}, after {} of its own work:",
        time(*tardiness_ns),
        time(*own_ns)
    );
    let causes = causes.iter().take(CAUSES);
    let causes = causes.map(|(share, cause)| format!("  {:>8}  {}", time(*share), plain(cause)));
    std::iter::once(head).chain(causes).collect()
}
