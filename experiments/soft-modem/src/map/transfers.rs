//! File transfers, ten in each context and reservation: Tables 1 to 3 of the study.

use std::sync::Arc;

use punctual_model::{Duration, Reservation};
use punctual_sweep::sheet::{Sheet, Value};
use punctual_sweep::workers::Workers;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::study::TABLE_3;
use crate::call::Transferred;
use crate::virtual_time::contexts::Context;
use crate::virtual_time::driver::{Card, RING};
use crate::virtual_time::transfer::{Transfer, run};

/// Transfers of each kind.
pub const TRANSFERS: u64 = 10;

/// The time from dialling in which a transfer must be done: six times what it takes undisturbed.
const PATIENCE: Duration = Duration::from_secs(260);

/// One context, and the study's measurement in it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The context of the driver.
    pub context: Context,
    /// The study's mean, in milliseconds, and its number of successes out of ten.
    pub study: (Option<u64>, u64),
}

/// A modem on a card.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name in tables.
    pub name: &'static str,
    /// The title of its table.
    pub title: &'static str,
    /// The stem of its file.
    pub file: &'static str,
    /// Its name in `AT+MS`.
    pub modulation: &'static str,
    /// The behaviour of the card.
    pub card: Card,
    /// Bytes that take some 37 s of an undisturbed call, as the study's 200,000 did.
    pub bytes: usize,
}

/// The variants tried in each context.
pub const VARIANTS: [Variant; 3] = [
    Variant {
        name: "V.22bis, latch",
        title: "Ten transfers each: V.22bis, the card a latch",
        file: "transfers-v22bis-latch",
        modulation: "V22B",
        card: Card::Latch,
        bytes: 10_400,
    },
    Variant {
        name: "V.22bis, ring",
        title: "Ten transfers each: V.22bis, the card a ring",
        file: "transfers-v22bis-ring",
        modulation: "V22B",
        card: Card::Ring(RING),
        bytes: 10_400,
    },
    Variant {
        name: "V.21, latch",
        title: "Ten transfers each: V.21, the card a latch",
        file: "transfers-v21-latch",
        modulation: "V21",
        card: Card::Latch,
        bytes: 1_300,
    },
];

/// Returns Table 2 of the study, the thread that cannot dial (§6.2.6), and Table 3.
pub fn rows() -> Vec<Row> {
    let soft = |text: &str, mean, succeeded| {
        let reservation: Reservation = text.parse().expect("a row of the table");
        let context = Context::Reserved { reservation, soft: true };
        Row { context, study: (mean, succeeded) }
    };
    let row = |context, mean, succeeded| Row { context, study: (mean, succeeded) };
    let mut rows = vec![
        row(Context::Interrupt, Some(36_367), 10),
        row(Context::Deferred, Some(36_396), 10),
        row(Context::Ordinary { competitors: 0 }, Some(36_716), 10),
        row(Context::Ordinary { competitors: 1 }, None, 0),
        row(Context::RealTime, Some(36_384), 10),
        soft("2ms/16ms", Some(346_688), 2),
        soft("3ms/16ms", Some(103_789), 10),
        soft("1ms/8ms", None, 0),
        soft("2ms/8ms", Some(36_378), 10),
        soft("1ms/4ms", Some(36_345), 10),
    ];
    rows.extend(TABLE_3.iter().map(|measured| Row {
        context: Context::Reserved { reservation: measured.reservation(), soft: false },
        study: (measured.mean_ms, measured.succeeded),
    }));
    rows
}

/// The results of the transfers in one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The results in the order of [`VARIANTS`], each in the order of its transfers.
    pub variants: Vec<Vec<Transferred>>,
}

/// Makes all transfers with all threads. The result does not depend on their number.
pub fn transfer_all(rows: &[Row], transfers: u64, workers: &Workers) -> Vec<Found> {
    let tasks: Vec<(Row, Variant, u64)> = rows
        .iter()
        .flat_map(|row| VARIANTS.map(|variant| (*row, variant)))
        .flat_map(|(row, variant)| (0..transfers).map(move |at| (row, variant, at)))
        .collect();
    let done = workers.map("transfers", &tasks, |&(row, variant, at)| one(&row, &variant, at));
    let of_variants: Vec<Vec<Transferred>> =
        done.chunks(transfers as usize).map(<[Transferred]>::to_vec).collect();
    of_variants
        .chunks(VARIANTS.len())
        .map(|variants| Found { variants: variants.to_vec() })
        .collect()
}

/// Makes one transfer. Each context gets the same ten files, lines and phases.
fn one(row: &Row, variant: &Variant, at: u64) -> Transferred {
    let mut file = vec![0; variant.bytes];
    ChaCha8Rng::seed_from_u64(at).fill_bytes(&mut file);
    run(&Transfer {
        context: row.context,
        card: variant.card,
        modulation: variant.modulation,
        file: Arc::from(file),
        seed: at,
        patience: PATIENCE,
    })
}

/// Returns mean and standard deviation of the transfers that succeeded, to a millisecond, and their
/// number.
pub fn statistics(transfers: &[Transferred]) -> (Option<Duration>, Option<Duration>, usize) {
    let took: Vec<f64> =
        transfers.iter().filter_map(|one| one.took).map(|took| took.as_secs_f64()).collect();
    let count = took.len() as f64;
    let millis = |seconds: f64| Duration::from_millis((seconds * 1e3).round() as u64);
    let mean = took.iter().sum::<f64>() / count;
    let squares: f64 = took.iter().map(|one| (one - mean).powi(2)).sum();
    (
        (count >= 1.0).then(|| millis(mean)),
        (count >= 2.0).then(|| millis((squares / (count - 1.0)).sqrt())),
        took.len(),
    )
}

/// Returns the study's tables beside ours, one for each variant.
pub fn sheets(rows: &[Row], found: &[Found]) -> Vec<Sheet> {
    (0..VARIANTS.len()).map(|variant| sheet(rows, found, variant)).collect()
}

fn sheet(rows: &[Row], found: &[Found], variant: usize) -> Sheet {
    let row = |(row, found): (&Row, &Found)| {
        let (study_mean, study_succeeded) = row.study;
        let transfers = &found.variants[variant];
        let (mean, deviation, succeeded) = statistics(transfers);
        let nanos = |time: Option<Duration>| Value::Time(time.map(Duration::as_nanos));
        let lost: u64 = transfers.iter().map(|one| one.samples_lost).sum();
        let arrived: usize = transfers.iter().map(|one| one.arrived).sum();
        vec![
            Value::Text(row.context.name()),
            Value::Time(study_mean.map(|ms| ms * 1_000_000)),
            Value::Count(study_succeeded as usize),
            nanos(mean),
            nanos(deviation),
            Value::Count(succeeded),
            Value::Count(transfers.iter().filter(|one| one.connected).count()),
            Value::Count(arrived / transfers.len().max(1)),
            Value::Count((lost / transfers.len().max(1) as u64) as usize),
        ]
    };
    Sheet {
        name: VARIANTS[variant].file,
        columns: &[
            ("context", "driver runs as"),
            ("study_mean_ns", "study: mean"),
            ("study_succeeded", "of 10"),
            ("mean_ns", "ours: mean"),
            ("deviation_ns", "deviation"),
            ("succeeded", "succeeded"),
            ("connected", "connected"),
            ("bytes_arrived", "bytes arrived"),
            ("samples_lost", "samples lost"),
        ],
        rows: rows.iter().zip(found).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(millis: u64) -> Transferred {
        Transferred {
            took: Some(Duration::from_millis(millis)),
            connected: true,
            arrived: 1,
            samples_lost: 0,
        }
    }

    #[test]
    fn statistics_are_of_those_that_succeeded() {
        let failed = Transferred { took: None, ..took(0) };
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(statistics(&[took(1_000), failed, took(3_000)]), (ms(2_000), ms(1_414), 2));
        assert_eq!(statistics(&[took(7)]), (ms(7), None, 1));
        assert_eq!(statistics(&[failed]), (None, None, 0));
    }
}
