//! Measures how evenly packets leave while four hogs compete for both CPUs.

use punctual_linux::clock;
use punctual_model::Duration;

use crate::extent::{Error, Extent};
use crate::host::stolen_ms;
use crate::lab::{Broker, Config, Lab, Member, Received};
use crate::rates::{Gaps, mbits};
use crate::role::{Pattern, Plain, PlainReport, Role, SendMode, Writer, WriterReport};
use crate::table::{Page, Table, median};

const BYTES: u32 = 1_472;
const HOGS: u32 = 4;

/// The rates of message bytes, in Mbit/s.
const RATES: [u64; 2] = [40, 80];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// A client in a tight loop, an ordinary process; the server paces.
    Server,
    Tbf,
    Htb,
    Ordinary,
    Fifo,
}

const SENDERS: [(Sender, &str); 5] = [
    (Sender::Server, "channel server, client in a tight loop"),
    (Sender::Tbf, "tbf, plain sender in a tight loop"),
    (Sender::Htb, "htb, plain sender in a tight loop"),
    (Sender::Ordinary, "own absolute sleeps, ordinary"),
    (Sender::Fifo, "own absolute sleeps, SCHED_FIFO"),
];

struct Run {
    rate: u64,
    sender: Sender,
    error: f64,
    deviation: f64,
    inner: f64,
    p50: f64,
    p99: f64,
    worst: f64,
    lost: u64,
}

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let broker = lab.broker(&Config::datagrams("1gbit/s"))?;
    let hogs: Result<Vec<Member>, Error> = (0..HOGS).map(|_| lab.start(&Role::Hog)).collect();
    let _hogs = hogs?;
    let length = extent.or(1.5);
    let head = &[
        "Mbit/s",
        "sender",
        "round",
        "packets",
        "rate error, %",
        "gap SD, µs",
        "without the worst 1 %",
        "gap off by, µs: p50",
        "p99",
        "most",
        "lost",
        "stolen, ms",
    ];
    let mut rows = Table::new(
        format!("{BYTES} B on the wire's far side, {HOGS} spinning processes, each run"),
        head,
    );
    let mut runs = Vec::new();
    for round in 0..extent.rounds {
        for rate in RATES {
            for (sender, name) in SENDERS {
                let stolen = stolen_ms();
                let spacing = Duration::from_nanos(u64::from(BYTES) * 8_000 / rate);
                let (heard, sent) = run(lab, &broker, sender, rate, spacing, length)?;
                let gaps = Gaps::of(&heard, spacing);
                let error = (mbits(&heard) / rate as f64 - 1.0) * 100.0;
                let lost = sent.saturating_sub(heard.len() as u64);
                rows.row(vec![
                    rate.to_string(),
                    name.into(),
                    (round + 1).to_string(),
                    heard.len().to_string(),
                    format!("{error:+.4}"),
                    format!("{:.1}", gaps.deviation),
                    format!("{:.1}", gaps.inner),
                    format!("{:.1}", gaps.p50),
                    format!("{:.1}", gaps.p99),
                    format!("{:.0}", gaps.worst),
                    lost.to_string(),
                    format!("{:.0}", stolen_ms() - stolen),
                ]);
                let Gaps { deviation, inner, p50, p99, worst } = gaps;
                runs.push(Run { rate, sender, error, deviation, inner, p50, p99, worst, lost });
            }
        }
    }
    Ok(Page::new("pacing", vec![summary(&runs, extent.rounds), rows]))
}

fn summary(runs: &[Run], rounds: u32) -> Table {
    let mut table = Table::new(
        format!("Medians of {rounds} rounds; \"most\" and \"lost\" are of all rounds"),
        &[
            "Mbit/s",
            "sender",
            "rate error, %",
            "gap SD, µs",
            "without the worst 1 %",
            "p50 off, µs",
            "p99 off, µs",
            "most off, µs",
            "lost",
        ],
    );
    for rate in RATES {
        for (sender, name) in SENDERS {
            let of = || runs.iter().filter(|run| run.rate == rate && run.sender == sender);
            let middle = |figure: fn(&Run) -> f64| median(of().map(figure).collect());
            table.row(vec![
                rate.to_string(),
                name.into(),
                format!("{:+.4}", middle(|run| run.error)),
                format!("{:.1}", middle(|run| run.deviation)),
                format!("{:.1}", middle(|run| run.inner)),
                format!("{:.1}", middle(|run| run.p50)),
                format!("{:.1}", middle(|run| run.p99)),
                format!("{:.0}", of().map(|run| run.worst).fold(0.0, f64::max)),
                of().map(|run| run.lost).sum::<u64>().to_string(),
            ]);
        }
    }
    table
}

/// Returns the received datagrams, and the number sent.
fn run(
    lab: &Lab<'_>,
    broker: &Broker,
    sender: Sender,
    rate: u64,
    spacing: Duration,
    length: Duration,
) -> Result<(Vec<Received>, u64), Error> {
    // tc counts the bytes on the wire except for gap and checksum: 14 of Ethernet, 28 of IPv4 and
    // UDP.
    let bps = rate * 1_000_000 * u64::from(BYTES + 42) / u64::from(BYTES);
    match sender {
        Sender::Tbf => lab.bucket(bps, 1_600)?,
        Sender::Htb => lab.shape(Some(&htb(bps)))?,
        _ => lab.shape(None)?,
    }
    let port = 4_000;
    let listener = lab.listen(port)?;
    // Time to start, beside hogs.
    let start = clock::now() + Duration::from_millis(200);
    let (start_ns, until_ns) = (start.as_nanos(), (start + length).as_nanos());
    let patience = length + Duration::from_secs(15);
    let to = lab.port(port);
    let sent = if sender == Sender::Server {
        let writer = Writer {
            socket: broker.socket(),
            to,
            number: 0,
            bytes: BYTES,
            spacing_ns: spacing.as_nanos(),
            burst: 8,
            slots: 1_024,
            bound_ns: Some(20_000_000),
            fragments: false,
            loses: false,
            credits: 0,
            pattern: Pattern::Tight,
            start_ns,
            until_ns,
        };
        let wrote: WriterReport = lab.start(&Role::Writer(writer))?.report(patience)?;
        wrote.messages
    } else {
        let every_ns = spacing.as_nanos();
        let (how, fifo) = match sender {
            Sender::Fifo => (SendMode::Paced { every_ns }, Some(80)),
            Sender::Ordinary => (SendMode::Paced { every_ns }, None),
            _ => (SendMode::Tight, None),
        };
        let plain = Plain { to, number: 0, bytes: BYTES, how, fifo, start_ns, until_ns };
        let sent: PlainReport = lab.start(&Role::Plain(plain))?.report(patience)?;
        sent.messages
    };
    // Messages that a shaper holds still arrive.
    clock::sleep(Duration::from_millis(80));
    let heard = listener.received()?;
    lab.shape(None)?;
    Ok((heard, sent))
}

fn htb(bps: u64) -> String {
    let device = crate::lab::DEVICE;
    format!(
        "qdisc add dev {device} root handle 1: htb default 1\n\
         class add dev {device} parent 1: classid 1:1 htb rate {bps}bit ceil {bps}bit burst 1600 cburst 1600"
    )
}
