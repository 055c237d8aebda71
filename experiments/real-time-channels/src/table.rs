//! Tables that print as Markdown, CSV and JSON.

use serde::Serialize;

/// Rows of cells under a head.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// The caption of the table.
    pub(crate) caption: &'static str,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn to_markdown(&self) -> String {
        let rule = vec!["---"; self.head.len()].join("|");
        let mut page = format!("{}\n\n|{}|\n|{rule}|\n", self.caption, self.head.join("|"));
        for row in &self.rows {
            page += &format!("|{}|\n", row.join("|"));
        }
        page
    }

    /// Formats the table as CSV. No cell has a comma or a quote in it.
    pub(crate) fn to_csv(&self) -> String {
        let rows = self.rows.iter().map(|row| row.join(",") + "\n");
        self.head.join(",") + "\n" + &rows.collect::<String>()
    }
}
