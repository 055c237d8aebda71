//! Clocks that jump: only CLOCK_MONOTONIC is used, and only its differences count.

use punctual_linux::clock;

use crate::host::{Actor, beside_another, lost_nothing};

/// Two days.
const AHEAD_S: u64 = 172_800;

/// Starts an actor in a namespace whose CLOCK_MONOTONIC is that far ahead (time_namespaces(7)).
/// Returns `None` if this process may not make one.
fn ahead() -> Option<Actor> {
    let ahead = AHEAD_S.to_string();
    let by = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", &ahead];
    let mut actor = Actor::start_with(&by)?;
    actor.share_a_cpu();
    let now = actor.numbers("now")[0];
    let shift = now.saturating_sub(clock::now().as_nanos()) / 1_000_000_000;
    (AHEAD_S - 10..=AHEAD_S + 10).contains(&shift).then_some(actor)
}

#[test]
fn processes_with_other_clocks_share_the_table_and_all_go_on() {
    beside_another(|machine| {
        for _ in 0..4 {
            let Some(mut other) = ahead() else {
                println!("skipped: no time namespace (unshare --time, CAP_SYS_ADMIN)");
                return;
            };
            assert_eq!(other.ask("start catch_up counts 5 counts 30"), "running");
            let mut same = Actor::with("catch_up counts 7 counts 40");
            for actor in [&mut other, &mut same] {
                actor.goes_on(0);
                actor.goes_on(1);
            }
            for (mut actor, periods) in [(other, [5, 30]), (same, [7, 40])] {
                let account = actor.numbers("stop");
                lost_nothing(&account, periods[0], machine);
                lost_nothing(&account[4..], periods[1], machine);
            }
        }
    });
}
