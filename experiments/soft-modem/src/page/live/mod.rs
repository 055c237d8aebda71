//! The results of `soft-modem live`: `live.json` and `services.csv` of a folder for each run, and
//! its other files ([`library`]).

mod library;
mod plots;

use std::path::{Path, PathBuf};
use std::{fs, io};

use punctual_sweep::page::{Part, Section};
use punctual_sweep::plot::Plot;

use crate::live::report::Report;

/// One run with its folder.
struct Run {
    name: String,
    report: Report,
    services: Vec<Service>,
}

/// One line of `services.csv`.
struct Service {
    context: String,
    at_ns: u64,
    since_ns: Option<u64>,
    elapsed_ns: u64,
    pending: u64,
}

/// Returns the sections of all runs below `folder`, at most two levels deep, in the order of their
/// names, and notes on files that cannot be read.
pub fn find(folder: &Path) -> (Vec<Section>, Vec<String>) {
    let (mut sections, mut notes) = (Vec::new(), Vec::new());
    for place in folders(folder) {
        let file = place.join("live.json");
        if file.exists() {
            match read(folder, &place) {
                Ok(run) => sections.push(section(&run)),
                Err(why) => notes.push(format!("Not shown: {}: {why}.", file.display())),
            }
        }
        let (others, wrong) = library::sections(&name_of(folder, &place), &place);
        sections.extend(others);
        notes.extend(wrong);
    }
    if sections.is_empty() {
        notes.push(format!(
            "There are no live results below {}: this page has the study in virtual time only. \
             soft-modem live --results DIR makes some.",
            folder.display()
        ));
    }
    (sections, notes)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    let first = below(folder);
    let mut all = vec![folder.to_owned()];
    for one in first {
        let second = below(&one);
        all.push(one);
        all.extend(second);
    }
    all
}

fn read(root: &Path, place: &Path) -> Result<Run, String> {
    let text = fs::read(place.join("live.json")).map_err(|why| why.to_string())?;
    let report = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
    let services = match fs::File::open(place.join("services.csv")) {
        Ok(file) => services(file)?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(why) => return Err(format!("services.csv: {why}")),
    };
    Ok(Run { name: name_of(root, place), report, services })
}

fn name_of(root: &Path, place: &Path) -> String {
    place.strip_prefix(root).unwrap_or(place).display().to_string()
}

fn services(from: impl io::Read) -> Result<Vec<Service>, String> {
    let mut reader = csv::Reader::from_reader(from);
    let keys = reader.headers().map_err(|why| format!("services.csv: {why}"))?.clone();
    let place = |key: &str| {
        keys.iter().position(|one| one == key).ok_or(format!("services.csv has no column {key}"))
    };
    let context = place("context")?;
    let numbers = ["at_ns", "since_previous_ns", "elapsed_ns", "pending_after_samples"];
    let [at, since, elapsed, pending] = numbers.map(place);
    let (at, since, elapsed, pending) = (at?, since?, elapsed?, pending?);
    let mut services = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|why| format!("services.csv: {why}"))?;
        let number = |column: usize| record.get(column).and_then(|text| text.parse().ok());
        let needed = |column: usize| {
            number(column).ok_or(format!("services.csv: no number in column {}", column + 1))
        };
        services.push(Service {
            context: record.get(context).unwrap_or_default().to_owned(),
            at_ns: needed(at)?,
            since_ns: number(since),
            elapsed_ns: needed(elapsed)?,
            pending: needed(pending)?,
        });
    }
    Ok(services)
}

/// Returns the section of one run.
fn section(run: &Run) -> Section {
    let report = &run.report;
    let mut about = vec![
        format!(
            "{} Driver and callback on CPU {}, {} lines, calls of {} s, {} competitors on each CPU, \
             seed {}.",
            report.host,
            report.cpu,
            report.lines,
            report.length_ns as f64 / 1e9,
            report.competitors_per_cpu,
            report.seed
        ),
        "PC 99 allows interrupts to be off for 100 µs, deferred calls to take 500 µs together, and \
         interrupts to come every 3 to 16 ms; the plots draw these in."
            .into(),
    ];
    about.extend(report.contexts.iter().filter_map(|context| {
        context.why_not.as_ref().map(|why| format!("{} was not run: {why}.", context.context))
    }));
    let mut plots: Vec<Plot> =
        report.contexts.iter().filter_map(|context| plots::services(run, context)).collect();
    plots.extend(plots::pending(run));
    plots.extend(plots::gaps(report));
    Section {
        title: format!("Live: {}", run.name),
        about,
        summary: plots::summary(report),
        plots,
        parts: vec![Part {
            title: "By phase of the call".into(),
            plots: Vec::new(),
            sheet: plots::phases(report),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_and_what_is_no_number_is_named() {
        let head = "context,phase,at_ns,since_previous_ns,elapsed_ns,wakeup_latency_ns,\
                    pending_after_samples\n";
        let read = |rows: &str| services(format!("{head}{rows}").as_bytes());
        let found = read("INT,connected,5,,7,,9\nDPC,connected,6,1,8,2,10\n").expect("valid");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].since_ns, found[0].pending), (None, 9));
        assert_eq!((found[1].context.as_str(), found[1].since_ns), ("DPC", Some(1)));
        assert!(read("INT,connected,x,,7,,9\n").is_err_and(|why| why.contains("column 3")));
        assert!(services(&b"context,at_ns\n"[..]).is_err_and(|why| why.contains("since")));
    }

    #[test]
    fn a_folder_without_results_says_so() {
        let (sections, notes) = find(Path::new("/nonexistent"));
        assert!(sections.is_empty());
        assert!(notes[0].contains("/nonexistent"), "{notes:?}");
    }
}
