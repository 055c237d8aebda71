//! Runs the cases, and prints known against found values.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cases::{self, Case};

pub(crate) fn run(
    punctual: &Path,
    seconds: u32,
    results: Option<&Path>,
    only: &[String],
) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
    let punctual = fs::canonicalize(punctual)
        .map_err(|error| format!("{}: {error}; make build, or --punctual", punctual.display()))?;
    if let Some(results) = results {
        fs::create_dir_all(results).map_err(|error| format!("{}: {error}", results.display()))?;
    }
    println!("watched {seconds} s each, tried for {seconds} s; times in ms");
    println!(
        "{:<16} {:<18} {:>8} {:>9} {:>5} {:>8} {:>8} {:>8} {:>15} {:>11} {:>11}  verdict",
        "program",
        "of",
        "period",
        "found",
        "sure",
        "needs",
        "p50",
        "p99",
        "reserve",
        "late before",
        "late after"
    );
    let (mut right, mut all) = (0, 0);
    for case in cases::all(&punctual, folder.path()) {
        if !only.is_empty() && !only.iter().any(|part| case.name.contains(&**part)) {
            continue;
        }
        match one(&punctual, seconds, &case, folder.path()) {
            Ok(text) => {
                if let Some(results) = results {
                    let file = results.join(format!("{}.json", case.name.replace(' ', "-")));
                    fs::write(&file, &text)
                        .map_err(|error| format!("{}: {error}", file.display()))?;
                }
                let (line, is_right) = row(&case, &text)?;
                println!("{line}");
                all += 1;
                right += u32::from(is_right);
            }
            Err(why) => println!("{:<16} {:<18} skipped: {why}", case.name, case.of),
        }
    }
    println!("{right} of {all} as they are");
    Ok(())
}

fn one(punctual: &Path, seconds: u32, case: &Case, folder: &Path) -> Result<String, String> {
    let output = Command::new(punctual)
        .args(["fit", "--json", "--for", &format!("{seconds}s"), "--"])
        .args(&case.words)
        .current_dir(folder)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The program's own output comes before.
    match text.find("{\n  \"watched_ns\"") {
        Some(at) => Ok(text[at..].to_owned()),
        None => Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")),
    }
}

fn row(case: &Case, text: &str) -> Result<(String, bool), String> {
    let page: Value = serde_json::Deserializer::from_str(text)
        .into_iter()
        .next()
        .ok_or("no answer")?
        .map_err(|error| error.to_string())?;
    let threads = page["threads"].as_array().cloned().unwrap_or_default();
    let used = |thread: &Value| (1e9 * thread["used_of_cpu"].as_f64().unwrap_or(0.0)) as u64;
    let named =
        |thread: &&Value| case.thread.as_ref().is_none_or(|name| thread["thread"] == **name);
    let thread = threads.iter().filter(named).max_by_key(|thread| used(thread));
    let Some(thread) = thread else {
        let names: Vec<&str> = threads.iter().filter_map(|one| one["thread"].as_str()).collect();
        return Ok((
            format!("{:<16} {:<18} no such thread among {names:?}", case.name, case.of),
            false,
        ));
    };
    let ms = |value: &Value| value.as_u64().map(|ns| ns as f64 / 1e6);
    let period_of = |period: &Value| ms(&period["period_ns"]);
    let periods = thread["periods"].as_array().cloned().unwrap_or_default();
    let found = periods.iter().filter_map(period_of).reduce(f64::min);
    let is_right = match (case.period, found) {
        (None, None) => true,
        (Some(truth), Some(found)) => 100.0 * (found - truth).abs() <= case.within * truth,
        _ => false,
    };
    let shown =
        |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.3}"));
    let reserve = &thread["reservation"];
    let reserved = ms(&reserve["budget_ns"]).zip(ms(&reserve["period_ns"]));
    let trial = &thread["trial"];
    let after = trial["jobs"].as_u64().map(|jobs| format!("{}/{jobs}", trial["late"]));
    let line = format!(
        "{:<16} {:<18} {:>8} {:>9} {:>5} {:>8} {:>8} {:>8} {:>15} {:>11} {:>11}  {}",
        case.name,
        case.of,
        shown(case.period),
        shown(found),
        periods
            .first()
            .and_then(|one| one["confidence"].as_f64())
            .map_or("-".to_owned(), |sure| format!("{sure:.2}")),
        shown(case.needs),
        shown(ms(&thread["demand"]["p50_ns"])),
        shown(ms(&thread["demand"]["p99_ns"])),
        reserved.map_or("-".to_owned(), |(budget, period)| format!("{budget:.2}/{period:.2}")),
        format!("{}/{}", thread["late"], thread["jobs"]),
        after.unwrap_or_else(|| "-".to_owned()),
        if is_right { "right" } else { "wrong" },
    );
    Ok((line, is_right))
}
