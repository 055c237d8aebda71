//! Hostile clients against a live broker, each a process of an ordinary user.
//!
//! Without root's rights the tests say so and check nothing. They check that others are served, within
//! bounds that only a client that holds them up exceeds; `make soak` checks how fast
//! (docs/hostile.md).

mod channels;
mod conduct;
mod cuts;
mod freezes;
mod kills;
mod logs;
mod model;
mod one_person;

use std::sync::{Mutex, MutexGuard, PoisonError};

use system_tests::hostile;

/// One at a time: they share the kernel's bandwidth.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps other tests away; `None` where this host lets no broker run.
fn alone() -> Option<MutexGuard<'static, ()>> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    hostile::possible().then_some(guard)
}

/// Not a test: what the other processes do.
#[test]
fn other_process() {
    hostile::play();
}
