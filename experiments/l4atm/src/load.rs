//! A guaranteed stream under local load, and local load beside a guaranteed stream (L4ATM, Figures 9
//! and 10).

use std::process::Command;

use punctual_linux::{clock, host};
use punctual_model::{Duration, Instant};

use crate::extent::{Error, Extent};
use crate::host::stolen_ms;
use crate::lab::{Broker, Config, Lab, Member, Received};
use crate::rates::{mbits, most_in, windows};
use crate::role::{Pattern, Role, Worked, Writer, WriterReport};
use crate::table::{Page, Table, median};

const BYTES: u32 = 8_192;

/// The paper's stream, in Mbit/s, and a larger one, whose share of a CPU is more than noise.
const PAPERS: u64 = 40;
const LARGER: u64 = 200;

/// The windows in which a stream must not exceed its rate.
const WINDOW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    None,
    Hogs,
    Forks,
    Stress,
}

const LOADS: [(Load, &str); 4] = [
    (Load::None, "none"),
    (Load::Hogs, "4 hogs"),
    (Load::Forks, "4 × fork, exec, exit"),
    (Load::Stress, "stress-ng: 2 cpu, 2 vm, switch, timer"),
];

impl Load {
    fn start(self, lab: &Lab<'_>) -> Result<Vec<Member>, Error> {
        let four = |role: Role| (0..4).map(|_| lab.start(&role)).collect();
        match self {
            Self::None => Ok(Vec::new()),
            Self::Hogs => four(Role::Hog),
            Self::Forks => four(Role::Forks),
            Self::Stress => {
                let mut stress = Command::new("stress-ng");
                stress.args(["--cpu", "2", "--vm", "2", "--vm-bytes", "64m", "--switch", "1"]);
                // Its workers end with it; the time-out is for the case that they do not.
                stress.args(["--timer", "1", "--quiet", "--temp-path", "/tmp", "--timeout", "60"]);
                Ok(vec![lab.start_command(&mut stress)?])
            }
        }
    }
}

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let broker = lab.broker(&Config::fragments("1gbit/s", 1))?;
    let stream = streams(lab, &broker, extent)?;
    let slowdown = slowdown(lab, &broker, extent)?;
    Ok(Page::new("load", vec![stream, slowdown]))
}

fn writer(
    lab: &Lab<'_>,
    broker: &Broker,
    mbits: u64,
    start: Instant,
    length: Duration,
) -> Result<Member, Error> {
    lab.start(&Role::Writer(Writer {
        socket: broker.socket(),
        to: lab.port(9_100),
        number: 0,
        bytes: BYTES,
        spacing_ns: u64::from(BYTES) * 8_000 / mbits,
        burst: 10,
        slots: 256,
        bound_ns: Some(20_000_000),
        fragments: true,
        loses: false,
        credits: 0,
        pattern: Pattern::Tight,
        start_ns: start.as_nanos(),
        until_ns: (start + length).as_nanos(),
    }))
}

fn streams(lab: &Lab<'_>, broker: &Broker, extent: Extent) -> Result<Table, Error> {
    let length = extent.or(2.0);
    let mut table = Table::new(
        format!(
            "A stream of {PAPERS} Mbit/s in messages of {BYTES} B, its client in a tight loop; {length} each"
        ),
        &[
            "load",
            "round",
            "received, Mbit/s",
            "off, %",
            "100 ms bins: least",
            "most",
            "most in any 100 ms / contract",
            "delay, µs: p50",
            "p99",
            "most",
            "late",
            "verdict",
            "stolen, ms",
        ],
    );
    for round in 0..extent.rounds {
        for (load, name) in LOADS {
            let processes = match load.start(lab) {
                Ok(processes) => processes,
                Err(why) => {
                    eprintln!("{name}: {why}");
                    continue;
                }
            };
            clock::sleep(Duration::from_millis(200));
            let stolen = stolen_ms();
            let listener = lab.listen(9_100)?;
            let start = clock::now() + Duration::from_millis(150);
            let member = writer(lab, broker, PAPERS, start, length)?;
            let wrote: WriterReport = member.report(length + Duration::from_secs(20))?;
            let heard = listener.received()?;
            drop(processes);
            let mut cells = vec![name.into(), (round + 1).to_string()];
            cells.extend(stream_cells(&heard, &wrote));
            cells.push(format!("{:.0}", stolen_ms() - stolen));
            table.row(cells);
        }
    }
    Ok(table)
}

fn stream_cells(heard: &[Received], wrote: &WriterReport) -> Vec<String> {
    let contract = PAPERS as f64;
    let received = mbits(heard);
    let (first, last) = match heard {
        [first, .., last] => (first.at, last.at),
        _ => (Instant::ZERO, Instant::ZERO),
    };
    let bins = windows(heard, first, last, WINDOW);
    let in_window = contract * WINDOW.as_nanos() as f64 / 8e3;
    let counts = wrote.status.counts.clone().unwrap_or_default();
    let micros = |ns: u64| format!("{:.0}", ns as f64 / 1e3);
    vec![
        format!("{received:.4}"),
        format!("{:+.4}", (received / contract - 1.0) * 100.0),
        format!("{:.2}", bins.iter().copied().fold(f64::INFINITY, f64::min)),
        format!("{:.2}", bins.iter().copied().fold(0.0, f64::max)),
        format!("{:.4}", most_in(heard, WINDOW) as f64 / in_window),
        micros(counts.p50_delay_ns),
        micros(counts.p99_delay_ns),
        micros(counts.worst_delay_ns),
        counts.late.to_string(),
        wrote.status.verdict.clone(),
    ]
}

/// One run of the fixed load.
struct Slow {
    mbits: u64,
    wall: f64,
    /// The shares of a CPU: the admitted one, and those used by the sender's thread and its client.
    admitted: f64,
    used: f64,
}

fn slowdown(lab: &Lab<'_>, broker: &Broker, extent: Extent) -> Result<Table, Error> {
    let cpus = host::cpus_online();
    let one_round: Worked =
        lab.start(&Role::Work { rounds: 50_000_000 })?.report(Duration::from_secs(30))?;
    let wanted = extent.or(2.0).as_nanos() as f64 / 2.0;
    let rounds = (50_000_000.0 * wanted / one_round.wall_ns.max(1) as f64) as u64;
    let mut runs = Vec::new();
    for _ in 0..extent.rounds {
        for mbits in [0, PAPERS, 0, LARGER] {
            runs.push(slow_run(lab, broker, mbits, rounds, cpus, extent)?);
        }
    }
    let mut table = Table::new(
        format!(
            "{cpus} ordinary processes, one a CPU's worth, with a fixed amount of work, beside a stream; \
             medians of {} rounds",
            extent.rounds
        ),
        &[
            "stream, Mbit/s",
            "wall time, ms",
            "slower by, %",
            "predicted by admission, %",
            "by what the stream used, %",
        ],
    );
    let middle = |mbits: u64, figure: fn(&Slow) -> f64| {
        median(runs.iter().filter(|run| run.mbits == mbits).map(figure).collect())
    };
    let alone = middle(0, |run| run.wall);
    // The load gets the rest of all CPUs.
    let slower = |share: f64| (1.0 / (1.0 - share / cpus as f64) - 1.0) * 100.0;
    for mbits in [0, PAPERS, LARGER] {
        let wall = middle(mbits, |run| run.wall);
        table.row(vec![
            mbits.to_string(),
            format!("{:.1}", wall / 1e6),
            format!("{:+.2}", (wall / alone - 1.0) * 100.0),
            format!("{:+.2}", slower(middle(mbits, |run| run.admitted))),
            format!("{:+.2}", slower(middle(mbits, |run| run.used))),
        ]);
    }
    Ok(table)
}

fn slow_run(
    lab: &Lab<'_>,
    broker: &Broker,
    mbits: u64,
    rounds: u64,
    cpus: usize,
    extent: Extent,
) -> Result<Slow, Error> {
    let sink = lab.sink(9_100)?;
    let start = clock::now() + Duration::from_millis(50);
    // Longer than the work takes.
    let length = extent.or(2.0) + Duration::from_millis(1_500);
    let patience = length + Duration::from_secs(20);
    let stream = match mbits {
        0 => None,
        mbits => Some(writer(lab, broker, mbits, start, length)?),
    };
    clock::sleep_until(start + Duration::from_millis(150));
    let admitted = broker.channels()?.totals.map_or(0, |totals| totals.cpu_ppm) as f64 / 1e6;
    let (began, before) = (clock::now(), broker.process.thread_time("sender")?);
    let client_before = stream.as_ref().map_or(Ok(0), |one| one.first_thread_time())?;
    let working: Vec<Member> =
        (0..cpus).map(|_| lab.start(&Role::Work { rounds })).collect::<Result<_, _>>()?;
    let worked: Vec<Worked> =
        working.into_iter().map(|one| one.report(patience)).collect::<Result<_, _>>()?;
    let took = clock::now().saturating_since(began).as_nanos() as f64;
    let server = broker.process.thread_time("sender")? - before;
    let client = stream.as_ref().map_or(Ok(0), |one| one.first_thread_time())? - client_before;
    drop(stream);
    drop(sink);
    // Wait until the channel of the killed client is gone.
    let until = clock::now() + Duration::from_secs(5);
    while clock::now() < until && !broker.channels()?.channels.is_empty() {
        clock::sleep(Duration::from_millis(5));
    }
    let wall: u64 = worked.iter().map(|one| one.wall_ns).sum();
    Ok(Slow {
        mbits,
        wall: wall as f64 / cpus as f64,
        admitted,
        used: (server + client) as f64 / took,
    })
}
