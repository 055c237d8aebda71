//! SIGSTOP and SIGCONT of one and of all: releases stay on their grid, and nothing bursts beyond the
//! overrun policy. The nearest to a suspended host, for whom CLOCK_MONOTONIC stands still as well.

use punctual_linux::clock;
use punctual_linux::process::Signal;

use crate::host::{Actor, beside_another, eventually, lost_nothing, millis};

const STOPS: u64 = 6;

/// Of a period of 10 ms, while stopped for longer than that.
const STOPPED: u64 = 60;

#[test]
fn a_stopped_one_keeps_its_phase_and_catches_up_or_skips_by_its_policy() {
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
        // Until it has caught up with all that were released while it was stopped.
        let stopped = STOPS * STOPPED / 10;
        eventually("it catches up", || catches_up.numbers("jobs")[0] >= stopped + 4 * STOPS);
        let [caught_up, skipped] = [catches_up.numbers("stop"), skips.numbers("stop")];
        lost_nothing(&caught_up, 10, machine);
        assert_eq!((skipped[1], skipped[3]), (0, 0), "twice, off the grid: {skipped:?}");
        // Of each stop at least the releases well inside it.
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
            // The one at the start too.
            let released = clock::now().saturating_since(since) / millis(10) + 1;
            let passed_over = if *policy == "skip" { STOPS * (STOPPED / 10 - 2) } else { 0 };
            assert!(account[0] + passed_over <= released, "{policy}: {account:?} of {released}");
            assert_eq!((account[1], account[3]), (0, 0), "{policy}: twice, off the grid");
        }
    });
}
