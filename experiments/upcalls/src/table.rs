//! A table of results, printed as text, as CSV, or as JSON.

use std::fmt::Write;

use serde::Serialize;

/// One value.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    /// Printed with three decimals.
    Real(f64),
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(real: f64) -> Self {
        if real.is_finite() { Self::Real(real) } else { Self::Missing }
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Real(real) => format!("{real:.3}"),
            Self::Missing => "-".into(),
        }
    }
}

/// Returns `count` of `of` as a fraction.
pub(crate) fn part(count: u64, of: u64) -> Cell {
    (count as f64 / of as f64).into()
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    /// The file name of the CSV, without its ending.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(name: &'static str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).into()).collect();
        Self { name, title: title.into(), columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn to_text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::text));
        }
        for at in 1..self.columns.len() {
            if let Some(column) = table.column_mut(at) {
                column.set_cell_alignment(comfy_table::CellAlignment::Right);
            }
        }
        format!("{}\n\n{table}\n", self.title)
    }

    pub(crate) fn to_csv(&self) -> String {
        let mut csv = self.columns.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::text).collect();
            // Cannot fail: it writes into a string. No cell holds a comma.
            let _ = writeln!(csv, "{}", cells.join(","));
        }
        csv
    }
}
