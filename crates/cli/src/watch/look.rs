//! The appearance of things, with colours and without.
//!
//! No information is in colour alone: late jobs have a number, and the selected row a mark.

use ratatui::style::{Color, Modifier, Style};

/// The appearance, with or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    colours: bool,
}

impl Look {
    /// Uses colours, unless `no_colour` or the environment forbids it (<https://no-color.org>).
    pub(crate) fn new(no_colour: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colours: !no_colour && !set("NO_COLOR") && !dumb }
    }

    /// Uses colours as `colours` says.
    #[cfg(test)]
    pub(crate) fn of(colours: bool) -> Self {
        Self { colours }
    }

    fn of_colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The first line, and the heads of columns.
    pub(crate) fn head(self) -> Style {
        self.of_colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The selected row.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A broken promise.
    pub(crate) fn bad(self) -> Style {
        self.of_colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A value near its limit.
    pub(crate) fn near(self) -> Style {
        self.of_colour(Color::Yellow)
    }

    /// A good value.
    pub(crate) fn good(self) -> Style {
        self.of_colour(Color::Green)
    }

    /// Secondary text.
    pub(crate) fn aside(self) -> Style {
        if self.colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }
}
