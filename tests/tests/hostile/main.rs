//! Hostile clients against a live broker, each a process of an ordinary user.
//!
//! Without root privileges the tests print that and check nothing. They check that other clients
//! are served, within bounds that are exceeded only if a client holds them up; `make soak` checks
//! how fast (docs/hostile.md).

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

/// Serialises the tests: they share the kernel's bandwidth.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps other tests out. Returns `None` if this host cannot run a broker.
fn alone() -> Option<MutexGuard<'static, ()>> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    hostile::possible().then_some(guard)
}

/// Plays the role of another process; not a test.
#[test]
fn other_process() {
    hostile::play();
}
