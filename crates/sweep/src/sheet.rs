//! Makes tables of results for the terminal, CSV and JSON from one form.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use punctual_analysis::breakdown::Factor;
use punctual_model::Duration;

/// One cell. A missing value is empty in CSV, null in JSON and "-" in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A time in nanoseconds.
    Time(Option<u64>),
    /// A signed time in nanoseconds.
    Slack(Option<i64>),
    /// A number.
    Count(usize),
    /// A factor in millionths.
    Factor(Option<u64>),
    /// A share in millionths, shown as percent of a CPU.
    Share(Option<u64>),
    /// A yes or no.
    Flag(bool),
}

impl Value {
    /// Returns the value as text for a person.
    pub fn to_text(&self) -> String {
        let absent = || "-".to_owned();
        match self {
            Self::Text(text) => text.clone(),
            Self::Time(nanos) => nanos.map_or_else(absent, time),
            Self::Slack(nanos) => nanos.map_or_else(absent, |nanos| {
                let sign = if nanos < 0 { "-" } else { "" };
                format!("{sign}{}", time(nanos.unsigned_abs()))
            }),
            Self::Count(count) => count.to_string(),
            Self::Factor(millionths) => millionths
                .and_then(Factor::from_millionths)
                .map_or_else(absent, |factor| factor.to_string()),
            Self::Share(millionths) => millionths.map_or_else(absent, |millionths| {
                format!("{}.{:04} %", millionths / 10_000, millionths % 10_000)
            }),
            Self::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        }
    }

    /// Returns the value for a program, as a whole number in the unit that the column's key names.
    fn to_field(&self) -> String {
        match self {
            Self::Time(n) | Self::Factor(n) | Self::Share(n) => {
                n.map_or_else(String::new, |n| n.to_string())
            }
            Self::Slack(n) => n.map_or_else(String::new, |n| n.to_string()),
            Self::Text(_) | Self::Count(_) | Self::Flag(_) => self.to_text(),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Time(n) | Self::Factor(n) | Self::Share(n) => (*n).into(),
            Self::Slack(n) => (*n).into(),
            Self::Count(count) => (*count).into(),
            Self::Flag(flag) => (*flag).into(),
        }
    }

    /// Returns whether the value is aligned to the right of its column.
    pub fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Flag(_))
    }
}

fn time(nanos: u64) -> String {
    Duration::from_nanos(nanos).to_string()
}

/// The longest word, in characters, that is never broken.
const LONGEST_WORD: usize = 24;

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

/// A table with a name for its file. Each column has a key for programs and a title for people.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The stem of the file name.
    pub name: &'static str,
    /// The key and the title of each column.
    pub columns: &'static [(&'static str, &'static str)],
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    /// Returns the name of the CSV file.
    pub fn file(&self) -> String {
        format!("{}.csv", self.name)
    }

    /// Returns a line of keys, then one line for each row.
    pub fn to_csv(&self) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail, nor can rows that are as long as the header.
        let write = |writer: &mut csv::Writer<Vec<u8>>| -> csv::Result<()> {
            writer.write_record(self.columns.iter().map(|(key, _)| key))?;
            self.rows
                .iter()
                .try_for_each(|row| writer.write_record(row.iter().map(Value::to_field)))
        };
        write(&mut writer).expect("rows as long as the header");
        writer.into_inner().expect("memory takes it")
    }

    /// Returns a list with an object for each row.
    pub fn to_json(&self) -> serde_json::Value {
        let object = |row: &Vec<Value>| -> serde_json::Value {
            let entries = self.columns.iter().zip(row);
            entries.map(|((key, _), value)| ((*key).to_owned(), value.to_json())).collect()
        };
        self.rows.iter().map(object).collect()
    }

    /// Returns the table for a terminal.
    pub fn to_table(&self) -> Table {
        let mut table = Table::new();
        // Reasons are sentences. They are wrapped, so that the table fits an ordinary terminal if
        // its unbreakable words allow it.
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
        table.set_header(self.columns.iter().map(|(_, title)| title));
        for row in &self.rows {
            table.add_row(row.iter().map(Value::to_text));
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            // A number is kept together with its unit.
            let whole = |cell: &Value| match cell.is_number() {
                true => cell.to_text().chars().count(),
                false => longest_word(&cell.to_text()),
            };
            let longest = self.rows.iter().map(|row| whole(&row[at])).max().unwrap_or(0);
            let title = longest_word(self.columns[at].1);
            // The table's own edges and gaps add two columns.
            let least = u16::try_from(longest.max(title).min(LONGEST_WORD) + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            if self.rows.first().is_some_and(|row| row[at].is_number()) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_and_words_are_not() {
        static COLUMNS: [(&str, &str); 12] = [("key", "a long deviation"); 12];
        let mut row: Vec<Value> = (0..10).map(Value::Count).collect();
        row.push(Value::Share(Some(35_473)));
        row.push(Value::Text("a reason that is a sentence is wrapped between its words".into()));
        let sheet = Sheet { name: "wide", columns: &COLUMNS, rows: vec![row] };
        let text = sheet.to_table().to_string();
        assert_eq!(text.matches("deviation").count(), 12, "{text}");
        assert!(text.contains("sentence") && text.contains("3.5473 %"), "{text}");
        assert!(!text.contains("a reason that is a sentence"), "{text}");
    }
}
