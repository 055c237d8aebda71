//! The table: a row for each injected cause, a column for each named one.

use std::path::Path;

use punctual_model::Duration;

use crate::injection::{Kind, Named, make};

/// The columns, in the order of the rows; then the causes that are not injected.
const NAMED: [(&str, &str); 17] = [
    ("own", "own"),
    ("task", "task"),
    ("hard-interrupt", "hard"),
    ("softirq", "soft"),
    ("late-timer", "timer"),
    ("throttled-by-kernel", "kernel"),
    ("throttled", "budget"),
    ("page-fault", "fault"),
    ("blocked", "block"),
    ("throttled-by-quota", "quota"),
    ("stopped", "stop"),
    ("frozen", "frozen"),
    ("system", "system"),
    ("stolen", "steal"),
    ("switching", "switch"),
    ("unknown", "unknown"),
    ("none", "none"),
];

pub(crate) fn run(kinds: &[Kind], late: usize, seconds: u64, punctual: &Path) {
    println!(
        "{late} late jobs of each kind, at most {seconds} s for each; the main cause that was named"
    );
    print!("{:<20}", "injected");
    for (_, column) in NAMED {
        print!("{column:>8}");
    }
    println!("{:>7}{:>8}{:>9}{:>8}", "jobs", "right", "of time", "took");
    let (mut right, mut all) = (0, 0);
    for &kind in kinds {
        match make(kind, late, seconds, punctual) {
            Ok(named) => {
                println!("{}", row(kind, &named));
                right += named.main.get(kind.word()).copied().unwrap_or(0);
                all += named.jobs;
            }
            Err(why) => println!("{:<20} skipped: {why}", kind.name()),
        }
    }
    println!("{right} of {all} as injected");
}

fn row(kind: Kind, named: &Named) -> String {
    let mut row = format!("{:<20}", kind.name());
    for (word, _) in NAMED {
        row += &format!("{:>8}", named.main.get(word).copied().unwrap_or(0));
    }
    let right = named.main.get(kind.word()).copied().unwrap_or(0);
    let tardiness = named.share.values().copied().fold(Duration::ZERO, Duration::saturating_add);
    let of_it = named.share.get(kind.word()).copied().unwrap_or(Duration::ZERO);
    let percent = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    row += &format!(
        "{:>7}{:>6.1} %{:>7.1} %{:>6.1} s",
        named.jobs,
        percent(right as f64, named.jobs as f64),
        percent(of_it.as_secs_f64(), tardiness.as_secs_f64()),
        named.took.as_secs_f64(),
    );
    if named.records_lost > 0 {
        row += &format!("  {} records lost", named.records_lost);
    }
    if named.unjudged > 0 {
        row += &format!("  {} jobs not judged", named.unjudged);
    }
    if named.holes > 0 {
        row += &format!("  {} holes", named.holes);
    }
    row
}
