//! Draws a picture and the user's choices on a screen.
//!
//! ```text
//! head     the host and the broker: one or two lines
//! rows     grants and threads, sorted; the selected one is marked with > and reversed
//! pane     the selected row's latencies and its latest late job
//! foot     the keys
//! ```

pub(crate) mod detail;
mod help;
mod pane;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::look::Look;
use super::picture::Picture;
use super::state::{State, View};

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
        (View::Detail, Some(at)) => detail::draw(frame, body, rows[at], state.scroll, look),
        _ => {
            let [list, pane] =
                Layout::vertical([Constraint::Min(3), Constraint::Length(PANE)]).areas(body);
            table::draw(frame, list, &rows, place, look);
            pane::draw(frame, pane, place.map(|at| rows[at]), look);
        }
    }
    frame.render_widget(Paragraph::new(foot_line(state, foot)).style(look.aside()), foot);
    if state.help {
        help::draw(frame, body, look);
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
