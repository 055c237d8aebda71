//! The results of an exploration: a page, a table for each question, and a summary as JSON.

use punctual_sweep::page::{Page, Section};
use punctual_sweep::sheet::Sheet;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::host::Stamp;

/// The results of an exploration.
///
/// It serialises as the names of its files, its notes and its summaries, with times in nanoseconds
/// and shares in millionths.
pub struct Report {
    /// The name of the contract's file, without its folder, so that the results do not depend on
    /// it.
    pub contract: String,
    /// The host profile that was used.
    pub host_profile: Stamp,
    /// The sweeps that do not apply, and the reasons, as sentences.
    pub notes: Vec<String>,
    /// The results of each sweep.
    pub sections: Vec<Section>,
}

impl Report {
    /// The name of the page's file. Each table has a CSV file beside it.
    pub const PAGE: &str = "index.html";

    /// Returns the files with their names: the tables as CSV, then the page.
    pub fn into_files(self) -> Vec<(String, Vec<u8>)> {
        let sheets = self.sheets().map(|sheet| (sheet.file(), sheet.to_csv()));
        let mut files: Vec<_> = sheets.collect();
        files.push((Self::PAGE.into(), self.into_page().into_bytes()));
        files
    }

    fn sheets(&self) -> impl Iterator<Item = &Sheet> {
        self.sections.iter().flat_map(Section::sheets)
    }

    fn into_page(self) -> String {
        let footer = vec![
            self.host_profile.line(),
            "Written by Punctual. Times are exact, in the largest unit that fits; the CSV \
             files beside this page have nanoseconds (_ns) and millionths (_ppm)."
                .into(),
        ];
        let title = format!("{}: what would fit", self.contract);
        Page { title, notes: self.notes, sections: self.sections, footer }.to_html()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let summaries = self.sections.iter().map(|section| &section.summary);
        let summaries: Map<String, Value> =
            summaries.map(|sheet| (sheet.name.to_owned(), sheet.to_json())).collect();
        let files: Vec<String> = self.sheets().map(Sheet::file).collect();
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("contract", &self.contract)?;
        map.serialize_entry("files", &files)?;
        map.serialize_entry("host_profile", &self.host_profile)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("page", Self::PAGE)?;
        map.serialize_entry("summaries", &summaries)?;
        map.end()
    }
}
