//! What one sweep found, for all the forms in which it is told.

use super::plot::Plot;
use super::sheet::Sheet;

/// One sweep.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// Sentences: what was asked, what was assumed, what to make of the answer.
    pub(super) about: Vec<String>,
    /// What goes to the terminal.
    pub(super) summary: Sheet,
    /// Plots of the summary.
    pub(super) plots: Vec<Plot>,
    /// What goes to files and to the page only.
    pub(super) parts: Vec<Part>,
}

/// All numbers of one question, with their plots.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) plots: Vec<Plot>,
    pub(super) sheet: Sheet,
}

impl Section {
    /// Every table, the summary first.
    pub(super) fn sheets(&self) -> impl Iterator<Item = &Sheet> {
        std::iter::once(&self.summary).chain(self.parts.iter().map(|part| &part.sheet))
    }
}
