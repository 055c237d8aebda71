//! SIGSTOP and SIGCONT of one process and of all: releases stay on their grid, and no burst exceeds
//! the overrun policy. This is the nearest to a suspended host, on which CLOCK_MONOTONIC stands
//! still as well.

use punctual_linux::clock;
use punctual_linux::process::Signal;

use crate::host::{Actor, beside_another, eventually, lost_nothing, millis};

const STOPS: u64 = 6;

/// How long a process is stopped, in milliseconds: longer than its period of 10 ms.
const STOPPED: u64 = 60;

#[test]
fn a_stopped_process_keeps_its_phase_and_catches_up_or_skips_by_its_policy() {
    beside_another(|machine| {
        let mut catches_up = Actor::with("catch_up counts 10");
        let mut skips = Actor::with("skip counts 10");
        for _ in 0..STOPS {
            for actor in [&catches_up, &skips] {
                actor.halt();
            }
            clock::sleep(millis(STOPPED));
            for actor in [&mut catches_up, &mut skips] {
                actor.signal(Signal::CONT);
                actor.goes_on(0);
            }
        }
        // Until it has caught up with all releases during the stop.
        let stopped = STOPS * STOPPED / 10;
        eventually("it catches up", || catches_up.numbers("jobs")[0] >= stopped + 4 * STOPS);
        let [caught_up, skipped] = [catches_up.numbers("stop"), skips.numbers("stop")];
        lost_nothing(&caught_up, 10, machine);
        assert_eq!((skipped[1], skipped[3]), (0, 0), "twice, off the grid: {skipped:?}");
        // At least the releases well inside each stop.
        assert!(skipped[2] >= STOPS * (STOPPED / 10 - 2), "passed over: {skipped:?}");
    });
}

#[test]
fn all_stopped_at_once_go_on_without_a_burst() {
    beside_another(|_| {
        let all = ["catch_up", "skip", "abort", "demote"];
        let since = clock::now();
        let mut actors = all.map(|policy| Actor::with(&format!("{policy} counts 10")));
        for _ in 0..STOPS {
            actors.iter().for_each(Actor::halt);
            clock::sleep(millis(STOPPED));
            actors.iter().for_each(|actor| actor.signal(Signal::CONT));
            actors.iter_mut().for_each(|actor| actor.goes_on(0));
        }
        for (policy, actor) in all.iter().zip(&mut actors) {
            let account = actor.numbers("stop");
            // Including the release at the start.
            let released = clock::now().saturating_since(since) / millis(10) + 1;
            let passed_over = if *policy == "skip" { STOPS * (STOPPED / 10 - 2) } else { 0 };
            assert!(account[0] + passed_over <= released, "{policy}: {account:?} of {released}");
            assert_eq!((account[1], account[3]), (0, 0), "{policy}: twice, off the grid");
        }
    });
}
