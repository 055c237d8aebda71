//! The table of kernels, `docs/kernels.md`: the results of the job `features` on each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::check::{Selection, check};
use crate::host::{cache, project};
use crate::kernel::NAMES;
use crate::problem::Problem;

/// The job, whose script writes `kernel`, `doctor.json` and `features`.
pub(crate) const JOB: &str = "features";
/// The checks of `doctor` that concern a machine and not its kernel.
const OF_THE_MACHINE: [&str; 10] = [
    "CPUs",
    "virtualisation",
    "steal",
    "frequency governor",
    "swap",
    "idle CPUs",
    "host profile",
    "left over",
    "clock source",
    "bandwidth left",
];
const HEAD: &str = "\
# What works on which kernel

Made by `make kernels-table`, not by hand: each feature is tried on each of these kernels of Debian's in an emulated
machine of two CPUs, with control groups of version 2 alone and the modules of `machines/jobs/features.toml`
([the laboratory](machines.md)). Rows with (doctor) are checks of `punctual
doctor`, the others commands that were tried.

*works*: as on a host that has everything; *degrades*: there, and weaker or done another way; *refused*: not there, and
said so; the words are below the table. What is not named here and tried on each kernel is listed in
[machines](machines.md#what-is-tried-on-each-kernel).
";

/// The result for a feature on a kernel.
#[derive(Clone, Debug)]
struct Cell {
    state: String,
    words: String,
}

/// The part of `doctor --json` that is used.
#[derive(Deserialize)]
struct Diagnosis {
    checks: Vec<Check>,
    network: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    state: String,
    found: String,
}

/// The features in the order in which they were first found, each with the results of every kernel.
#[derive(Default)]
struct Features {
    order: Vec<String>,
    cells: BTreeMap<(String, &'static str), Cell>,
}

/// Runs the job on the selected kernels and writes the table of all. Returns 1, and writes nothing,
/// if something broke.
///
/// # Errors
/// Fails if a machine could not be made, or a result is missing.
pub(crate) fn table(selection: &Selection) -> Result<u8, Problem> {
    let broken = check(selection)?;
    if broken != 0 {
        return Ok(broken);
    }
    let mut features = Features::default();
    let mut kernels = String::from("| kernel | release |\n|---|---|\n");
    for name in NAMES {
        let results = cache().join("results").join(format!("{JOB}-{name}-1"));
        let _ = writeln!(kernels, "| {name} | {} |", read(&results.join("kernel"))?.trim());
        features.read(name, &results)?;
    }
    let path = project().join("docs/kernels.md");
    let text = format!("{HEAD}\n{kernels}\n{}", features.text());
    fs::write(&path, text).map_err(Problem::file(&path))?;
    println!("{}", path.display());
    Ok(0)
}

impl Features {
    /// Adds the results of one kernel.
    fn read(&mut self, kernel: &'static str, results: &Path) -> Result<(), Problem> {
        let text = read(&results.join("doctor.json"))?;
        let Diagnosis { checks, network } = serde_json::from_str(&text)
            .map_err(|error| Problem::Usage(format!("{}: {error}", results.display())))?;
        for Check { name, state, found } in checks.into_iter().chain(network) {
            if OF_THE_MACHINE.contains(&name.as_str()) {
                continue;
            }
            let state = match state.as_str() {
                "ok" => "works",
                "warning" => "degrades",
                "cannot" => "refused",
                _ => "unknown",
            };
            self.add(format!("{name} (doctor)"), kernel, state, &found);
        }
        for line in read(&results.join("features"))?.lines() {
            let mut fields = line.splitn(3, '\t');
            if let (Some(name), Some(state), Some(words)) =
                (fields.next(), fields.next(), fields.next())
            {
                self.add(name.to_owned(), kernel, state, words);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, kernel: &'static str, state: &str, words: &str) {
        if !self.order.contains(&name) {
            self.order.push(name.clone());
        }
        let cell = Cell { state: state.to_owned(), words: words.trim().to_owned() };
        self.cells.insert((name, kernel), cell);
    }

    fn cell(&self, name: &str, kernel: &'static str) -> Option<&Cell> {
        self.cells.get(&(name.to_owned(), kernel))
    }

    /// Returns the table, and below it the messages about features that do not work.
    fn text(&self) -> String {
        let mut text = format!("| feature | {} |\n|---|", NAMES.join(" | "));
        text.push_str(&"---|".repeat(NAMES.len()));
        let mut said = String::new();
        for name in &self.order {
            let _ = write!(text, "\n| {name} |");
            let mut words: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for kernel in NAMES {
                let cell = self.cell(name, kernel);
                let _ = write!(text, " {} |", cell.map_or("not tried", |cell| &cell.state));
                if let Some(cell) = cell.filter(|cell| cell.state != "works") {
                    words.entry(&cell.words).or_default().push(kernel);
                }
            }
            for (words, kernels) in words {
                let _ = writeln!(said, "- **{name}**, on {}: {words}", kernels.join(", "));
            }
        }
        format!("{text}\n\n## What is said\n\n{said}")
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(Problem::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_features_are_listed_with_their_kernels() {
        let mut features = Features::default();
        for kernel in NAMES {
            let state = if kernel == "6.1" { "works" } else { "refused" };
            features.add("a".to_owned(), kernel, state, "no such thing\n");
        }
        features.add("b".to_owned(), "6.12", "works", "");
        let text = features.text();
        assert!(text.contains("\n| a | works | refused | refused | refused |\n"), "{text}");
        assert!(text.contains("\n| b | not tried | not tried | works | not tried |\n"), "{text}");
        assert!(text.ends_with("- **a**, on 6.1-rt, 6.12, 6.12-rt: no such thing\n"), "{text}");
    }
}
