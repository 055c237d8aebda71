//! Draws a picture and the user's choices on a screen.
//!
//! ```text
//! head     the host and the broker: one or two lines
//! rows     grants and threads, sorted; the selected one is marked with > and reversed
//! pane     the selected row's latencies and its latest late job
//! foot     the keys
//! ```

mod table;

use std::convert::Infallible;

use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};
use ratatui::{Frame, Terminal};

use super::look::Look;
use super::picture::{Picture, Row};
use super::state::{State, View};
use super::words::{details, late_job, latencies, plain, sparkline};

/// The smallest size at which anything useful can be shown.
const LEAST: (u16, u16) = (60, 12);

/// The height of the pane below the rows, with its border.
const PANE: u16 = 7;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame, picture: &Picture, state: &State, look: Look) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let said = format!(
            "{}x{} is too small; {}x{} at least, q quits",
            area.width, area.height, LEAST.0, LEAST.1
        );
        return frame.render_widget(Paragraph::new(said), area);
    }
    let notes = picture.notes.len().min(2) as u16;
    let [head, notes, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(notes),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(title(picture, state, look)), head);
    frame.render_widget(Paragraph::new(lines(&picture.notes)).style(look.near()), notes);
    let rows = state.sorted(picture);
    let place = state.place(&rows);
    match (state.view, place) {
        (View::Detail, Some(at)) => draw_detail(frame, body, rows[at], state.scroll, look),
        _ => {
            let [list, pane] =
                Layout::vertical([Constraint::Min(3), Constraint::Length(PANE)]).areas(body);
            table::draw(frame, list, &rows, place, look);
            draw_pane(frame, pane, place.map(|at| rows[at]), look);
        }
    }
    frame.render_widget(Paragraph::new(foot_line(state, foot)).style(look.aside()), foot);
    if state.help {
        draw_help(frame, body, look);
    }
}

fn title<'a>(picture: &'a Picture, state: &State, look: Look) -> Line<'a> {
    let mut spans = vec![Span::styled("punctual watch", look.head())];
    if state.paused {
        spans.push(Span::styled("  PAUSED", look.near()));
    }
    spans.extend(picture.host.iter().map(|said| Span::raw(format!("  {said}"))));
    Line::from(spans)
}

fn lines(texts: &[String]) -> Vec<Line<'_>> {
    texts.iter().map(|text| Line::from(text.as_str())).collect()
}

fn foot_line(state: &State, foot: Rect) -> String {
    let reversed = if state.reverse { ", reversed" } else { "" };
    let sort = format!("s sort: {}{reversed}", state.sort.name());
    let keys = match state.view {
        View::List => format!("q quit  ↑↓ move  ⏎ open  {sort}  r reverse  p pause  ? help"),
        View::Detail => "q quit  ↑↓ scroll  Esc back  p pause  ? help".to_owned(),
    };
    keys.chars().take(foot.width.into()).collect()
}

/// Shows one row with all that is known of it.
fn draw_detail(frame: &mut Frame, area: Rect, row: &Row, scroll: u16, look: Look) {
    let title = format!(" {} ", plain(&row.name));
    let block = Block::new().borders(Borders::TOP).title(Span::styled(title, look.head()));
    let inner = block.inner(area);
    let mut text: Vec<Line> = details(row).into_iter().map(Line::raw).collect();
    if !row.latencies.is_empty() {
        // Drawn in the place that `details` leaves for it.
        let spark = sparkline(&row.latencies, inner.width.into());
        if let Some(line) = text.iter_mut().find(|line| line.width() == 0) {
            *line = Line::styled(spark, look.good());
        }
    }
    // The last line stays in sight.
    let scroll = scroll.min(u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_sub(1));
    frame.render_widget(Paragraph::new(text).block(block).scroll((scroll, 0)), area);
}

/// Shows the selected row's latencies and its latest late job below the rows.
fn draw_pane(frame: &mut Frame, area: Rect, row: Option<&Row>, look: Look) {
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

/// The keys and columns.
const HELP: &str = "\
q, Ctrl-C    quit
↑ ↓, k j     move; in a detail: scroll
PgUp PgDn    ten rows, Home End: the first and the last
Enter        all about the selected row;  Esc back
s, r         sort by the next column;  reverse the order
p, Space     freeze the picture;  again: continue
granted      of a CPU; used: the same, over the last second
slack        the time left to the tightest recent job
late         jobs after their deadlines; cause: the main one
–            not promised, or not visible";

/// Explains the keys and columns in a window above everything else.
fn draw_help(frame: &mut Frame, area: Rect, look: Look) {
    let lines = HELP.lines().count() as u16;
    let [area] = Layout::vertical([Constraint::Max(lines + 2)]).flex(Flex::Center).areas(area);
    let [area] = Layout::horizontal([Constraint::Max(64)]).flex(Flex::Center).areas(area);
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" keys and columns: ? closes ").title_style(look.head());
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}

/// Returns the screen of `size`, in columns and rows.
pub(super) fn frame(picture: &Picture, state: &State, look: Look, size: (u16, u16)) -> Buffer {
    // Cannot fail, because it is memory.
    let Ok(mut terminal) = Terminal::<TestBackend>::new(TestBackend::new(size.0, size.1));
    let drawn: Result<_, Infallible> = terminal.draw(|frame| draw(frame, picture, state, look));
    let Ok(drawn) = drawn;
    drawn.buffer.clone()
}

/// Returns the lines without trailing blanks.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width.max(1));
    let lines = buffer.content.chunks(width).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n"
}
