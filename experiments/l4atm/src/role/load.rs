//! Local load, all of it ordinary processes.

use std::hint::black_box;
use std::process::{Command, Stdio};

use punctual_linux::clock;
use serde::{Deserialize, Serialize};

use crate::Error;

/// How long a fixed amount of work took.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Worked {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
}

pub(super) fn spin() -> Result<(), Error> {
    let mut state = 1;
    loop {
        state = black_box(turn(state));
    }
}

/// Forks, executes and exits, faults pages and does a little work, like a build.
pub(super) fn fork() -> Result<(), Error> {
    loop {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn()?.wait()?;
        black_box(work(50_000));
    }
}

pub(super) fn work(rounds: u64) -> Worked {
    let (began, cpu) = (clock::now(), clock::thread_cpu_time());
    let mut state = 1;
    for _ in 0..rounds {
        state = black_box(turn(state));
    }
    let cpu = clock::thread_cpu_time() - cpu;
    Worked { wall_ns: clock::now().saturating_since(began).as_nanos(), cpu_ns: cpu.as_nanos() }
}

/// Takes a few cycles that no compiler removes.
fn turn(state: u64) -> u64 {
    (state ^ (state << 13)).rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
