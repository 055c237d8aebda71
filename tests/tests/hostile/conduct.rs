//! Clients that use what they are no longer entitled to.

use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::person::{FIRST_USER, Person};
use system_tests::live;

use crate::alone;

/// The granted share, in parts per million of a CPU.
const GRANTED_PPM: u64 = 75_000;

const SECONDS: u64 = 14;

/// The debt after three windows of overuse in a row, at which a grant is revoked, and as much again
/// because the broker comes late on a busy host.
const DEBT_MS: u64 = 4_500;

/// The distribution of the excess over windows does not matter.
#[test]
fn rest_in_every_third_window_does_not_pay_for_overuse_in_the_two_before() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    let used_ms: u64 = attacker
        .ask(&format!("overuse {GRANTED_PPM} {SECONDS}"))
        .parse()
        .expect("a number of milliseconds");
    let granted_ms = SECONDS * GRANTED_PPM / 1_000;
    println!("{used_ms} ms used in real time, of {granted_ms} ms granted in {SECONDS} s");
    assert!(used_ms < granted_ms + DEBT_MS, "{used_ms} ms of {granted_ms} ms");
}

/// The thread is in SCHED_DEADLINE when upcalls are requested for it, which the kernel refuses.
#[test]
fn a_thread_that_stays_in_a_reservation_that_ended_takes_nothing_from_others_for_ever() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let before = broker.holds_with_no_client().granted_ppm;
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    let answer = attacker.ask("renege 50000");
    println!("{answer}");
    attacker.kill();
    let granted = || broker.status().totals.granted_ppm;
    assert!(live::eventually(|| granted() == before), "{} ppm, before {before}", granted());
}
