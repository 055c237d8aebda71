//! Explains the keys and columns in a window above everything else.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::watch::look::Look;

const TEXT: &str = "\
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

pub(super) fn draw(frame: &mut Frame, area: Rect, look: Look) {
    let lines = TEXT.lines().count() as u16;
    let [area] = Layout::vertical([Constraint::Max(lines + 2)]).flex(Flex::Center).areas(area);
    let [area] = Layout::horizontal([Constraint::Max(64)]).flex(Flex::Center).areas(area);
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" keys and columns: ? closes ").title_style(look.head());
    frame.render_widget(Paragraph::new(TEXT).block(block), area);
}
