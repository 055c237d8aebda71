//! The study in virtual time gives the kept results, with any number of threads.

use crc::{CRC_64_XZ, Crc};
use punctual_model::Duration;
use punctual_sweep::workers::Workers;
use soft_modem::map::SHORTEST;
use soft_modem::map::judge::{Class, Served};
use soft_modem::map::plane::{CARDS, Column, Grid, judge_all};
use soft_modem::map::tables::{Agreement, TwelvePoints, agreement, edges, summary, whole};
use soft_modem::map::transfers;

/// Every whole millisecond up to a little beyond the study's longest.
const COARSE: Grid = Grid {
    step: Duration::from_millis(1),
    shortest: Duration::from_millis(1),
    longest: Duration::from_millis(24),
};

/// The grid of the page.
const FINE: Grid = Grid {
    step: Duration::from_micros(250),
    shortest: SHORTEST,
    longest: Duration::from_millis(40),
};

/// The part of the page's grid with both of the study's lines and most of its points.
const BORDER: Grid =
    Grid { shortest: Duration::from_millis(12), longest: Duration::from_millis(18), ..FINE };

/// The CRC-64/XZ of the table of its reservations.
const BORDER_DIGEST: u64 = 0x807b_1ac3_9767_6c46;

/// The same of the whole grid, whose table is too long to be kept.
const FINE_DIGEST: u64 = 0xe5bd_54e2_c795_1a4d;

fn coarse(threads: usize) -> Vec<Column> {
    judge_all(&COARSE, &Workers::new(threads))
}

/// Reads a kept file: `soft-modem map --out results/virtual` makes them, with `--step 1ms --longest
/// 24ms` into `results/virtual/coarse`.
fn kept(name: &str) -> String {
    let path = format!("{}/results/virtual/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn csv(sheet: punctual_sweep::sheet::Sheet) -> String {
    String::from_utf8(sheet.to_csv()).expect("CSV of numbers is text")
}

#[test]
fn the_coarse_map_is_the_kept_one_with_one_thread_and_with_two() {
    let kept = kept("coarse/reservation-map.csv");
    for threads in [1, 2] {
        assert_eq!(csv(whole(&coarse(threads))), kept, "{threads} threads");
    }
}

fn all_threads() -> Workers {
    Workers::new(std::thread::available_parallelism().map_or(1, |threads| threads.get()))
}

fn digest(plane: &[Column]) -> u64 {
    Crc::<u64>::new(&CRC_64_XZ).checksum(csv(whole(plane)).as_bytes())
}

#[test]
fn the_fine_map_at_the_border_is_the_kept_one() {
    let border = judge_all(&BORDER, &all_threads());
    let (edges, kept) = (csv(edges(&border)), kept("reservation-map-edges.csv"));
    for row in edges.lines() {
        assert!(kept.lines().any(|one| one == row), "{row}");
    }
    assert_eq!(digest(&border), BORDER_DIGEST, "{:#018x}", digest(&border));
}

#[test]
#[ignore = "half a minute of processor time"]
fn the_fine_map_is_the_kept_one() {
    let fine = judge_all(&FINE, &all_threads());
    assert_eq!(csv(edges(&fine)), kept("reservation-map-edges.csv"));
    let found = summary(&fine, &TwelvePoints::judge());
    assert_eq!(csv(found), kept("reservation-map-summary.csv"));
    assert_eq!(digest(&fine), FINE_DIGEST, "{:#018x}", digest(&fine));
}

#[test]
fn the_table_is_the_kept_one() {
    assert_eq!(csv(TwelvePoints::judge().sheet()), kept("table-3.csv"));
}

#[test]
fn at_a_fixed_place_simulation_and_proof_draw_the_same_border() {
    let plane = coarse(2);
    for (card, (.., name)) in CARDS.iter().enumerate() {
        for (served, how) in Served::ALL.iter().enumerate() {
            let found = agreement(&plane, card, served);
            assert_eq!(found.contradictions, 0, "{name}, {how:?}: {found:?}");
            if *how == Served::Fixed {
                assert_eq!(found.unproven, 0, "{name}: {found:?}");
                assert_eq!(found.sufficient, found.proven);
            }
        }
    }
    assert_ne!(agreement(&plane, 0, 0), Agreement::default());
    // The table of edges belongs to the same plane.
    assert_eq!(edges(&plane).rows.len(), plane.len());
}

/// RSV-01: all points but 1/7 are on the study's side, if its driver is a latch.
#[test]
fn eleven_of_the_twelve_points_are_on_the_studys_side() {
    let points = TwelvePoints::judge();
    let (latch, fixed) = (0, 0);
    assert_eq!(points.on_the_same_side(latch, fixed), 11);
    for (measured, point) in points.rows() {
        let found = point.cards[latch].verdicts[fixed].class() == Class::Sufficient;
        let is_odd = (measured.budget_ms, measured.period_ms) == (1, 7);
        let expected = measured.class == Class::Sufficient && !is_odd;
        assert_eq!(found, expected, "{measured:?}");
    }
}

/// Real modems end to end: the results depend on the seeds, but not on the number of threads.
#[test]
fn transfers_are_the_same_with_one_thread_and_with_two() {
    let name = "RES 7ms/20ms hard";
    let mut rows = transfers::rows();
    rows.retain(|row| row.context.name() == name);
    assert_eq!(rows.len(), 1);
    let [once, again] =
        [1, 2].map(|threads| transfers::transfer_all(&rows, 4, &Workers::new(threads)));
    assert_eq!(once, again);
    // The ring tolerates such gaps and loses no sample.
    let ring = &once[0].variants[1];
    assert!(ring.iter().all(|one| one.took.is_some() && one.samples_lost == 0), "{ring:?}");
}
