//! The call in virtual time: the same driver, with its processor time charged by a cost model.
//!
//! Minutes of calls take a second to compute, and each run with the same seed gives the same bytes.

use punctual_model::{Duration, Instant, Service, Task};
use punctual_sim::cpu::{Cpu, Supply};
use punctual_sim::upcalls;
use punctual_trace::{Event, Sink, Summary};

use super::live::Traced;
use super::{Error, Options, Report, Row, driver, every_8_ms};
use crate::{Bank, BankConfig, SAMPLES_PER_PERIOD};

/// Lines that are really computed. The charge per line makes up for the rest of a bank.
const LINES: u32 = 4;

/// The charge for one job of the driver: the paper's 1.84 ms every 12.5 ms (soft modem study,
/// §6.6).
pub const TIME_PER_JOB: Service = Service::from_micros(1_840);

/// The slice of the fair scheduler's model: Linux's default on few CPUs.
const SLICE: Duration = Duration::from_millis(3);

/// Runs the call in the contexts of [`super::live`] and under a reservation that is too small.
///
/// Its events go to `traced` too.
pub fn run_traced(options: &Options, traced: &mut Traced) -> Result<Report, Error> {
    let competitors = options.competitors_per_cpu as u32;
    // 2 ms every 8 ms is enough; 1 ms every 8 ms is 12.5 %. The paper's modem worked under the
    // former and did not connect under the latter (Tables 2 and 3).
    let (enough, too_little) = (every_8_ms(2), every_8_ms(1));
    let contexts = [
        ("ordinary thread".to_owned(), false, Supply::Fair { competitors, slice: SLICE }),
        ("real-time upcall".to_owned(), true, Supply::Whole),
        (format!("reservation {enough}"), true, Supply::Reserved(enough)),
        (format!("reservation {too_little}"), false, Supply::Reserved(too_little)),
    ];
    let rows = contexts
        .into_iter()
        .map(|(context, promised, supply)| {
            let (row, _) = call_traced(context, supply, options, traced)?;
            Ok::<Row, Error>(Row { promised, ..row })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Report {
        time: "virtual",
        seed: options.seed,
        seconds: options.length.as_secs_f64(),
        file_bytes: options.file.len(),
        lines: LINES,
        time_per_line_ns: TIME_PER_JOB.as_nanos() / u64::from(LINES),
        competitors: options.competitors_per_cpu,
        rows,
    })
}

/// Runs the same without a trace.
pub fn run(options: &Options) -> Result<Report, Error> {
    run_traced(options, &mut Traced::default())
}

/// Runs one call with the given CPU supply. Returns its row and the file as it arrived.
pub fn call(context: String, supply: Supply, options: &Options) -> Result<(Row, Vec<u8>), Error> {
    call_traced(context, supply, options, &mut Traced::default())
}

fn call_traced(
    context: String,
    supply: Supply,
    options: &Options,
    traced: &mut Traced,
) -> Result<(Row, Vec<u8>), Error> {
    let start = Instant::ZERO;
    let end = start + options.length;
    let time_per_line = TIME_PER_JOB / u64::from(LINES);
    let upcall = driver(LINES, time_per_line)?;
    let driver = Task::from(&upcall);
    let mut both = Both { summary: Summary::new([&driver]), events: Vec::new() };
    traced.call(&context, &driver)?;
    let bank = Bank::new(BankConfig::new(LINES, options.file.clone(), options.seed, start))?;
    let mut handlers = [bank];
    // Signal processing takes time by the sample: a late driver has more to do, and one that
    // catches up with jobs whose samples it has already served has nothing to do.
    let time_per_sample = time_per_line / SAMPLES_PER_PERIOD as u64;
    let service = |bank: &Bank, _| time_per_sample * bank.samples_served() as u64;
    let mut cpu = Cpu::new(supply, start);
    let phases = [Duration::ZERO];
    let left = upcalls::run(&[upcall], &phases, &mut handlers, service, &mut cpu, end, &mut both);
    let Both { mut summary, events } = both;
    left.iter().for_each(|backlog| summary.end(end, *backlog));
    traced.events(&events, 0)?;
    traced.left(&left, end)?;
    let [bank] = handlers;
    let row = Row::of(context, &bank, cpu.now().max(end), &summary);
    Ok((row, bank.file_received().to_vec()))
}

/// A sink that sums events up and keeps them.
struct Both {
    summary: Summary,
    events: Vec<Event>,
}

impl Sink for Both {
    fn record(&mut self, event: Event) {
        self.summary.record(event);
        self.events.push(event);
    }
}
