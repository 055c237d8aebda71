//! Two concurrent writers in tight loops, each beyond its contract (L4ATM, Table 2).

use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use crate::extent::{Error, Extent};
use crate::lab::{Broker, Config, Lab, Member, Received};
use crate::rates::{mbits, most_in};
use crate::role::{Pattern, Role, Writer, WriterReport};
use crate::table::{Page, Table};

/// The contract of a writer: its rate in Mbit/s, its message size in bytes, and an interval in ms.
type Contract = (f64, u32, u64);

/// The first pair is the paper's. Its intervals had room for as many PDUs as its credits; here the same
/// number of messages may come at once.
const PAIRS: [[Contract; 2]; 5] = [
    [(61.03, 8_192, 10), (22.89, 4_096, 13)],
    [(40.0, 8_192, 2), (40.0, 8_192, 50)],
    [(80.0, 8_192, 10), (20.0, 1_440, 10)],
    [(30.0, 1_440, 1), (30.0, 16_384, 20)],
    [(5.0, 1_440, 10), (1.0, 512, 50)],
];

/// The policing of a pair: whether messages beyond the contract are lost, and the credits for
/// messages in an interval (0 means by spacing and burst).
#[derive(Clone, Copy)]
struct Policed {
    loses: bool,
    credits: u32,
}

/// The paper's credits, by a connection's sensitivity to jitter (§3.2).
const CREDITS: [u32; 3] = [2, 10, 50];

/// The link of the paper's card, OC-3.
const LINK: &str = "155mbit/s";

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let broker = lab.broker(&Config::fragments(LINK, 1))?;
    let length = extent.or(2.0);
    let mut table = Table::new(
        format!(
            "Two writers at a time in tight loops, link {LINK}, {length} each. The paper's first pair: \
             60.98 sent and 60.89 received; 22.91 sent and 22.90 received"
        ),
        &[
            "contract, Mbit/s",
            "message, B",
            "policed by",
            "interval, ms",
            "at once",
            "beyond it messages",
            "written, Mbit/s",
            "received, Mbit/s",
            "off, %",
            "most in an interval / contract",
            "most allowed",
            "lost",
        ],
    );
    for loses in [false, true] {
        for (at, pair) in PAIRS.iter().enumerate() {
            let policed = Policed { loses, credits: 0 };
            for row in run(lab, &broker, 8_000 + at as u16 * 2, pair, policed, length)? {
                table.row(row);
            }
        }
        for credits in CREDITS {
            // The paper's pair.
            for row in run(lab, &broker, 8_000, &PAIRS[0], Policed { loses, credits }, length)? {
                table.row(row);
            }
        }
    }
    Ok(Page::new("policing", vec![table]))
}

fn spacing(of: &Contract) -> u64 {
    (f64::from(of.1) * 8e3 / of.0).round() as u64
}

/// Returns the messages that may come at once: those of an interval, at least one; with credits
/// those of two.
fn at_once(of: &Contract, policed: Policed) -> u32 {
    match policed.credits {
        0 => (of.2 * 1_000_000 / spacing(of)).max(1) as u32,
        credits => 2 * credits,
    }
}

/// Returns the interval of the contract, or of the credits.
fn interval_ns(of: &Contract, policed: Policed) -> u64 {
    match policed.credits {
        0 => of.2 * 1_000_000,
        credits => u64::from(credits) * spacing(of),
    }
}

fn run(
    lab: &Lab<'_>,
    broker: &Broker,
    port: u16,
    pair: &[Contract; 2],
    policed: Policed,
    length: Duration,
) -> Result<Vec<Vec<String>>, Error> {
    let start = clock::now() + Duration::from_millis(100);
    let mut running: Vec<(Member, _)> = Vec::new();
    for (at, contract) in pair.iter().enumerate() {
        let to = port + at as u16;
        let listener = lab.listen(to)?;
        let writer = Writer {
            socket: broker.socket(),
            to: lab.port(to),
            number: u32::from(to),
            bytes: contract.1,
            spacing_ns: spacing(contract),
            burst: at_once(contract, policed),
            slots: 128,
            bound_ns: Some(100_000_000),
            fragments: true,
            loses: policed.loses,
            credits: policed.credits,
            pattern: Pattern::Tight,
            start_ns: start.as_nanos(),
            until_ns: (start + length).as_nanos(),
        };
        running.push((lab.start(&Role::Writer(writer))?, listener));
    }
    let mut wrote: Vec<(WriterReport, _)> = Vec::new();
    for (member, listener) in running {
        wrote.push((member.report(length + Duration::from_secs(15))?, listener));
    }
    let mut rows = Vec::new();
    for ((wrote, listener), contract) in wrote.into_iter().zip(pair) {
        rows.push(row(contract, policed, length, &wrote, &listener.received()?));
    }
    Ok(rows)
}

fn row(
    contract: &Contract,
    policed: Policed,
    length: Duration,
    wrote: &WriterReport,
    heard: &[Received],
) -> Vec<String> {
    let (mbit, bytes, _) = *contract;
    // A burst at the beginning does not count in the rate over time.
    let from = heard.first().map_or(Instant::ZERO, |first| first.at) + Duration::from_millis(100);
    let steady: Vec<Received> = heard.iter().filter(|one| one.at >= from).copied().collect();
    let received = mbits(&steady);
    let written = wrote.messages as f64 * f64::from(bytes) * 8e3 / length.as_nanos() as f64;
    let interval_ns = interval_ns(contract, policed);
    let allowed = mbit * interval_ns as f64 / 8e3;
    let most = most_in(&steady, Duration::from_nanos(interval_ns)) as f64;
    // Logical arrivals are the spacing apart, so a window holds one message more than its length.
    let most_allowed = allowed + f64::from(bytes);
    let lost = wrote
        .status
        .counts
        .as_ref()
        .map_or(0, |counts| counts.lost.iter().map(|(_, count)| count).sum());
    vec![
        format!("{mbit:.2}"),
        bytes.to_string(),
        match policed.credits {
            0 => "spacing and burst".into(),
            credits => format!("credits for {credits}"),
        },
        format!("{:.2}", interval_ns as f64 / 1e6),
        at_once(contract, policed).to_string(),
        if policed.loses { "are lost" } else { "wait" }.into(),
        format!("{written:.2}"),
        format!("{received:.3}"),
        format!("{:+.3}", (received / mbit - 1.0) * 100.0),
        format!("{:.3}", most / allowed),
        format!("{:.3}", most_allowed / allowed),
        lost.to_string(),
    ]
}
