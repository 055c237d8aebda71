//! `punctual-modem demo`: the main demonstration, from end to end.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_frontend::trace_file::{TraceArgs, refused};
use punctual_model::Duration;
use punctual_modem::demo::live::Traced;
use punctual_modem::demo::{
    Error, Options, PICTURE, Progress, Quantiles, Report, Row, live, replay,
};

/// The size of the longest file accepted.
const MOST_BYTES: u64 = 4 << 20;
const EXAMPLES: &str = "\
Examples:
  punctual-modem demo                             on this host, as root
  punctual-modem demo --for 15s --json out.json
  punctual-modem demo --trace demo.ptrace         every job, for punctual why, report and export
  punctual-modem demo --file song.mid --seed 7
  punctual-modem demo --virtual                   in virtual time: same result every time, no privilege

SCHED_DEADLINE needs CAP_SYS_NICE, so the live demo wants root. Fewer than 4 seconds end before the
modems are connected.

Exit codes: 0 no sample was lost or heard twice in a context that was promised its CPU, 1 some were,
2 bad usage, 3 this host cannot.";

/// Sends a file over a modem call whose driver has deadlines, among spinning competitors
///
/// Two real V.22bis modems at 2400 bit/s, an emulated line between them, and a driver that must
/// serve the card of one of them every 12.5 ms. It runs as an ordinary thread, as a real-time
/// upcall and under a CPU reservation; one table shows how the file and the samples fared.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to send [default: a picture of 5 kB]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Seed of the line noise and the other lines' traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of each call; about 250 bytes a second after the first three
    #[arg(long = "for", value_name = "TIME", default_value = "28s", value_parser = call_length)]
    length: Duration,
    /// Spinning threads on each CPU
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=256))]
    competitors: u16,
    /// Run in virtual time; a cost model charges the driver's processor time
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArgs,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let file = match &args.file {
        None => PICTURE.to_vec(),
        Some(path) => read(path)?,
    };
    // Created now, so that a path that cannot be written is reported before minutes of calls;
    // beside the path, so that an earlier result stays until there is a new one.
    let json = args.json.as_deref().map(|path| output::file(path, true)).transpose()?;
    let trace = if args.virtual_time {
        args.trace.of_virtual_run("")?
    } else {
        args.trace.of_live_run("")?
    };
    let mut traced = Traced::new(trace);
    let options = Options {
        file: Arc::from(file),
        seed: args.seed,
        length: args.length,
        competitors_per_cpu: usize::from(args.competitors),
    };
    let report = if args.virtual_time {
        replay::run_traced(&options, &mut traced).map_err(failure)?
    } else {
        run_live(&options, &mut traced)?
    };
    traced.end().map_err(refused)?;
    // Written before anything is printed: a closed terminal must not lose it.
    if let Some(json) = json {
        output::json_file(json, &report)?;
    }
    output::print(&format!("{}\n{}\n", header(&report), table(&report)))?;
    let broken = report.rows.iter().any(Row::breaks_its_promise);
    Ok(if broken { Exit::Refused } else { Exit::Kept })
}

/// Parses the length of a call: from a second to an hour.
fn call_length(text: &str) -> Result<Duration, String> {
    let length = time(text)?;
    let permitted = Duration::from_secs(1)..=Duration::from_secs(3600);
    if permitted.contains(&length) { Ok(length) } else { Err("it must be from 1s to 3600s".into()) }
}

fn run_live(options: &Options, traced: &mut Traced) -> Result<Report, Failure> {
    let bar = ProgressBar::new(0);
    // The template is constant, and the library accepts it.
    let style = ProgressStyle::with_template("{msg:30} {wide_bar} {pos:>3}/{len} s  {prefix}")
        .map_err(Failure::bad_input)?;
    bar.set_style(style);
    let mut told = String::new();
    let mut tell = |progress: Progress<'_>| {
        // A bar draws nothing into a file or a pipe: one line for each call is progress enough
        // there.
        if bar.is_hidden() && told != progress.what {
            eprintln!("{} …", progress.what);
            progress.what.clone_into(&mut told);
        }
        bar.set_length(progress.length.as_nanos() / 1_000_000_000);
        bar.set_message(progress.what.to_owned());
        bar.set_position(progress.elapsed.as_nanos() / 1_000_000_000);
        bar.set_prefix(format!("{:>5} of {} bytes", progress.delivered, options.file.len()));
    };
    let outcome = live::run(options, traced, &mut tell);
    bar.finish_and_clear();
    outcome.map_err(failure)
}

fn header(report: &Report) -> String {
    let per_line = report.time_per_line_ns as f64 / 1000.0;
    let share = per_line * f64::from(report.lines) / 12_500.0 * 100.0;
    format!(
        "A file of {} bytes over V.22bis at 2400 bit/s, {} s a call, {} time, seed {}.\n\
         Driver: {} lines every 12.5 ms, {per_line:.1} µs a line: {share:.1} % of a CPU. \
         Competitors: {} spinning threads.",
        report.file_bytes,
        report.seconds,
        report.time,
        report.seed,
        report.lines,
        report.competitors,
    )
}

/// Returns the table, with a column for each context: four fit on a terminal of 80 characters or
/// little more.
fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(
        std::iter::once(Cell::new("driver runs as"))
            .chain(report.rows.iter().map(|row| Cell::new(&row.context))),
    );
    let mut line = |name: &str, value: &dyn Fn(&Row) -> String| {
        let values = report.rows.iter().map(|row| Cell::new(value(row)));
        table.add_row(std::iter::once(Cell::new(name)).chain(values));
    };
    line("bytes delivered intact", &|row| format!("{}/{}", row.bytes_intact, report.file_bytes));
    line("samples lost", &|row| row.samples_lost.to_string());
    line("most samples pending", &|row| format!("{} of 512", row.most_samples_pending));
    line("lines still up", &|row| format!("{}/{}", row.lines_delivering, report.lines));
    line("jobs completed", &|row| format!("{}/{}", row.jobs, row.jobs_released));
    line("jobs late", &|row| row.late_jobs.to_string());
    if report.rows.iter().any(|row| row.cpu_percent.is_some()) {
        line("CPU used, %", &|row| {
            row.cpu_percent.map_or("-".into(), |percent| format!("{percent:.1}"))
        });
    }
    line("wake-up latency, µs: p50", &|row| micros(row.wakeup_latency, |q| q.p50_ns));
    line("                     p99", &|row| micros(row.wakeup_latency, |q| q.p99_ns));
    line("                     max", &|row| micros(row.wakeup_latency, |q| q.max_ns));
    if report.rows.iter().any(|row| row.callback_wakeup_latency.is_some()) {
        line("of a 1 ms callback:  p50", &|row| micros(row.callback_wakeup_latency, |q| q.p50_ns));
        line("                     p99", &|row| micros(row.callback_wakeup_latency, |q| q.p99_ns));
        line("                     max", &|row| micros(row.callback_wakeup_latency, |q| q.max_ns));
    }
    if report.rows.iter().any(|row| row.stolen_ms.is_some_and(|ms| ms > 0)) {
        line("stolen by the host, ms", &|row| {
            row.stolen_ms.map_or("-".into(), |ms| ms.to_string())
        });
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn micros(quantiles: Option<Quantiles>, which: impl Fn(Quantiles) -> u64) -> String {
    quantiles.map_or("-".into(), |q| ((which(q) + 500) / 1000).to_string())
}

/// Reads the file to send. An hour's call carries a quarter of the largest size accepted.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let refuse = |why: &dyn Display| Failure::bad_input(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(&error))?;
    if !file.metadata().map_err(|error| refuse(&error))?.is_file() {
        return Err(refuse(&"not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| refuse(&error))?;
    match bytes.len() as u64 {
        0 => Err(refuse(&"empty: nothing to send")),
        1..=MOST_BYTES => Ok(bytes),
        _ => {
            Err(refuse(&format!("longer than {} MiB, more than an hour's call", MOST_BYTES >> 20)))
        }
    }
}

fn failure(error: Error) -> Failure {
    if let Error::Trace(why) = error {
        return refused(why);
    }
    let option = if let Error::Competitors { .. } = error { " with --competitors" } else { "" };
    if error.is_of_host() {
        Failure::cannot_here(format!(
            "{error}{option}\n`punctual doctor` says what this host lacks; `punctual-modem demo --virtual` needs \
             no privilege"
        ))
    } else {
        Failure::bad_input(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_competitors_are_told_with_the_option() {
        let why = std::io::ErrorKind::WouldBlock.into();
        let failure = failure(Error::Competitors { made: 3, wanted: 9, why });
        let text = failure.message().text();
        assert!(text.contains("or ask for fewer with --competitors\n"), "{text}");
    }
}
