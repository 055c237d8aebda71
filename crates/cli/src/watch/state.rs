//! What the person has chosen, and what each key does: `(state, key) -> state`.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw::detail;
use super::picture::{Key, Picture, Row};

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// As they were granted, or began.
    #[default]
    Age,
    /// By name.
    Name,
    /// Who uses most of what it was granted first.
    Use,
    /// Who has least slack first.
    Slack,
    /// Who was late most often first.
    Late,
    /// Who waits longest to begin first.
    Latency,
}

impl Sort {
    /// Each, in the order of the key that goes through them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Age, Self::Name, Self::Use, Self::Slack, Self::Late, Self::Latency];

    /// As people call it.
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
            // Nothing known comes last.
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

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// All rows.
    #[default]
    List,
    /// One of them.
    Detail,
}

/// What the person has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// What is looked at.
    pub(crate) view: View,
    /// Whether the keys are explained above it.
    pub(crate) help: bool,
    /// The row that is chosen: it stays so when others come, go, or change places.
    pub(crate) chosen: Option<Key>,
    /// By what rows are sorted.
    pub(crate) sort: Sort,
    /// The other way round.
    pub(crate) reverse: bool,
    /// The picture stands still.
    pub(crate) paused: bool,
    /// Lines of a detail that were scrolled away.
    pub(crate) scroll: u16,
    /// It is over.
    pub(crate) quit: bool,
}

/// Rows that a page key moves by.
const PAGE: isize = 10;

impl State {
    /// The rows in the order in which they are shown.
    pub(crate) fn sorted<'a>(&self, picture: &'a Picture) -> Vec<&'a Row> {
        let mut rows: Vec<&Row> = picture.rows.iter().collect();
        rows.sort_by(|a, b| self.sort.compare(a, b));
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    /// The place of the chosen row among these; the first if it is gone, none if there are none.
    pub(crate) fn place(&self, rows: &[&Row]) -> Option<usize> {
        let chosen = rows.iter().position(|row| Some(row.key) == self.chosen);
        chosen.or((!rows.is_empty()).then_some(0))
    }

    /// What a key does while `picture` is shown.
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
            // What is below the help does not move while it is read.
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

    /// In the list to another row, in a detail to other lines of it.
    fn moves(&mut self, by: isize, picture: &Picture) {
        if self.view == View::Detail {
            let rows = self.sorted(picture);
            let lines = self.place(&rows).map_or(0, |at| detail::lines(rows[at]).len());
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
