//! Garbage in the table that processes share, while several of them run.

use std::fs;
use std::os::unix::fs::FileExt as _;

use punctual_linux::{clock, shm};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::host::{Actor, beside_another, lost_nothing, millis};

/// The periods of the three processes, in milliseconds.
const PERIODS: [u64; 3] = [5, 10, 40];

#[test]
fn three_processes_complete_all_their_jobs_amid_garbage() {
    beside_another(|machine| {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..4 {
            let mut actors = PERIODS.map(|ms| Actor::with(&format!("catch_up counts {ms}")));
            let table = fs::File::options().write(true).open(shm::path("releases"));
            let table = table.expect("shared by all");
            let size = table.metadata().expect("open").len();
            let until = clock::now() + millis(150);
            while clock::now() < until {
                // Everywhere, including over what the processes wrote.
                for _ in 0..size / 64 {
                    let at = rng.random_range(0..size / 8) * 8;
                    table.write_all_at(&rng.random::<u64>().to_ne_bytes(), at).expect("writes");
                }
                clock::sleep(millis(1));
            }
            for (actor, period) in actors.iter_mut().zip(PERIODS) {
                actor.goes_on(0);
                lost_nothing(&actor.numbers("stop"), period, machine);
            }
            // The leftovers confuse no later process, and are removed with the last one.
        }
    });
}
