//! `punctual demo`: the main job, from end to end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use modem_call::report::Quantiles;
use modem_call::{Error, Options, PICTURE, Progress, Report, Row, live, replay};
use punctual_model::Duration;

use crate::exit::{Exit, Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  punctual demo                             on this host, needs root or RLIMIT_RTPRIO
  punctual demo --seconds 15 --json out.json
  punctual demo --file song.mid --seed 7
  punctual demo --virtual                   in virtual time: same result every time, no privilege

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad usage, 3 this host cannot.";

/// Send a file over a modem call whose driver has deadlines, among spinning competitors
///
/// Two real V.22bis modems at 2400 bit/s, an emulated line between them, and a driver that must
/// serve the card of one of them every 12.5 ms. It runs as an ordinary thread, as a real-time
/// upcall and under a CPU reservation; one table says what became of the file and the samples.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file to send [default: a picture of 5 kB]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Draws the line noise and the other lines' traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long each call lasts; about 250 bytes a second after the first three
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Spinning threads on each CPU
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=256))]
    competitors: u16,
    /// In virtual time, a cost model charging the driver's processor time
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let file = match &args.file {
        None => PICTURE.to_vec(),
        Some(path) => read(path)?,
    };
    // Opened now, so that a path that cannot be written is known before minutes of calls.
    let json = args.json.as_deref().map(create).transpose()?;
    let options = Options {
        file: Arc::from(file),
        seed: args.seed,
        length: Duration::from_secs(u64::from(args.seconds)),
        competitors_per_cpu: usize::from(args.competitors),
    };
    let report = if args.virtual_time {
        replay::run(&options).map_err(failure)?
    } else {
        run_live(&options)?
    };
    anstream::println!("{}", header(&report));
    anstream::println!("{}", table(&report));
    if let Some((path, file)) = json {
        write_json(path, file, &report)?;
    }
    Ok(if promises_kept(&report) { Exit::Kept } else { Exit::Refused })
}

fn run_live(options: &Options) -> Result<Report, Failure> {
    let bar = ProgressBar::new(0);
    // The template is constant, and the library accepts it.
    let style = ProgressStyle::with_template("{msg:30} {wide_bar} {pos:>3}/{len} s  {prefix}")
        .map_err(Failure::bad_input)?;
    bar.set_style(style);
    let mut told = String::new();
    let mut tell = |progress: Progress<'_>| {
        // Into a file or a pipe a bar draws nothing: one line a call is progress enough there.
        if bar.is_hidden() && told != progress.what {
            anstream::eprintln!("{} …", progress.what);
            progress.what.clone_into(&mut told);
        }
        bar.set_message(progress.what.to_owned());
        bar.set_length(progress.length.as_nanos() / 1_000_000_000);
        bar.set_position(progress.elapsed.as_nanos() / 1_000_000_000);
        bar.set_prefix(format!("{:>5} of {} bytes", progress.delivered, options.file.len()));
    };
    let outcome = live::run(options, &mut tell);
    bar.finish_and_clear();
    outcome.map_err(failure)
}

/// The rows that were promised something (all but the first) kept it: every line served in full.
/// In virtual time the last row shows a reservation that is too small, so it promises nothing.
fn promises_kept(report: &Report) -> bool {
    report
        .rows
        .iter()
        .filter(|row| row.promised)
        .all(|row| row.samples_lost == 0 && row.lines_delivering == report.lines)
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

/// A column a context: four fit on a terminal of 80 characters or little more.
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
    line("jobs", &|row| row.jobs.to_string());
    line("late jobs", &|row| row.late_jobs.to_string());
    if report.rows.iter().any(|row| row.cpu_percent.is_some()) {
        line("CPU used, %", &|row| {
            row.cpu_percent.map_or("-".into(), |percent| format!("{percent:.1}"))
        });
    }
    line("wake-up latency, µs: p50", &|row| micros(row.wakeup_latency, |q| q.p50_ns));
    line("                     p99", &|row| micros(row.wakeup_latency, |q| q.p99_ns));
    line("                     max", &|row| micros(row.wakeup_latency, |q| q.max_ns));
    if report.rows.iter().any(|row| row.callback_latency.is_some()) {
        line("of a 1 ms callback:  p50", &|row| micros(row.callback_latency, |q| q.p50_ns));
        line("                     p99", &|row| micros(row.callback_latency, |q| q.p99_ns));
        line("                     max", &|row| micros(row.callback_latency, |q| q.max_ns));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn micros(quantiles: Option<Quantiles>, which: impl Fn(Quantiles) -> u64) -> String {
    quantiles.map_or("-".into(), |q| ((which(q) + 500) / 1000).to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = fs::read(path)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
    if bytes.is_empty() {
        return Err(Failure::bad_input(format!("{} is empty: nothing to send", path.display())));
    }
    Ok(bytes)
}

fn create(path: &Path) -> Result<(&Path, File), Failure> {
    match File::create(path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(Failure::bad_input(format!("{}: {error}", path.display()))),
    }
}

fn write_json(path: &Path, mut file: File, report: &Report) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(report).map_err(Failure::bad_input)?;
    text.push('\n');
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
}

fn failure(error: Error) -> Failure {
    if error.is_of_host() {
        Failure::cannot_here(format!(
            "{error}\n`punctual doctor` says what this host lacks; `punctual demo --virtual` needs \
             no privilege"
        ))
    } else {
        Failure::bad_input(error)
    }
}
