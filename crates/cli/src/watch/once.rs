//! Renders one frame as text.

use std::convert::Infallible;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::draw;
use super::look::Look;
use super::picture::Picture;
use super::state::State;

/// Returns the screen of `size`, in columns and rows.
pub(super) fn frame(picture: &Picture, state: &State, look: Look, size: (u16, u16)) -> Buffer {
    // Cannot fail, because it is memory.
    let Ok(mut terminal) = Terminal::<TestBackend>::new(TestBackend::new(size.0, size.1));
    let drawn: Result<_, Infallible> =
        terminal.draw(|frame| draw::draw(frame, picture, state, look));
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
