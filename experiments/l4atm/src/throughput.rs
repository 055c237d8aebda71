//! Packets a second, and processor time a packet.

use std::process::Command;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use crate::extent::{Error, Extent};
use crate::lab::{Config, Lab};
use crate::role::{Pattern, Plain, PlainReport, Role, SendMode, Writer, WriterReport};
use crate::table::{Page, Table, median};

/// Faster than any way to send here, so that nothing is paced.
const LINK: &str = "40gbit/s";

/// The same for the processor time of best effort.
const CPU: &str = "850us/1ms";
const PER_PACKET: &str = "1us";

/// The bytes of a fragment and of a datagram.
const FRAGMENT: u16 = 1_440;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Fragments in trains of this many, or datagrams.
    Server {
        train: u32,
    },
    Plain(SendMode),
    Iperf,
}

impl PartialEq for SendMode {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for SendMode {}

#[derive(Clone, Copy, Debug)]
struct Case {
    bytes: u32,
    way: Method,
    name: &'static str,
}

const fn case(bytes: u32, way: Method, name: &'static str) -> Case {
    Case { bytes, way, name }
}

const CASES: [Case; 13] = [
    case(64, Method::Server { train: 0 }, "server, datagrams"),
    case(64, Method::Plain(SendMode::Tight), "send"),
    case(64, Method::Plain(SendMode::Batches), "sendmmsg, 64"),
    case(64, Method::Iperf, "iperf3 -u"),
    case(1_472, Method::Server { train: 0 }, "server, datagrams"),
    case(1_472, Method::Plain(SendMode::Tight), "send"),
    case(1_472, Method::Plain(SendMode::Batches), "sendmmsg, 64"),
    case(1_472, Method::Iperf, "iperf3 -u"),
    case(8_192, Method::Server { train: 1 }, "server, fragments one by one"),
    case(8_192, Method::Server { train: 6 }, "server, trains of 6 fragments"),
    case(8_192, Method::Plain(SendMode::Trains { segment: FRAGMENT }), "send, UDP_SEGMENT"),
    case(8_192, Method::Plain(SendMode::Tight), "send, IP fragments"),
    case(8_192, Method::Plain(SendMode::Batches), "sendmmsg, 64, IP fragments"),
];

struct Run {
    case: usize,
    datagrams: f64,
    /// The processor time a datagram, in ns, of the client and the server; NaN if unknown.
    client: f64,
    server: f64,
    mbits: f64,
    /// The sleeps of the server's client, a message.
    sleeps: f64,
}

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let length = extent.or(0.6);
    let mut table = Table::new(
        format!(
            "Medians of {} rounds of {length}; one sender on CPU 0, the server's client on CPU 1; at \
             the far end a socket that nobody reads counts, on the sender's time",
            extent.rounds
        ),
        &[
            "bytes",
            "way",
            "datagrams/s",
            "Mbit/s of message",
            "ns of CPU a datagram: sender thread",
            "client",
            "both",
            "sleeps of the client a message",
        ],
    );
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..extent.rounds {
        for (at, case) in CASES.iter().enumerate() {
            let run = run(lab, at, case, length)?;
            eprintln!("{} B {}: {:.0}/s", case.bytes, case.name, run.datagrams);
            runs.push(run);
        }
    }
    for (at, case) in CASES.iter().enumerate() {
        let of = |figure: fn(&Run) -> f64| {
            median(runs.iter().filter(|run| run.case == at).map(figure).collect())
        };
        let cost = |ns: f64| if ns.is_nan() { "–".into() } else { format!("{ns:.0}") };
        let ratio = |of: f64| if of.is_nan() { "–".into() } else { format!("{of:.3}") };
        let (server, client) = (of(|run| run.server), of(|run| run.client));
        let both = if server.is_nan() { client } else { server + client };
        table.row(vec![
            case.bytes.to_string(),
            case.name.into(),
            format!("{:.0}", of(|run| run.datagrams)),
            format!("{:.0}", of(|run| run.mbits)),
            cost(server),
            cost(client),
            cost(both),
            ratio(of(|run| run.sleeps)),
        ]);
    }
    Ok(Page::new("throughput", vec![table]))
}

fn run(lab: &Lab<'_>, at: usize, case: &Case, length: Duration) -> Result<Run, Error> {
    if case.way == Method::Iperf {
        return iperf(lab, at, case, length);
    }
    let config = match case.way {
        Method::Server { train: 0 } => Config::datagrams(LINK),
        Method::Server { train } => Config::fragments(LINK, train),
        _ => Config::datagrams(LINK),
    };
    let config = Config { on: Some(0), cpu: CPU, per_packet: PER_PACKET, ..config };
    let broker = match case.way {
        Method::Server { .. } => Some(lab.broker(&config)?),
        _ => None,
    };
    let (port, patience) = (5_000, length + Duration::from_secs(10));
    let (to, sink) = (lab.port(port), lab.sink(port)?);
    let start = clock::now() + Duration::from_millis(80);
    // It is watched in the middle of the sending.
    let edge = Duration::from_millis(60);
    let (from, until) = (start + edge, start + edge + length);
    let (start_ns, until_ns) = (start.as_nanos(), (until + edge).as_nanos());
    let bytes = case.bytes;
    let member = match case.way {
        Method::Plain(how) => {
            let plain = Plain { to, number: 0, bytes, how, fifo: None, start_ns, until_ns };
            lab.start_on(0, &Role::Plain(plain))?
        }
        _ => {
            let writer = Writer {
                socket: broker.as_ref().ok_or("no server")?.socket(),
                to,
                number: 0,
                bytes,
                spacing_ns: 100,
                burst: 64,
                slots: 1_024,
                // Best effort: that many packets a second could not be promised.
                bound_ns: None,
                fragments: bytes > 1_472,
                loses: false,
                credits: 0,
                pattern: Pattern::Tight,
                start_ns,
                until_ns,
            };
            lab.start_on(1, &Role::Writer(writer))?
        }
    };
    let sender_time = || match &broker {
        Some(broker) => broker.process.thread_time("sender"),
        None => Ok(0),
    };
    let read = |at: Instant| -> Result<(Instant, u32, u64), Error> {
        clock::sleep_until(at);
        Ok((clock::now(), sink.count()?, sender_time()?))
    };
    let (began, count_before, time_before) = read(from)?;
    let (ended, count_after, time_after) = read(until)?;
    let datagrams = f64::from(count_after.wrapping_sub(count_before));
    let seconds = (ended - began).as_nanos() as f64 / 1e9;
    // Of the whole sending time, which is a little longer than the watched one.
    let share = seconds / ((until + edge - start).as_nanos() as f64 / 1e9);
    let (client, server, sleeps) = match case.way {
        Method::Server { .. } => {
            let wrote: WriterReport = member.report(patience)?;
            let sleeps = wrote.sleeps as f64 / wrote.messages.max(1) as f64;
            (wrote.cpu_ns as f64 * share, (time_after - time_before) as f64, sleeps)
        }
        _ => {
            let sent: PlainReport = member.report(patience)?;
            (sent.cpu_ns as f64 * share, f64::NAN, f64::NAN)
        }
    };
    // IP fragments become one datagram again before the socket sees them.
    let whole = matches!(case.way, Method::Plain(SendMode::Tight | SendMode::Batches))
        || case.bytes <= 1_472;
    let message = if whole { f64::from(bytes) } else { f64::from(bytes) / 6.0 };
    Ok(Run {
        case: at,
        datagrams: datagrams / seconds,
        client: client / datagrams,
        server: server / datagrams,
        mbits: datagrams * message * 8.0 / seconds / 1e6,
        sleeps,
    })
}

/// Runs iperf3 with a receiver that reads, which it needs, on the other CPU.
fn iperf(lab: &Lab<'_>, at: usize, case: &Case, length: Duration) -> Result<Run, Error> {
    let none = Run {
        case: at,
        datagrams: f64::NAN,
        client: f64::NAN,
        server: f64::NAN,
        mbits: f64::NAN,
        sleeps: f64::NAN,
    };
    if Command::new("iperf3").arg("-v").output().is_err() {
        eprintln!("no iperf3 here");
        return Ok(none);
    }
    let seconds = (length.as_nanos() as f64 / 1e9).ceil().max(1.0);
    let far = lab.on(1, || lab.start_far(Command::new("iperf3").args(["-s", "-1"])))?;
    clock::sleep(Duration::from_millis(200));
    let host = lab.port(0).ip().to_string();
    let mut command = Command::new("iperf3");
    command.args(["-u", "-b", "0", "-J", "-c", &host, "-l", &case.bytes.to_string()]);
    command.args(["-t", &seconds.to_string()]);
    let text =
        lab.on(0, || lab.start_command(&mut command))?.output(length + Duration::from_secs(10))?;
    drop(far);
    let said: serde_json::Value = serde_json::from_str(&text)?;
    let sum = &said["end"]["sum"];
    let (packets, took) = (sum["packets"].as_f64(), sum["seconds"].as_f64());
    let (Some(packets), Some(took)) = (packets, took) else {
        return Err(format!("iperf3 says {}", said["error"]).into());
    };
    let cpu = said["end"]["cpu_utilization_percent"]["host_total"].as_f64().unwrap_or(f64::NAN);
    Ok(Run {
        case: at,
        datagrams: packets / took,
        client: cpu / 100.0 * took * 1e9 / packets,
        server: f64::NAN,
        mbits: packets * f64::from(case.bytes) * 8.0 / took / 1e6,
        sleeps: f64::NAN,
    })
}
