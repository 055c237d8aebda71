//! Writers that start and stop, and one that takes the rest (L4ATM, Figures 7 and 8).

use punctual_linux::clock;
use punctual_model::Duration;

use crate::extent::{Error, Extent};
use crate::lab::{Config, Lab, Member, Received};
use crate::rates;
use crate::rates::windows;
use crate::role::{Pattern, Role, Writer, WriterReport};
use crate::table::{Page, Table};

const BYTES: u32 = 8_192;

/// The rate of the link, on the wire.
const LINK_MBITS: u64 = 140;

/// Mbit/s of messages, and the twentieths of the time in which each writer sends: first each by
/// itself, then more and more of them together. The last one always takes the rest.
const WRITERS: [(u64, &[(u64, u64)]); 5] = [
    (10, &[(1, 2), (6, 9), (11, 18)]),
    (20, &[(2, 3), (7, 10), (12, 17)]),
    (30, &[(3, 4), (8, 11), (13, 19)]),
    (40, &[(4, 5), (9, 12), (14, 16)]),
    (0, &[(0, 20)]),
];
const PARTS: u64 = 20;

const BIN: Duration = Duration::from_millis(100);

/// The most bins in the plot over the whole time: of 100 ms at 20 s, and longer in a long run.
const COURSE: u64 = 200;

/// The time at both ends of a writer's activity that is left out, because a bin there is not whole.
const EDGE: Duration = Duration::from_millis(200);

pub(crate) fn measure(lab: &Lab<'_>, extent: Extent) -> Result<Page, Error> {
    let length = extent.or(20.0);
    let broker = lab.broker(&Config::fragments(&format!("{LINK_MBITS}mbit/s"), 1))?;
    let start = clock::now() + Duration::from_millis(300);
    let at = |part: u64| start + Duration::from_nanos(length.as_nanos() / PARTS * part);
    let mut listeners = Vec::new();
    let mut members: Vec<(usize, (u64, u64), Member)> = Vec::new();
    for (number, (mbit, times)) in WRITERS.iter().enumerate() {
        let port = 9_000 + number as u16;
        listeners.push(lab.listen(port)?);
        for (from, until) in *times {
            let rate = if *mbit == 0 { LINK_MBITS } else { *mbit };
            let writer = Writer {
                socket: broker.socket(),
                to: lab.port(port),
                number: number as u32,
                bytes: BYTES,
                spacing_ns: u64::from(BYTES) * 8_000 / rate,
                burst: 10,
                slots: 32,
                bound_ns: (*mbit != 0).then_some(50_000_000),
                fragments: true,
                loses: false,
                credits: 0,
                pattern: Pattern::Tight,
                start_ns: at(*from).as_nanos(),
                until_ns: at(*until).as_nanos(),
            };
            members.push((number, (*from, *until), lab.start(&Role::Writer(writer))?));
        }
    }
    eprintln!("{} s", length.as_nanos() as f64 / 1e9);
    let mut promises = Table::new(
        "Each time a writer sent, and what was received meanwhile, in Mbit/s of message",
        &[
            "contract",
            "from, s",
            "until, s",
            "mean",
            "off, %",
            "100 ms bins: least",
            "most",
            "late",
            "verdict",
        ],
    );
    let mut ended: Vec<(usize, (u64, u64), WriterReport)> = Vec::new();
    for (number, time, member) in members {
        ended.push((number, time, member.report(length + Duration::from_secs(20))?));
    }
    let heard: Vec<Vec<Received>> =
        listeners.into_iter().map(|one| one.received()).collect::<Result<_, _>>()?;
    let seconds = |part: u64| (at(part) - start).as_nanos() as f64 / 1e9;
    for (number, (from, until), wrote) in &ended {
        let contract = WRITERS[*number].0;
        let bins = windows(&heard[*number], at(*from) + EDGE, at(*until) - EDGE, BIN);
        let mean = bins.iter().sum::<f64>() / bins.len().max(1) as f64;
        let counts = wrote.status.counts.clone().unwrap_or_default();
        promises.row(vec![
            if contract == 0 { "what is left".into() } else { contract.to_string() },
            format!("{:.1}", seconds(*from)),
            format!("{:.1}", seconds(*until)),
            format!("{mean:.3}"),
            if contract == 0 {
                "–".into()
            } else {
                format!("{:+.3}", (mean / contract as f64 - 1.0) * 100.0)
            },
            format!("{:.2}", bins.iter().copied().fold(f64::INFINITY, f64::min)),
            format!("{:.2}", bins.iter().copied().fold(0.0, f64::max)),
            counts.late.to_string(),
            wrote.status.verdict.clone(),
        ]);
    }
    let width = BIN.max(Duration::from_nanos(length.as_nanos() / COURSE));
    let lines: Vec<(String, Vec<f64>)> = heard
        .iter()
        .zip(&WRITERS)
        .map(|(heard, (mbit, _))| {
            let name = if *mbit == 0 { "what is left".into() } else { format!("{mbit} Mbit/s") };
            (name, windows(heard, start, at(PARTS), width))
        })
        .collect();
    let mut page = Page::new("writers", vec![promises, over_time(&lines, width)]);
    page.picture = Some(rates::rates(&lines, seconds(PARTS))?);
    Ok(page)
}

/// Returns the bins themselves.
fn over_time(lines: &[(String, Vec<f64>)], width: Duration) -> Table {
    let head = ["s", "10 Mbit/s", "20 Mbit/s", "30 Mbit/s", "40 Mbit/s", "what is left", "all"];
    let caption = format!("Mbit/s of message received, in bins of {width}");
    let mut table = Table::new(caption, &head);
    let bins = lines.first().map_or(0, |(_, rates)| rates.len());
    for bin in 0..bins {
        let rates = lines.iter().map(|(_, rates)| rates.get(bin).copied().unwrap_or(0.0));
        let all: f64 = rates.clone().sum();
        let mut cells = vec![format!("{:.1}", bin as f64 * width.as_nanos() as f64 / 1e9)];
        cells.extend(rates.chain([all]).map(|rate| format!("{rate:.2}")));
        table.rows.push(cells);
    }
    table
}
