//! Tables that print as Markdown and JSON.

use serde::Serialize;

/// The results of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Page {
    /// The name of the experiment.
    pub(crate) name: &'static str,
    /// The machine, and its activity meanwhile.
    pub(crate) host: String,
    pub(crate) tables: Vec<Table>,
    /// An SVG.
    #[serde(skip)]
    pub(crate) picture: Option<String>,
}

/// Rows of cells under a head.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// The caption of the table.
    pub(crate) caption: String,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Page {
    pub(crate) fn new(name: &'static str, tables: Vec<Table>) -> Self {
        Self { name, tables, ..Self::default() }
    }

    pub(crate) fn to_markdown(&self) -> String {
        let tables: String = self.tables.iter().map(Table::to_markdown).collect();
        format!("# {}\n\n{}\n\n{tables}", self.name, self.host)
    }
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, head: &[&'static str]) -> Self {
        Self { caption: caption.into(), head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, and prints it as progress.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        eprintln!("{}", cells.join(" | "));
        self.rows.push(cells);
    }

    fn to_markdown(&self) -> String {
        let rule = vec!["---"; self.head.len()].join("|");
        let mut page = format!("{}\n\n|{}|\n|{rule}|\n", self.caption, self.head.join("|"));
        for row in &self.rows {
            page += &format!("|{}|\n", row.join("|"));
        }
        page + "\n"
    }
}

/// Returns the median, or 0 if there are no values.
pub(crate) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}
