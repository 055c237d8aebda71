//! The user's choices, and the effect of each key: `(state, key) -> state`.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::picture::{Key, Picture, Row};
use super::words::details;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// In the order of grants or starts.
    #[default]
    Age,
    /// By name.
    Name,
    /// By use relative to the grant, the greatest first.
    Use,
    /// By slack, the least first.
    Slack,
    /// By the number of late jobs, the greatest first.
    Late,
    /// By wake-up latency, the longest first.
    Latency,
}

impl Sort {
    /// All orders, in the sequence of the key that cycles through them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Age, Self::Name, Self::Use, Self::Slack, Self::Late, Self::Latency];

    /// Returns the order's name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Name => "name",
            Self::Use => "use",
            Self::Slack => "slack",
            Self::Late => "late",
            Self::Latency => "latency",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).map_or(0, |at| at + 1);
        Self::ALL[at % Self::ALL.len()]
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let of = |row: &Row| {
            let used = u128::from(row.used_ppm.unwrap_or(0)) * 1_000_000;
            used / u128::from(row.granted_ppm.unwrap_or(1_000_000).max(1))
        };
        match self {
            Self::Age => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
            Self::Use => of(b).cmp(&of(a)),
            // Rows without a slack come last.
            Self::Slack => {
                let slack = |row: &Row| row.slack_ns.unwrap_or(i64::MAX);
                slack(a).cmp(&slack(b))
            }
            Self::Late => b.late.cmp(&a.late),
            Self::Latency => b.latency(99).cmp(&a.latency(99)),
        }
        .then_with(|| a.key.cmp(&b.key))
    }
}

/// The displayed view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// All rows.
    #[default]
    List,
    /// One row.
    Detail,
}

/// The user's choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The displayed view.
    pub(crate) view: View,
    /// Whether the help is shown above the view.
    pub(crate) help: bool,
    /// The selected row. It stays selected when other rows come, go, or move.
    pub(crate) chosen: Option<Key>,
    /// The order of the rows.
    pub(crate) sort: Sort,
    /// Whether the order is reversed.
    pub(crate) reverse: bool,
    /// Whether the picture is frozen.
    pub(crate) paused: bool,
    /// The number of lines of the detail that were scrolled away.
    pub(crate) scroll: u16,
    /// Whether the view has ended.
    pub(crate) quit: bool,
}

/// The number of rows that a page key moves by.
const PAGE: isize = 10;

impl State {
    /// Returns the rows in displayed order.
    pub(crate) fn sorted<'a>(&self, picture: &'a Picture) -> Vec<&'a Row> {
        let mut rows: Vec<&Row> = picture.rows.iter().collect();
        rows.sort_by(|a, b| self.sort.compare(a, b));
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    /// Returns the position of the selected row: the first if that row is gone, `None` without
    /// rows.
    pub(crate) fn place(&self, rows: &[&Row]) -> Option<usize> {
        let chosen = rows.iter().position(|row| Some(row.key) == self.chosen);
        chosen.or((!rows.is_empty()).then_some(0))
    }

    /// Returns the state after a key was pressed while `picture` was shown.
    pub(crate) fn press(mut self, key: KeyEvent, picture: &Picture) -> Self {
        if key.kind == KeyEventKind::Release {
            return self;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.quit = true,
            _ if control => {}
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Char('?') | KeyCode::Char('h') => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            // While the help is shown, the view below it does not move.
            _ if self.help => {}
            KeyCode::Char('p') | KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Enter => {
                let rows = self.sorted(picture);
                if let Some(at) = self.place(&rows) {
                    (self.chosen, self.view, self.scroll) = (Some(rows[at].key), View::Detail, 0);
                }
            }
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.view = View::List,
            KeyCode::Down | KeyCode::Char('j') => self.moves(1, picture),
            KeyCode::Up | KeyCode::Char('k') => self.moves(-1, picture),
            KeyCode::PageDown => self.moves(PAGE, picture),
            KeyCode::PageUp => self.moves(-PAGE, picture),
            KeyCode::Home | KeyCode::Char('g') => self.moves(isize::MIN, picture),
            KeyCode::End | KeyCode::Char('G') => self.moves(isize::MAX, picture),
            _ => {}
        }
        self
    }

    /// Moves to another row in the list, or to other lines in a detail.
    fn moves(&mut self, by: isize, picture: &Picture) {
        if self.view == View::Detail {
            let rows = self.sorted(picture);
            let lines = self.place(&rows).map_or(0, |at| details(rows[at]).len());
            let last = isize::try_from(lines).unwrap_or(0).clamp(1, isize::from(i16::MAX)) - 1;
            let to = isize::try_from(self.scroll).unwrap_or(0).saturating_add(by).clamp(0, last);
            self.scroll = u16::try_from(to).unwrap_or(0);
            return;
        }
        let rows = self.sorted(picture);
        let Some(at) = self.place(&rows) else { return };
        let last = rows.len() as isize - 1;
        let to = (at as isize).saturating_add(by).clamp(0, last);
        self.chosen = rows.get(to as usize).map(|row| row.key);
    }
}

#[cfg(test)]
mod tests;
