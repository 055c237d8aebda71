//! Shows the selected row's latencies and its latest late job below the rows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::detail::{late_job, latencies};
use crate::watch::look::Look;
use crate::watch::picture::Row;
use crate::watch::words::{plain, sparkline};

pub(super) fn draw(frame: &mut Frame, area: Rect, row: Option<&Row>, look: Look) {
    let Some(row) = row else { return };
    let name = format!(" {} ", plain(&row.name));
    let block = Block::new().borders(Borders::TOP).title(Span::styled(name, look.head()));
    let room = usize::from(area.height.saturating_sub(1));
    let mut lines = vec![Line::raw(promised(row)), Line::raw(latencies(row))];
    if !row.latencies.is_empty() {
        lines.push(Line::styled(sparkline(&row.latencies, area.width.into()), look.good()));
    }
    match row.late_jobs.first() {
        Some(late) => lines.extend(late_job(late).into_iter().map(Line::raw)),
        None if row.late == Some(0) => lines.push(Line::raw("No job was late.")),
        None => {}
    }
    lines.truncate(room);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn promised(row: &Row) -> String {
    let cpu = row.cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    format!("{}: {}{cpu}", row.kind, plain(&row.what))
}
