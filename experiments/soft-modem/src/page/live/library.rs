//! The results of `soft-modem live` for the library's modems, and of `soft-modem transfers` for
//! files: `library.json`, `transfers.csv` and `transfers.txt` of a folder.

use std::fs;
use std::path::Path;

use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::{Axis, Plot, Shape};
use punctual_sweep::sheet::Value;

use crate::live::library::modems::MODEMS;
use crate::live::library::report;
use crate::live::library::report::Report;
use crate::live::transfers::kept::{self, Row};

/// Returns the sections of one folder, and notes on files that cannot be read.
pub(super) fn sections(name: &str, place: &Path) -> (Vec<Section>, Vec<String>) {
    let (mut sections, mut notes) = (Vec::new(), Vec::new());
    let mut add = |file: &str, section: Result<Section, String>| match section {
        Ok(section) => sections.push(section),
        Err(why) => notes.push(format!("Not shown: {}: {why}.", place.join(file).display())),
    };
    let file = place.join("library.json");
    if file.exists() {
        let text = fs::read(&file).map_err(|why| why.to_string());
        let report =
            text.and_then(|text| serde_json::from_slice(&text).map_err(|why| why.to_string()));
        add("library.json", report.map(|report| of_report(name, &report)));
    }
    if place.join(kept::FILE).exists() {
        let rows = kept::read(place).map_err(|why| why.to_string());
        let said = fs::read_to_string(place.join("transfers.txt")).unwrap_or_default();
        add(kept::FILE, rows.map(|rows| of_transfers(name, &rows, &said)));
    }
    (sections, notes)
}

fn of_report(name: &str, report: &Report) -> Section {
    let mut about = vec![format!(
        "{} Driver and callback on CPU {}, {} competitors on each CPU, seed {}. At each interrupt, every \
         12.5 ms, the driver serves a line of each of the library's modems: it dials, trains, and \
         receives a file from a far modem. Where a file did not take a time, it did not arrive whole \
         and right.",
        report.host, report.cpu, report.competitors_per_cpu, report.seed
    )];
    about.extend(report.modems.iter().map(|size| size.words()));
    about.extend(report.contexts.iter().filter_map(|context| {
        context.why_not.as_ref().map(|why| format!("{} was not run: {why}.", context.context))
    }));
    Section {
        title: format!("Live, the library's modems: {name}"),
        about,
        summary: report::drivers(report),
        plots: Vec::new(),
        parts: vec![Part {
            title: "Each line".into(),
            plots: Vec::new(),
            sheet: report::lines(report),
        }],
    }
}

fn of_transfers(name: &str, rows: &[Row], said: &str) -> Section {
    let about = [
        "Each call dials with all four modems at once on one driver, and carries a file on each: \
         V.22bis with V.42, the others as plain characters. Times count from CONNECT to the last \
         byte, of the files that arrived whole and right; a call that is not done 14 s after \
         dialling has failed."
            .to_owned(),
        "The machine, at each piece of the study:".to_owned(),
    ];
    Section {
        title: format!("Live, file transfers: {name}"),
        about: about.into_iter().chain(pieces(said)).collect(),
        summary: kept::sheet(rows),
        plots: MODEMS.iter().filter_map(|modem| successes(modem.name, rows)).collect(),
        parts: Vec::new(),
    }
}

/// Splits the description of the machine into a paragraph for each run, which begins with the
/// kernel.
fn pieces(said: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for line in said.lines() {
        match pieces.last_mut() {
            Some(piece) if !line.starts_with("Linux ") => {
                piece.push(' ');
                piece.push_str(line);
            }
            _ => pieces.push(line.to_owned()),
        }
    }
    pieces
}

/// Draws one bar for each context.
fn successes(modem: &str, rows: &[Row]) -> Option<Plot> {
    let own: Vec<Row> = rows.iter().filter(|row| row.modem == modem).cloned().collect();
    let mut sheet = kept::sheet(&own);
    // Bars are drawn from the bottom up, and the first belongs at the top.
    sheet.rows.reverse();
    let column = |key: &str| sheet.columns.iter().position(|(one, _)| *one == key);
    let (context, calls, succeeded) = (column("context")?, column("calls")?, column("succeeded")?);
    let count = |value: &Value| match value {
        Value::Count(count) => *count as f64,
        _ => 0.0,
    };
    let most = sheet.rows.iter().map(|row| count(&row[calls])).fold(1.0, f64::max);
    let names: Vec<String> = sheet.rows.iter().map(|row| row[context].to_text()).collect();
    (!names.is_empty()).then(|| Plot {
        title: format!("Files that arrived, of {most}: {modem}"),
        description: format!(
            "One bar for each context, as long as the number of its files that arrived whole and right \
             with {modem}."
        ),
        x: Axis::new("files", 0.0, most),
        y: Axis::of_names("", names),
        shape: Shape::Bars(sheet.rows.iter().map(|row| count(&row[succeeded])).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_named_and_the_others_shown() {
        let folder = std::env::temp_dir().join(format!("punctual-page-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("library.json"), "{").expect("a file");
        let head = "context,modem,seed,connected_ns,took_ns,arrived,bytes,samples_lost,\
                    stale_samples,most_pending,stolen_ms\n";
        let rows = "RES,V.21,1,5,6,75,75,0,0,100,\nRES,V.21,2,5,,70,75,0,0,100,4\n";
        fs::write(folder.join(kept::FILE), format!("{head}{rows}")).expect("a file");
        let (sections, notes) = sections("here", &folder);
        fs::remove_dir_all(&folder).expect("it was made here");
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("library.json"), "{notes:?}");
        assert_eq!(sections.len(), 1);
        assert!(matches!(&sections[0].plots[0].shape, Shape::Bars(bars) if bars == &[1.0]));
    }
}
