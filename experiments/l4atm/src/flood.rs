//! Guaranteed messages beside best effort of up to ten times the capacity of the link.

use punctual_linux::clock;
use punctual_model::Duration;

use crate::extent::{Error, Extent};
use crate::host::stolen_ms;
use crate::lab::{Broker, Config, Lab, Member, Received};
use crate::role::{Pattern, Plain, PlainReport, Role, SendMode, Writer, WriterReport};
use crate::table::{Page, Table};

/// The rate of the link, on the wire. The token bucket makes it a link: a veth has no rate.
const LINK_MBITS: u64 = 100;
const BYTES: u32 = 1_472;

/// The number of guaranteed senders, each with a message every `EVERY_US` and the delay bound
/// `BOUND`.
const PROMISED: u32 = 3;
const EVERY_US: u64 = 1_000;
/// The promised spacing, for a tenth more than they send, so that a sender that was kept from its
/// CPU catches up. At exactly its rate it would stay behind for good.
const CONTRACT_US: u64 = 900;
const BOUND: Duration = Duration::from_millis(5);

/// The number of best-effort senders, which together offer a multiple of the link's rate.
const FLOODING: u32 = 4;
const OFFERED: [u64; 6] = [0, 1, 2, 4, 7, 10];

struct Seen {
    /// The guaranteed messages due and received; the Mbit/s of best effort and of both.
    due: u64,
    heard: u64,
    best_effort: f64,
    goodput: f64,
    /// The delay from due to the far end, in µs: median, 99th percentile, longest.
    delay: [f64; 3],
    /// The server's verdict: late messages, and broken promises.
    verdict: String,
    /// The best-effort messages that found no room at their sender.
    turned_away: u64,
}

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let length = extent.or(1.0);
    let mut table = Table::new(
        format!(
            "{PROMISED} guaranteed senders of {BYTES} B every {EVERY_US} µs (contract: {CONTRACT_US} µs), bound {BOUND}, and \
             {FLOODING} of best effort, all ordinary processes; tbf of {LINK_MBITS} Mbit/s; {length} each"
        ),
        &[
            "way",
            "round",
            "offered / link",
            "guaranteed: due",
            "arrived",
            "%",
            "delay from due, µs: p50",
            "p99",
            "most",
            "server's verdict",
            "best effort, Mbit/s",
            "goodput, Mbit/s",
            "turned away",
            "stolen, ms",
        ],
    );
    // To tbf a frame is 14 bytes more than its packet, and on a wire 38 more: slightly faster than
    // the server assumes, as a driver is.
    lab.bucket(LINK_MBITS * 1_000_000, 3_200)?;
    for round in 0..extent.rounds {
        for (ours, name) in [(true, "server"), (false, "plain sockets")] {
            for offered in OFFERED {
                let stolen = stolen_ms();
                let seen = if ours {
                    let broker = lab.broker(&Config::datagrams(&format!("{LINK_MBITS}mbit/s")))?;
                    through_server(lab, &broker, offered, length)
                } else {
                    plainly(lab, offered, length)
                }?;
                table.row(vec![
                    name.into(),
                    (round + 1).to_string(),
                    format!("{offered}×"),
                    seen.due.to_string(),
                    seen.heard.to_string(),
                    format!("{:.2}", seen.heard as f64 * 100.0 / seen.due.max(1) as f64),
                    format!("{:.0}", seen.delay[0]),
                    format!("{:.0}", seen.delay[1]),
                    format!("{:.0}", seen.delay[2]),
                    seen.verdict,
                    format!("{:.2}", seen.best_effort),
                    format!("{:.2}", seen.goodput),
                    seen.turned_away.to_string(),
                    format!("{:.0}", stolen_ms() - stolen),
                ]);
            }
        }
    }
    lab.shape(None)?;
    Ok(Page::new("flood", vec![table]))
}

/// Returns the time between two messages of one flooding sender, in ns.
fn flood_every(offered: u64) -> u64 {
    u64::from(BYTES + 66) * 8_000 * u64::from(FLOODING) / (LINK_MBITS * offered)
}

/// The begin and end of guaranteed senders, and of the best-effort senders around them.
struct Times {
    start: u64,
    until: u64,
    flood_start: u64,
    flood_until: u64,
}

impl Times {
    fn of(length: Duration) -> Self {
        let edge = Duration::from_millis(200);
        let flood_start = clock::now() + edge;
        let (start, until) = (flood_start + edge, flood_start + edge + length);
        let [start, until, flood_start, flood_until] =
            [start, until, flood_start, until + edge].map(|at| at.as_nanos());
        Self { start, until, flood_start, flood_until }
    }
}

fn through_server(
    lab: &Lab<'_>,
    broker: &Broker,
    offered: u64,
    length: Duration,
) -> Result<Seen, Error> {
    let (promised_to, flood_to) = (lab.listen(6_000)?, lab.listen(6_001)?);
    let times = Times::of(length);
    let writer = |number: u32| Writer {
        socket: broker.socket(),
        to: lab.port(6_000),
        number,
        bytes: BYTES,
        spacing_ns: CONTRACT_US * 1_000,
        burst: 32,
        slots: 64,
        bound_ns: Some(BOUND.as_nanos()),
        fragments: false,
        loses: false,
        credits: 0,
        pattern: Pattern::Paced { every_ns: EVERY_US * 1_000 },
        start_ns: times.start,
        until_ns: times.until,
    };
    let promised: Result<Vec<Member>, Error> =
        (0..PROMISED).map(|number| lab.start(&Role::Writer(writer(number)))).collect();
    let flooding = if offered == 0 { 0 } else { FLOODING };
    let flooding: Result<Vec<Member>, Error> = (0..flooding)
        .map(|number| {
            lab.start(&Role::Writer(Writer {
                to: lab.port(6_001),
                spacing_ns: flood_every(offered),
                bound_ns: None,
                pattern: Pattern::Paced { every_ns: flood_every(offered) },
                start_ns: times.flood_start,
                until_ns: times.flood_until,
                ..writer(100 + number)
            }))
        })
        .collect();
    let patience = length + Duration::from_secs(20);
    let report = |member: Member| member.report::<WriterReport>(patience);
    let promised: Vec<WriterReport> =
        promised?.into_iter().map(report).collect::<Result<_, _>>()?;
    let flooding: Vec<WriterReport> =
        flooding?.into_iter().map(report).collect::<Result<_, _>>()?;
    let due = promised.iter().map(|one| one.messages + one.no_room).sum();
    let late: u64 = promised.iter().filter_map(|one| Some(one.status.counts.as_ref()?.late)).sum();
    let mut verdicts: Vec<&str> = promised.iter().map(|one| one.status.verdict.as_str()).collect();
    verdicts.dedup();
    let verdict = format!("{}; {late} late", verdicts.join(" / "));
    let turned_away = flooding.iter().map(|one| one.no_room).sum();
    Ok(seen(&promised_to.received()?, &flood_to.received()?, &times, due, verdict, turned_away))
}

fn plainly(lab: &Lab<'_>, offered: u64, length: Duration) -> Result<Seen, Error> {
    let (promised_to, flood_to) = (lab.listen(6_000)?, lab.listen(6_001)?);
    let times = Times::of(length);
    let plain = |number: u32, to: u16, every_ns: u64, start_ns: u64, until_ns: u64| {
        let how = SendMode::Flood { every_ns };
        let to = lab.port(to);
        lab.start(&Role::Plain(Plain {
            to,
            number,
            bytes: BYTES,
            how,
            fifo: None,
            start_ns,
            until_ns,
        }))
    };
    let promised: Result<Vec<Member>, Error> = (0..PROMISED)
        .map(|number| plain(number, 6_000, EVERY_US * 1_000, times.start, times.until))
        .collect();
    let flooding = if offered == 0 { 0 } else { FLOODING };
    let flooding: Result<Vec<Member>, Error> = (0..flooding)
        .map(|number| {
            let every = flood_every(offered);
            plain(100 + number, 6_001, every, times.flood_start, times.flood_until)
        })
        .collect();
    let patience = length + Duration::from_secs(20);
    let report = |member: Member| member.report::<PlainReport>(patience);
    let promised: Vec<PlainReport> = promised?.into_iter().map(report).collect::<Result<_, _>>()?;
    let flooding: Vec<PlainReport> = flooding?.into_iter().map(report).collect::<Result<_, _>>()?;
    // For the messages that the queue still holds.
    clock::sleep(Duration::from_millis(60));
    let due = promised.iter().map(|one| one.messages + one.refused).sum();
    let turned_away = flooding.iter().map(|one| one.refused).sum();
    Ok(seen(&promised_to.received()?, &flood_to.received()?, &times, due, "–".into(), turned_away))
}

fn seen(
    promised: &[Received],
    flood: &[Received],
    times: &Times,
    due: u64,
    verdict: String,
    turned_away: u64,
) -> Seen {
    let mbits = |heard: &[Received]| {
        let inside =
            heard.iter().filter(|one| (times.start..times.until).contains(&one.at.as_nanos()));
        let bytes: u64 = inside.map(|one| u64::from(one.bytes)).sum();
        bytes as f64 * 8e3 / (times.until - times.start) as f64
    };
    let mut delays: Vec<f64> = promised
        .iter()
        .filter_map(|one| Some(one.at.saturating_since(one.stamp?.at).as_nanos() as f64 / 1e3))
        .collect();
    delays.sort_by(f64::total_cmp);
    let part = |of: f64| delays.get((delays.len() as f64 * of) as usize).copied().unwrap_or(0.0);
    Seen {
        due,
        heard: promised.len() as u64,
        best_effort: mbits(flood),
        goodput: mbits(promised) + mbits(flood),
        delay: [part(0.5), part(0.99), delays.last().copied().unwrap_or(0.0)],
        verdict,
        turned_away,
    }
}
