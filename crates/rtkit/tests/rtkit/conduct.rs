//! Threads that use more than they were given at first.

use crate::host::{GENEROUS, Host, TRUSTING, eventually};

#[test]
fn a_thread_gets_what_it_uses_up_to_what_its_program_may_have() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut caller = host.caller();
    assert_eq!(caller.ask("realtime 10"), "ok");
    let before = host.grants_of(&caller);
    assert_eq!(before[0].share_ppm, 20_000);
    // 5 % of a CPU, where 2 % were granted at first and 20 % are the most.
    assert_eq!(caller.ask("work 1 4000"), "worked");
    let after = host.grants_of(&caller);
    assert_eq!(after.len(), 1, "{}", host.log());
    assert_eq!(after[0].grant, before[0].grant);
    assert!((40_000..=200_000).contains(&after[0].share_ppm), "{after:?}");
    assert_eq!(caller.policy(), "SCHED_FIFO");
    assert!(host.log().contains("uses more, and got it"));
}

#[test]
fn a_hog_is_demoted_and_told_why() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut caller = host.caller();
    assert_eq!(caller.ask("realtime 10"), "ok");
    // Nearly the whole CPU, asleep often enough for RLIMIT_RTTIME.
    caller.tell("work 19 8000");
    eventually("the hog is an ordinary thread", || caller.policy() == "SCHED_OTHER");
    eventually("the log says why", || host.log().contains("the thread is an ordinary one again"));
    let log = host.log();
    let line = log.lines().find(|line| line.contains("ordinary one again")).expect("there");
    assert!(line.contains(&format!("pid={}", caller.pid())) && line.contains("why="), "{log}");
    assert!(host.grants_of(&caller).is_empty());
    // Other programs of the user are told as well, for as long as the broker's penalty.
    let refused = host.caller().ask("realtime 10");
    assert!(
        refused.contains("LimitsExceeded") && refused.contains("it broke its terms"),
        "{refused}"
    );
}
