//! The amount that a client can make the broker log must be bounded.

use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::person::{FIRST_USER, Person};

use crate::alone;

const SECONDS: u64 = 4;

/// A generous bound on the lines that one client may cause in a second.
const LINES_A_SECOND: usize = 100;

#[test]
fn one_client_cannot_fill_the_log() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let before = broker.log().lines().count();
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    let rounds = attacker.ask(&format!("chatter {SECONDS}"));
    let lines = broker.log().lines().count() - before;
    println!("{lines} lines in {SECONDS} s, by {rounds}");
    assert!(lines < LINES_A_SECOND * SECONDS as usize, "{lines} lines in {SECONDS} s");
}
