//! A process that holds a place in the shared table, as any process does, and writes anything
//! there.

use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use punctual_linux::process::die_with_parent;
use punctual_linux::{clock, shm};
use punctual_model::{Duration, Instant};
use punctual_ring::releases::{Entry, Releases, SLOTS, WORDS};
use punctual_runtime::level_order::RUNNING;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::harness::table_of;

/// The environment variable with its role: `parent until_ns`.
const ROLE: &str = "PUNCTUAL_TEST_HOSTILE_ROLE";

/// The words of a place: its entries, which come first in the table after one word, and one
/// ownership lease.
const ENTRIES: usize = (WORDS - 1) / SLOTS - 1;

/// Starts a hostile process, which ends by itself at `until`. It prints a line when it has its
/// place, and exits successfully if it held the place alone all the time.
pub(crate) fn hostile(until: Instant) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    let role = format!("{} {}", std::process::id(), until.as_nanos());
    command.args(["--exact", "hostile_process", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped());
    die_with_parent(&mut command);
    command.spawn().expect("this program")
}

pub(crate) fn play() {
    let Ok(role) = env::var(ROLE) else { return };
    let (parent, until) = role.split_once(' ').expect("two numbers");
    let table = shm::path(&table_of(parent.parse().expect("a number")));
    let until = Instant::from_nanos(until.parse().expect("a number"));
    let shared = shm::Shared::join(&table, WORDS, SLOTS).expect("there is room");
    let (place, words) = (shared.place(), shared.words());
    let releases = Releases::new(words);
    releases.begin(place);
    println!("\nholds place {place}");
    let reins = 1 + ENTRIES * SLOTS + place;
    let own = (1 + ENTRIES * place..).take(ENTRIES).chain([reins]);
    let own: Vec<usize> = own.collect();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    while clock::now() < until {
        if rng.random() {
            own.iter().for_each(|at| words[*at].store(rng.random(), Ordering::Relaxed));
        } else {
            // It claims to wait above all others, since long ago or from just now on.
            let from = if rng.random() { 1 } else { clock::now().as_nanos() };
            let urgent = Some(Entry { level: RUNNING - rng.random_range(0..3), from });
            releases.publish(place, urgent, [urgent; 3]);
            words[reins].store(rng.random(), Ordering::Relaxed);
        }
        clock::sleep(Duration::from_micros(300));
    }
}
