//! What `punctual why` takes to be the jobs of programs that say nothing about them. The victim is a C
//! program with a log of its own jobs, which is the truth here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const MS: u64 = 1_000_000;
/// The farthest that a release may be from the victim's own, in nanoseconds.
const NEAR: u64 = MS;

/// The kinds of victims, and the deadlines of their jobs in milliseconds.
const KINDS: [(&str, u64); 11] = [
    ("usleep", 5),
    ("poll", 5),
    ("condition-semaphore", 5),
    ("condition-mutex", 5),
    ("timed-mutex", 5),
    ("relative", 5),
    ("overload", 10),
    ("condition-overload", 10),
    ("hogged", 10),
    ("throttled", 10),
    ("helpers", 5),
];

fn punctual(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("punctual runs")
}

fn this() -> PathBuf {
    env!("CARGO_BIN_EXE_punctual").into()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Compiles the victim; `None` if there is no compiler.
fn victim(folder: &TempDir) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/why_jobs/victim.c");
    let program = folder.path().join("victim");
    let compiled =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{}", said(&output));
            Some(program)
        }
        Err(why) => {
            println!("skipped: cc: {why}");
            None
        }
    }
}

/// The late jobs of a victim, by its own log and as found.
#[derive(Debug)]
struct Compared {
    /// Its releases with the tardiness of each late job.
    truth: Vec<(u64, u64)>,
    found: Vec<(u64, u64)>,
    /// The late jobs that were found of other threads.
    elsewhere: usize,
    jobs: usize,
    /// What was taken to be a job of its thread.
    taken: String,
}

impl Compared {
    /// Returns the number of late jobs that are in both, and the tardiness that each says they have.
    fn both(&self) -> (usize, u64, u64) {
        let mut left = self.found.clone();
        let (mut both, mut true_ns, mut found_ns) = (0, 0, 0);
        for (release, tardiness) in &self.truth {
            let near = left.iter().position(|(found, _)| found.abs_diff(*release) <= NEAR);
            if let Some(at) = near {
                both += 1;
                true_ns += tardiness;
                found_ns += left.swap_remove(at).1;
            }
        }
        (both, true_ns, found_ns)
    }

    fn recall(&self) -> f64 {
        self.both().0 as f64 / self.truth.len().max(1) as f64
    }

    fn precision(&self) -> f64 {
        self.both().0 as f64 / self.found.len().max(1) as f64
    }
}

/// Watches a victim of this kind; `None` if this host cannot.
fn compare(program: &Path, kind: &str, deadline: u64, more: &[&str]) -> Option<Compared> {
    let folder = tempfile::tempdir().expect("a folder");
    let victim = victim(&folder)?;
    let log = folder.path().join("log");
    let deadline_ms = format!("{deadline}ms");
    let (victim, log) = (victim.to_str().expect("text"), log.to_str().expect("text"));
    let mut arguments = vec!["why", "--json", "--deadline", &deadline_ms];
    arguments.extend(more);
    arguments.extend(["--", victim, kind, log]);
    let output = punctual(program, &arguments);
    if output.status.code() == Some(3) {
        println!("skipped: {}", said(&output));
        return None;
    }
    let jobs: Vec<(u64, u64)> = fs::read_to_string(log)
        .expect("the log")
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(release, end)| (release.parse().expect("ns"), end.parse().expect("ns")))
        .collect();
    if jobs.is_empty() {
        println!("skipped: the victim could not be {kind}");
        return None;
    }
    let is_late = |&(release, end): &(u64, u64)| {
        let tardiness = (end - release).checked_sub(deadline * MS)?;
        Some((release, tardiness))
    };
    let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let threads = lines.last().expect("the end")["threads"].as_array().expect("threads").clone();
    let taken = threads.iter().find(|one| one["thread"] == "jobs");
    let late = lines.iter().filter(|line| line["late"].is_object()).map(|line| &line["late"]);
    let is_it = |one: &&Value| taken.is_some_and(|taken| taken["tid"] == one["tid"]);
    let (ours, others): (Vec<&Value>, Vec<&Value>) = late.partition(is_it);
    let number = |one: &Value, key: &str| one[key].as_u64().expect("a number");
    Some(Compared {
        truth: jobs.iter().filter_map(is_late).collect(),
        found: ours
            .iter()
            .map(|one| (number(one, "release_ns"), number(one, "tardiness_ns")))
            .collect(),
        elsewhere: others.len(),
        jobs: jobs.len(),
        taken: taken.and_then(|one| one["jobs"].as_str()).unwrap_or("-").to_owned(),
    })
}

/// The number of attempts: what else the machine does may stall the thread that hands jobs over, and
/// then gives them all at once.
const RUNS: usize = 3;

/// Late jobs at the start and at the end are not judged, so a few of a victim's may be missing; and
/// one that is late by microseconds may be on either side.
#[test]
fn late_jobs_are_found_as_the_victim_logs_them() {
    'kinds: for (kind, deadline) in KINDS {
        let mut all = Vec::new();
        for _ in 0..RUNS {
            let Some(compared) = compare(&this(), kind, deadline, &[]) else { continue 'kinds };
            let (truth, found) = (compared.truth.len(), compared.found.len());
            let both = compared.both().0;
            let said = format!("{kind}: {both} of {truth} found, {}", compared.taken);
            if truth - both <= 2 + truth / 20 && found - both <= 2 + found / 20 {
                println!("{said}");
                continue 'kinds;
            }
            all.push(format!("{said}: {compared:?}"));
        }
        panic!("{all:#?}");
    }
}

/// Prints the table of docs/why.md, for the program in PUNCTUAL.
#[test]
#[ignore = "a measurement"]
fn table() {
    let program = std::env::var_os("PUNCTUAL").map_or_else(this, PathBuf::from);
    println!(
        "{:<21}{:>6}{:>6}{:>7}{:>7}{:>8}{:>11}{:>11}{:>11}  taken",
        "victim", "jobs", "late", "found", "right", "recall", "precision", "tardiness", "elsewhere"
    );
    for (kind, deadline) in KINDS {
        let Some(compared) = compare(&program, kind, deadline, &[]) else { continue };
        let (both, true_ns, found_ns) = compared.both();
        println!(
            "{kind:<21}{:>6}{:>6}{:>7}{both:>7}{:>8.3}{:>11.3}{:>11.3}{:>11}  {}",
            compared.jobs,
            compared.truth.len(),
            compared.found.len(),
            compared.recall(),
            compared.precision(),
            found_ns as f64 / true_ns.max(1) as f64,
            compared.elsewhere,
            compared.taken,
        );
    }
}

#[test]
fn a_program_that_only_spins_is_not_judgeable() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(victim) = victim(&folder) else { return };
    let (victim, log) = (victim.to_str().expect("text"), folder.path().join("log"));
    let log = log.to_str().expect("text");
    let output = punctual(&this(), &["why", "--deadline", "5ms", "--", victim, "spin", log]);
    if output.status.code() == Some(3) {
        return println!("skipped: {}", said(&output));
    }
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{page}");
    assert!(page.contains("Nothing could be judged"), "{page}");
}

#[test]
fn a_job_is_described_before_it_is_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(victim) = victim(&folder) else { return };
    let (victim, log) = (victim.to_str().expect("text"), folder.path().join("log"));
    let log = log.to_str().expect("text");
    let arguments = ["--period", "10ms", "--thread", "jobs", "--", victim, "usleep", log];
    let arguments: Vec<&str> =
        ["why", "--json", "--deadline", "5ms"].into_iter().chain(arguments).collect();
    let output = punctual(&this(), &arguments);
    if output.status.code() == Some(3) {
        return println!("skipped: {}", said(&output));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let release = &lines[0]["release"];
    assert_eq!(release["thread"], "jobs", "{text}");
    assert_eq!(
        (&release["period_ns"], &release["declared"], &release["wait"], &release["rhythm"]),
        (&(10 * MS).into(), &true.into(), &"clock_nanosleep".into(), &"timeline".into())
    );
    assert!(release["regular"].as_f64() >= Some(0.9), "{release}");
    assert!(lines[1]["late"].is_object(), "{text}");
}
