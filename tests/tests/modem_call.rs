//! The modem call in virtual time: the same driver as live, the same bytes on each run.

use std::sync::Arc;

use modem_call::replay::{call, run};
use modem_call::{Options, PICTURE, reservation};
use punctual_model::{Duration, Reservation};
use punctual_sim::cpu::Supply;

fn options(seed: u64) -> Options {
    Options {
        file: Arc::from(PICTURE),
        seed,
        length: Duration::from_secs(28),
        competitors_per_cpu: 16,
    }
}

fn reserved(text: &str) -> Supply {
    Supply::Reserved(text.parse::<Reservation>().expect("valid"))
}

#[test]
fn a_sufficient_reservation_delivers_the_file_intact() {
    // Those of Table 3 of the study that worked, all of them hard.
    for text in ["2ms/13ms", "3ms/15ms", "4ms/16ms", "8ms/20ms", "2ms/8ms", "1ms/4ms"] {
        let (row, file) = call(text.into(), reserved(text), &options(1)).expect("runs");
        assert_eq!(file, PICTURE, "{text}");
        assert_eq!((row.samples_lost, row.lines_delivering), (0, 4), "{text}");
    }
}

#[test]
fn a_reservation_below_the_need_breaks_the_call() {
    // 1.84 ms every 12.5 ms is 14.7 %; these give less.
    for text in ["1ms/8ms", "2ms/15ms", "2ms/16ms"] {
        let (row, file) = call(text.into(), reserved(text), &options(1)).expect("runs");
        assert_ne!(file, PICTURE, "{text}");
        assert!(row.samples_lost > 0 && row.bytes_intact < PICTURE.len(), "{text}: {row:?}");
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
    for supply in [Supply::Reserved(reservation()), reserved("2ms/15ms")] {
        let once = call("once".into(), supply, &options(7)).expect("runs");
        let again = call("once".into(), supply, &options(7)).expect("runs");
        assert_eq!(format!("{:?}", once.0), format!("{:?}", again.0));
        assert_eq!(once.1, again.1);
    }
}
