//! Ten thousand channels on one server, of two clients, because one may not have enough
//! descriptors.

use std::fs;

use punctual_linux::clock;
use punctual_model::Duration;

use crate::extent::Error;
use crate::lab::{Config, Lab};
use crate::role::{Level, Many, Opened, Role};
use crate::table::{Page, Table};

/// The number of channels of the first client, and then of the second.
const LEVELS: [&[u32]; 2] = [&[100, 1_000, 5_000], &[5_000]];

/// The longest wait for all channels of a client.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(lab: &Lab<'_>) -> Result<Page, Error> {
    let config = Config {
        cpu: "300ms/1s",
        per_packet: "5us",
        room: 16_384,
        ..Config::fragments("1gbit/s", 1)
    };
    let broker = lab.broker(&config)?;
    let listener = lab.listen(7_000)?;
    let folder = broker.socket();
    let folder = folder.parent().ok_or("a socket without a folder")?;
    let (mut clients, mut first) = (Vec::new(), 0);
    for levels in LEVELS {
        let ready = folder.join(format!("ready {first}"));
        let role = Many {
            socket: broker.socket(),
            server: broker.process.pid(),
            to: lab.port(7_000),
            first,
            levels: levels.to_vec(),
            ready: ready.clone(),
            go: folder.join("go"),
        };
        clients.push(lab.start(&Role::Many(role))?);
        first += levels.last().copied().unwrap_or(0);
        let until = clock::now() + PATIENCE;
        while !ready.exists() {
            if clock::now() > until {
                return Err("a client does not open its channels".into());
            }
            clock::sleep(Duration::from_millis(20));
        }
    }
    fs::write(folder.join("go"), "")?;
    let mut all: Vec<Opened> = Vec::new();
    for client in clients {
        all.push(client.report(PATIENCE)?);
    }
    clock::sleep(Duration::from_millis(50));
    let heard = listener.received()?;
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
        "What a channel takes, on average: of the server over all that are open, of the client that opened last \
         over its own; a queue has 8 messages of 64 bytes",
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
    let nothing = all.first().ok_or("no client")?.nothing[0];
    let mut others = 0;
    for opened in &all {
        for level in &opened.levels {
            let open = others + level.channels;
            times.row(latencies(open, level));
            let mut cells = vec![open.to_string()];
            let server = (level.held[0], nothing, open);
            let client = (level.held[1], opened.nothing[1], level.channels);
            for (now, before, channels) in [server, client] {
                let each = |now: u64, before: u64| {
                    now.saturating_sub(before) as f64 / f64::from(channels.max(1))
                };
                cells.push(format!("{:.2}", each(now.resident_kb, before.resident_kb)));
                cells.push(format!("{:.2}", each(now.mappings, before.mappings)));
                cells.push(format!("{:.2}", each(now.descriptors, before.descriptors)));
            }
            held.row(cells);
        }
        others += opened.levels.last().map_or(0, |level| level.channels);
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
    let stopped = all.iter().find_map(|one| one.stopped.clone());
    let stopped = stopped.unwrap_or_else(|| "nothing".into());
    sent.row(vec![
        all.iter().map(|one| one.left).sum::<u64>().to_string(),
        heard.len().to_string(),
        numbers.len().to_string(),
        stopped,
    ]);
    Ok(Page::new("many", vec![times, held, sent]))
}

fn latencies(open: u32, level: &Level) -> Vec<String> {
    let mut cells = vec![open.to_string()];
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
