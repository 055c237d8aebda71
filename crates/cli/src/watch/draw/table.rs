//! Draws the rows.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row as Line, Table, TableState};

use crate::watch::look::Look;
use crate::watch::picture::Row;
use crate::watch::words::{bar, count, percent, plain, signed_time, sparkline, time};

/// The width of the bar of use against budget.
const BAR: usize = 8;

/// The width from which the contract and the latencies have columns of their own.
const WIDE: u16 = 110;
const SPARK: u16 = 16;

pub(super) fn draw(frame: &mut Frame, area: Rect, rows: &[&Row], place: Option<usize>, look: Look) {
    if rows.is_empty() {
        let said =
            "\nNothing granted, nothing watched: try punctual run --reserve 2ms/10ms -- PROGRAM";
        return frame.render_widget(Paragraph::new(said), area);
    }
    let wide = area.width >= WIDE;
    let mut head = vec!["name", "kind", "granted", "used", "of budget", "slack", "late", "cause"];
    let mut widths = vec![
        Constraint::Min(12),
        Constraint::Length(11),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(BAR as u16 + 1),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(10),
    ];
    if wide {
        head.extend(["p99", "wake-up latency"]);
        widths.extend([Constraint::Length(7), Constraint::Length(SPARK)]);
    }
    let right = [false, false, true, true, false, true, true, false, true, false];
    let head = head.iter().zip(right).map(|(name, right)| cell((*name).to_owned(), right));
    let lines = rows.iter().map(|row| {
        let cells = cells(row, wide, look).into_iter().zip(right);
        Line::new(cells.map(|((text, style), right)| cell(text, right).style(style)))
    });
    let table = Table::new(lines, widths)
        .header(Line::new(head).style(look.head()))
        .column_spacing(1)
        .highlight_symbol("> ")
        .row_highlight_style(look.chosen());
    let mut scrolled = TableState::new().with_selected(place);
    frame.render_stateful_widget(table, area, &mut scrolled);
}

fn cell<'a>(text: String, right: bool) -> Cell<'a> {
    let text = Text::from(text);
    Cell::from(if right { text.right_aligned() } else { text })
}

fn cells(row: &Row, wide: bool, look: Look) -> Vec<(String, Style)> {
    let none = || "–".to_owned();
    let plainly = Style::new();
    let (used, granted) = (row.used_ppm, row.granted_ppm);
    let of_budget = match (used, granted) {
        (Some(used), Some(granted)) => {
            let style = match used {
                _ if used > granted => look.bad(),
                _ if used.saturating_mul(10) >= granted.saturating_mul(9) => look.near(),
                _ => look.good(),
            };
            (bar(used, granted, BAR), style)
        }
        _ => (none(), plainly),
    };
    let late = match row.late {
        None => (none(), plainly),
        Some(0) => ("0".to_owned(), look.good()),
        Some(late) => (count(late), look.bad()),
    };
    let slack = match row.slack_ns {
        None => (none(), plainly),
        Some(slack) => (signed_time(slack), if slack < 0 { look.bad() } else { plainly }),
    };
    let mut cells = vec![
        (plain(&row.name), plainly),
        (row.kind.to_owned(), plainly),
        (granted.map_or_else(none, percent), plainly),
        (used.map_or_else(none, percent), plainly),
        of_budget,
        slack,
        late,
        (row.cause.clone().unwrap_or_default(), plainly),
    ];
    if wide {
        cells.push((row.latency(99).map_or_else(none, time), plainly));
        cells.push((sparkline(&row.latencies, SPARK.into()), plainly));
    }
    cells
}
