//! How things look, with colours and without.
//!
//! Nothing is said by colour alone: what is late has its number, what is chosen its mark.

use ratatui::style::{Color, Modifier, Style};

/// With or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    colours: bool,
}

impl Look {
    /// Colours, unless `no_colour` or the environment says otherwise (<https://no-color.org>).
    pub(crate) fn new(no_colour: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colours: !no_colour && !set("NO_COLOR") && !dumb }
    }

    /// As said.
    #[cfg(test)]
    pub(crate) fn of(colours: bool) -> Self {
        Self { colours }
    }

    fn of_colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The first line, and heads of columns.
    pub(crate) fn head(self) -> Style {
        self.of_colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The chosen row.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A promise that was broken.
    pub(crate) fn bad(self) -> Style {
        self.of_colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What is near its limit.
    pub(crate) fn near(self) -> Style {
        self.of_colour(Color::Yellow)
    }

    /// What is well.
    pub(crate) fn good(self) -> Style {
        self.of_colour(Color::Green)
    }

    /// What is said besides.
    pub(crate) fn aside(self) -> Style {
        if self.colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }
}
