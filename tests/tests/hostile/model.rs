//! Drawn attacks with a few seeds (`tests/src/hostile/model`).

use punctual_model::Duration;
use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::model::{Bounds, Round};

use crate::alone;

/// Returns the seeds. `HOSTILE_SEED` replays one seed, and `HOSTILE_WITHOUT` leaves out kinds of
/// action.
fn seeds() -> Vec<u64> {
    match std::env::var("HOSTILE_SEED").map(|text| text.parse()) {
        Ok(seed) => vec![seed.expect("HOSTILE_SEED is a number")],
        Err(_) => (1..=3).collect(),
    }
}

#[test]
fn honest_clients_are_served_whatever_others_do() {
    let Some(_alone) = alone() else { return };
    for seed in seeds() {
        let Some(broker) = Broker::start_with_subordinate_users(CONFIG) else { return };
        let before = broker.holds_with_no_client();
        let round = Round {
            seed,
            length: Duration::from_secs(10),
            users: 3,
            without: std::env::var("HOSTILE_WITHOUT").unwrap_or_default(),
            bounds: Bounds::FUNCTIONAL,
        };
        match round.run(&broker, before) {
            Ok(seen) => println!("seed {seed}: {seen:?}"),
            Err(broken) => panic!("{}", broken.why),
        }
    }
}
