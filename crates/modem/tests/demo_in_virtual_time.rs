//! The modem call in virtual time: the same driver as live, the same bytes on each run.

use std::sync::Arc;

use punctual_model::{Duration, Reservation};
use punctual_modem::demo::replay::{call, run};
use punctual_modem::demo::{Options, PICTURE};
use punctual_sim::cpu::Supply;

fn options(seed: u64) -> Options {
    Options {
        file: Arc::from(PICTURE),
        seed,
        length: Duration::from_secs(28),
        competitors_per_cpu: 16,
    }
}

fn reservation_of(text: &str) -> Reservation {
    text.parse().expect("valid")
}

/// RSV-01 of the published answers: the twelve reservations of Table 3 of the study, all hard, for
/// a modem that needs 1.84 ms every 12.5 ms, with the study's result and ours.
///
/// Where the results differ, the reason is one of two, both known:
/// - The study's driver lost data when one period's work was not done before the next ("latch"), so
///   gaps of more than 12.5 ms hurt. Our card has the ring of 512 samples (64 ms) that the study's
///   hardware had, and our signal processing catches up. So 3/17, 4/17 and 7/20 suffice here, and
///   the two marginal ones are plainly enough.
/// - 1/7 is 14.3 %, below the 14.7 % charged. The study's model says that it should fail, too, and
///   calls its success unexplained; here the model is exact.
const TABLE_3: [(&str, &str, bool); 12] = [
    ("1ms/7ms", "sufficient", false),
    ("1ms/8ms", "insufficient", false),
    ("2ms/13ms", "sufficient", true),
    ("2ms/14ms", "marginal", false),
    ("2ms/15ms", "insufficient", false),
    ("3ms/15ms", "sufficient", true),
    ("3ms/16ms", "marginal", true),
    ("3ms/17ms", "insufficient", true),
    ("4ms/16ms", "sufficient", true),
    ("4ms/17ms", "insufficient", true),
    ("7ms/20ms", "insufficient", true),
    ("8ms/20ms", "sufficient", true),
];

#[test]
fn table_3_served_as_early_and_as_late_as_a_reservation_may_be() {
    for (text, in_the_study, intact) in TABLE_3 {
        let reservation = reservation_of(text);
        for supply in [Supply::Reserved(reservation), Supply::ReservedLate(reservation)] {
            let (row, file) = call(text.into(), supply, &options(1)).expect("runs");
            let context = format!("{text}, {in_the_study} in the study, {supply:?}: {row:?}");
            assert_eq!(file == PICTURE, intact, "{context}");
            assert_eq!(row.samples_lost == 0, intact, "{context}");
            // Only the size of the reservation against the need decides here.
            assert_eq!(reservation.utilisation_ppm() >= 147_200, intact, "{context}");
        }
    }
}

#[test]
fn the_powers_of_two_of_tables_1_and_2() {
    for (text, intact) in [
        ("2ms/16ms", false),
        ("3ms/16ms", true),
        ("1ms/8ms", false),
        ("2ms/8ms", true),
        ("1ms/4ms", true),
    ] {
        let supply = Supply::ReservedLate(reservation_of(text));
        let (row, file) = call(text.into(), supply, &options(1)).expect("runs");
        assert_eq!(file == PICTURE, intact, "{text}: {row:?}");
    }
}

#[test]
fn an_ordinary_thread_among_competitors_loses_the_call_and_an_upcall_does_not() {
    let report = run(&options(1)).expect("runs");
    let [ordinary, upcall, reservation, too_little] = &report.rows[..] else {
        panic!("four contexts")
    };
    assert!(ordinary.samples_lost > 0 && ordinary.late_jobs > 0);
    assert!(ordinary.bytes_intact < PICTURE.len());
    for kept in [upcall, reservation] {
        assert_eq!((kept.samples_lost, kept.late_jobs), (0, 0), "{kept:?}");
        assert_eq!(kept.bytes_intact, PICTURE.len());
        assert!(kept.most_samples_pending < 512);
    }
    assert!(too_little.samples_lost > 0);
}

#[test]
fn a_seed_replays_the_call_byte_for_byte() {
    for supply in
        [Supply::Reserved(reservation_of("2ms/8ms")), Supply::Reserved(reservation_of("2ms/15ms"))]
    {
        let once = call("once".into(), supply, &options(7)).expect("runs");
        let again = call("once".into(), supply, &options(7)).expect("runs");
        assert_eq!(format!("{:?}", once.0), format!("{:?}", again.0));
        assert_eq!(once.1, again.1);
    }
}
