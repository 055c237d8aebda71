//! The result of each transfer, line by line in `transfers.csv`; and the state of the machine in
//! `transfers.txt`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use punctual_model::Duration;
use punctual_sweep::sheet::{Sheet, Value};
use serde::{Deserialize, Serialize};

use super::super::Error;
use super::super::library::Served;
use super::super::library::modems::MODEMS;
use super::super::library::report::whole;
use super::at;
use crate::call::Transferred;
use crate::map::transfers::statistics;

/// The name of the file.
pub const FILE: &str = "transfers.csv";

/// The result of one file on one modem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The context of the driver.
    pub context: String,
    /// The modem.
    pub modem: String,
    /// The seed of file and noise.
    pub seed: u64,
    /// The time from the start to CONNECT.
    pub connected_ns: Option<u64>,
    /// The time from CONNECT to the last byte, if all arrived correctly.
    pub took_ns: Option<u64>,
    /// Bytes that arrived, right or wrong.
    pub arrived: usize,
    /// Bytes of the file.
    pub bytes: usize,
    /// Samples that the driver never took.
    pub samples_lost: u64,
    /// Samples played twice because no answer was there in time.
    pub stale_samples: u64,
    /// The largest number of samples that waited; 512 wrap the ring.
    pub most_pending: u64,
    /// Processor time that a hypervisor took from all CPUs meanwhile.
    pub stolen_ms: Option<u64>,
}

/// Returns the rows of one call.
pub fn rows(
    context: &str,
    seed: u64,
    served: &Served,
    stolen: Option<Duration>,
) -> impl Iterator<Item = Row> {
    served.lines.iter().zip(MODEMS).map(move |(line, modem)| Row {
        context: context.to_owned(),
        modem: modem.name.to_owned(),
        seed,
        connected_ns: line.connected_after.map(|after| after.as_nanos()),
        took_ns: line.transferred.took.map(|took| took.as_nanos()),
        arrived: line.transferred.arrived,
        bytes: modem.bytes,
        samples_lost: line.card.samples_lost,
        stale_samples: line.card.stale_samples,
        most_pending: line.card.most_pending,
        stolen_ms: stolen.map(|stolen| stolen.as_nanos() / 1_000_000),
    })
}

/// Appends rows to the file in that folder, and `state` to the description of the machine.
pub fn add(folder: &Path, state: &str, rows: &[Row]) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(at(folder.to_owned()))?;
    let path = folder.join(FILE);
    let mut writer = csv::WriterBuilder::new().has_headers(!path.exists()).from_writer(Vec::new());
    for row in rows {
        // Written to memory, and every row has the same fields: it cannot fail.
        writer.serialize(row).expect("a row can be written");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    for (path, bytes) in [(path, &bytes[..]), (folder.join("transfers.txt"), state.as_bytes())] {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).map_err(at(path))?;
    }
    Ok(())
}

/// Reads all rows in that folder.
pub fn read(folder: &Path) -> Result<Vec<Row>, Error> {
    let path = folder.join(FILE);
    let rows = csv::Reader::from_path(&path).and_then(|mut reader| reader.deserialize().collect());
    rows.map_err(|why: csv::Error| Error::Kept { path, why: why.to_string() })
}

/// Returns a table of the contexts in the order in which they were run first, each with the modems
/// of the library.
pub fn sheet(rows: &[Row]) -> Sheet {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let pair = (row.context.as_str(), row.modem.as_str());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    // Parts of a study may have come in any order; the rows of a context stay together.
    let first = |context: &str| pairs.iter().position(|(one, _)| *one == context);
    let mut sorted = pairs.clone();
    sorted.sort_by_key(|(context, _)| first(context));
    Sheet {
        name: "live-transfers",
        columns: &[
            ("context", "driver runs as"),
            ("modem", "modem"),
            ("calls", "calls"),
            ("connected", "connected"),
            ("succeeded", "succeeded"),
            ("mean_ms", "mean, ms"),
            ("deviation_ms", "deviation"),
            ("bytes_arrived", "bytes came, mean"),
            ("bytes", "of"),
            ("samples_lost", "samples lost, mean"),
            ("most_pending", "most pending"),
        ],
        rows: sorted.iter().map(|&(context, modem)| line(rows, context, modem)).collect(),
    }
}

fn line(rows: &[Row], context: &str, modem: &str) -> Vec<Value> {
    let own: Vec<&Row> =
        rows.iter().filter(|row| row.context == context && row.modem == modem).collect();
    let transfers: Vec<Transferred> = own
        .iter()
        .map(|row| Transferred {
            took: row.took_ns.map(Duration::from_nanos),
            connected: row.connected_ns.is_some(),
            arrived: row.arrived,
            samples_lost: row.samples_lost,
        })
        .collect();
    let (mean, deviation, succeeded) = statistics(&transfers);
    let millis = |time: Option<Duration>| whole(time.map(|time| time.as_nanos() / 1_000_000));
    let calls = own.len().max(1);
    vec![
        Value::Text(context.to_owned()),
        Value::Text(modem.to_owned()),
        Value::Count(own.len()),
        Value::Count(transfers.iter().filter(|one| one.connected).count()),
        Value::Count(succeeded),
        millis(mean),
        millis(deviation),
        Value::Count(transfers.iter().map(|one| one.arrived).sum::<usize>() / calls),
        Value::Count(own.first().map_or(0, |row| row.bytes)),
        whole(Some(own.iter().map(|row| row.samples_lost).sum::<u64>() / calls as u64)),
        whole(own.iter().map(|row| row.most_pending).max()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(context: &str, modem: &str, seed: u64, took_ns: Option<u64>) -> Row {
        Row {
            context: context.into(),
            modem: modem.into(),
            seed,
            connected_ns: Some(5_000_000_000),
            took_ns,
            arrived: 100,
            bytes: 200,
            samples_lost: 10 * seed,
            stale_samples: 0,
            most_pending: seed,
            stolen_ms: None,
        }
    }

    #[test]
    fn pieces_of_a_study_come_together() {
        let folder = std::env::temp_dir().join(format!("punctual-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let pieces = [
            vec![row("A", "V.21", 1, Some(3_000_000_000)), row("A", "V.23", 1, None)],
            vec![row("B", "V.21", 1, None)],
            vec![row("A", "V.21", 2, Some(1_000_000_000)), row("A", "V.23", 2, None)],
        ];
        for piece in &pieces {
            add(&folder, "idle\n", piece).expect("it can be written");
        }
        let read = read(&folder);
        let said = fs::read_to_string(folder.join("transfers.txt"));
        fs::remove_dir_all(&folder).expect("it was made here");
        let rows = read.expect("it was written");
        assert_eq!(rows, pieces.concat());
        assert_eq!(said.expect("it was written"), "idle\n".repeat(3));
        let sheet = sheet(&rows);
        let text: Vec<Vec<String>> =
            sheet.rows.iter().map(|row| row.iter().map(Value::to_text).collect()).collect();
        let expected = [
            "A V.21 2 2 2 2000 1414 100 200 15 2",
            "A V.23 2 2 0 - - 100 200 15 2",
            "B V.21 1 1 0 - - 100 200 10 1",
        ];
        assert_eq!(
            text,
            expected.map(|line| line.split(' ').map(String::from).collect::<Vec<_>>())
        );
    }
}
