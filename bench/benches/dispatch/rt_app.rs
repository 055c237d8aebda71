//! Runs the set in rt-app (Debian's package), the tool with which the scheduler's developers make
//! such loads.
//!
//! It is started a head start before, and its start-up is charged to its jobs: some milliseconds of
//! two seconds. Its clock starts by itself, so phases mean nothing to it: its tasks are released as
//! they come up.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_linux::{clock, process};
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order::level_of;
use punctual_trace::Times;

use crate::Ran;
use crate::set::Set;

/// Version 1.0 crashes with a thousand.
const MOST: usize = 100;

pub(crate) fn run(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    if set.len() > MOST {
        return Err(format!(
            "rt-app 1.0 is asked for at most {MOST} threads here; with 1,000 it crashes"
        ));
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("tasks.json");
    fs::write(&file, json(set, folder.path(), end - start)).map_err(|error| error.to_string())?;
    clock::sleep_until(start);
    let child = Command::new("rt-app")
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("rt-app does not start ({error}); install the package rt-app"))?;
    let ended = loop {
        if let Some(ended) = process::poll(&child).map_err(|error| error.to_string())? {
            break ended;
        }
        clock::sleep(Duration::from_millis(20));
    };
    if !ended.status.success() {
        return Err(format!("rt-app ended with {}", ended.status));
    }
    let (jobs, wakeup_latency) = logged(folder.path())?;
    if jobs == 0 {
        return Err(String::from("rt-app logged no job"));
    }
    Ok(Ran { jobs, charged: ended.usage.processor.as_nanos() as f64, wakeup_latency })
}

/// Returns its workload file. The given calibration keeps it from measuring the CPU at its start;
/// no task here runs anything that would need one.
fn json(set: &Set, folder: &Path, length: Duration) -> String {
    let seconds = length.as_nanos().div_ceil(1_000_000_000);
    let mut text = format!(
        "{{\"global\":{{\"duration\":{seconds},\"calibration\":100,\"logdir\":\"{}\",\
         \"log_basename\":\"log\",\"lock_pages\":false,\"ftrace\":false,\"gnuplot\":false,\
         \"default_policy\":\"SCHED_FIFO\"}},\"tasks\":{{",
        folder.display()
    );
    for (at, (period, _)) in set.tasks().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let micros = period.as_nanos() / 1_000;
        let priority = level_of(period);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{comma}\"t{at}\":{{\"priority\":{priority},\"loop\":-1,\
             \"timer\":{{\"ref\":\"unique\",\"period\":{micros},\"mode\":\"absolute\"}}}}"
        );
    }
    text.push_str("}}");
    text
}

/// Reads its logs: a line a job, with the wake-up latency in microseconds in the last column.
fn logged(folder: &Path) -> Result<(u64, Times), String> {
    let (mut jobs, mut latencies) = (0, Times::new());
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let last = line.split_whitespace().next_back();
            if let Some(micros) = last.and_then(|last| last.parse().ok()) {
                jobs += 1;
                latencies.record(Duration::from_micros(micros));
            }
        }
    }
    Ok((jobs, latencies))
}
