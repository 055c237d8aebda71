//! Ten thousand channels on one server.

use punctual_linux::clock;
use punctual_model::Duration;

use crate::Error;
use crate::lab::{Config, Lab};
use crate::role::{Level, Opened, Role};
use crate::table::{Page, Table};

const LEVELS: [u32; 3] = [100, 1_000, 10_000];

pub(crate) fn measure(lab: &Lab<'_>) -> Result<Page, Error> {
    let config =
        Config { cpu: "300ms/1s", per_packet: "5us", room: 16_384, ..Config::datagrams("1gbit/s") };
    let broker = lab.broker(&config)?;
    let listener = lab.listen(7_000)?;
    let role = Role::Many {
        socket: broker.socket(),
        server: broker.process.pid(),
        to: lab.port(7_000),
        levels: LEVELS.to_vec(),
    };
    let opened: Opened = lab.start(&role)?.report(Duration::from_secs(300))?;
    clock::sleep(Duration::from_millis(50));
    let heard = listener.heard()?;
    let mut numbers: Vec<u32> = heard.iter().filter_map(|one| Some(one.stamp?.of)).collect();
    numbers.sort_unstable();
    numbers.dedup();

    let mut times = Table::new(
        "Round trips of the client, of the channels opened since the row above",
        &[
            "channels",
            "open, µs: p50",
            "p99",
            "most",
            "attach, µs: p50",
            "p99",
            "most",
            "making the queue, µs: p50",
        ],
    );
    let mut held = Table::new(
        "What a channel takes, on average over all that are open; its queue has 8 messages of 64 bytes",
        &[
            "channels",
            "server: resident KB",
            "mappings",
            "descriptors",
            "client: resident KB",
            "mappings",
            "descriptors",
        ],
    );
    for level in &opened.levels {
        times.row(latencies(level));
        let mut cells = vec![level.channels.to_string()];
        for (now, before) in level.held.iter().zip(&opened.nothing) {
            let each = |now: u64, before: u64| {
                now.saturating_sub(before) as f64 / f64::from(level.channels.max(1))
            };
            cells.push(format!("{:.2}", each(now.resident_kb, before.resident_kb)));
            cells.push(format!("{:.2}", each(now.mappings, before.mappings)));
            cells.push(format!("{:.2}", each(now.descriptors, before.descriptors)));
        }
        held.row(cells);
    }
    let mut sent = Table::new(
        "One message on each",
        &[
            "left in time",
            "arrived",
            "of different channels",
            "what stopped it before all were open",
        ],
    );
    let stopped = opened.stopped.unwrap_or_else(|| "nothing".into());
    sent.row(vec![
        opened.left.to_string(),
        heard.len().to_string(),
        numbers.len().to_string(),
        stopped,
    ]);
    Ok(Page::new("many", vec![times, held, sent]))
}

fn latencies(level: &Level) -> Vec<String> {
    let mut cells = vec![level.channels.to_string()];
    let part = |of: &[u64], part: f64| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
        format!("{:.0}", sorted.get(at).copied().unwrap_or(0) as f64 / 1e3)
    };
    for times in [&level.open_ns, &level.attach_ns] {
        cells.extend([0.5, 0.99, 1.0].map(|of| part(times, of)));
    }
    cells.push(part(&level.queue_ns, 0.5));
    cells
}
