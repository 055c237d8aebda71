//! Signals, job control, and cleaning up after kill -9.

use super::live::{
    Live, alone, eventually, goes_on, groups_of, is_stopped, is_there, json, policy, text,
};

const HARD: [&str; 6] = ["--reserve", "2ms/10ms", "--hard", "--json", "--", "sh"];

fn with(script: &str) -> Vec<&str> {
    [&HARD[..], &["-c", script]].concat()
}

#[test]
fn a_signal_is_passed_on_and_the_group_is_gone() {
    let _alone = alone();
    let Some(live) = Live::with_ids(&with("echo $$; while :; do :; done"), 1) else { return };
    let (pid, program) = (live.pid(), live.ids()[0]);
    assert!(!groups_of(pid).is_empty(), "it is held in a group");
    live.signal("TERM");
    let output = live.output();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    assert_eq!(json(&output)["signal"], 15);
    assert!(!is_there(program) && groups_of(pid).is_empty(), "{:?}", groups_of(pid));
}

#[test]
fn a_program_can_handle_a_signal() {
    let _alone = alone();
    let script = "trap 'echo told; exit 4' USR1; echo $$; while :; do sleep 0.02; done";
    let Some(mut live) = Live::with_ids(&with(script), 1) else { return };
    live.signal("USR1");
    assert_eq!(live.line(), "told\n");
    assert_eq!(live.wait().code(), Some(4));
}

#[test]
fn a_stopped_program_goes_on_in_its_reservation() {
    let _alone = alone();
    let Some(live) = Live::with_ids(&with("echo $$; while :; do :; done"), 1) else { return };
    let program = live.ids()[0];
    super::live::signal(program, "STOP");
    assert!(eventually(|| is_stopped(program)));
    super::live::signal(program, "CONT");
    assert!(eventually(|| !is_stopped(program)) && goes_on(program));
    assert!(eventually(|| policy(program).as_deref() == Some("1")), "{:?}", policy(program));
}

#[test]
fn job_control_stops_the_program_then_us_and_continues_both() {
    let _alone = alone();
    let Some(live) = Live::with_ids(&with("echo $$; while :; do :; done"), 1) else { return };
    let (pid, program) = (live.pid(), live.ids()[0]);
    live.signal("TSTP");
    assert!(eventually(|| is_stopped(program) && is_stopped(pid)));
    assert!(eventually(|| policy(program).as_deref() == Some("0")), "{:?}", policy(program));
    live.signal("CONT");
    assert!(eventually(|| !is_stopped(pid) && !is_stopped(program)) && goes_on(program));
    // It was stopped for longer than the guard waits, so it must take back what the guard released.
    assert!(eventually(|| policy(program).as_deref() == Some("1")), "{:?}", policy(program));
    live.signal("TERM");
    assert_eq!(live.output().status.code(), Some(128 + 15));
    assert!(groups_of(pid).is_empty());
}

#[test]
fn killed_it_leaves_nothing_frozen_nothing_raised_and_no_group() {
    let _alone = alone();
    let script = "echo $$; (while :; do :; done) & echo $!; wait";
    let Some(mut live) = Live::with_ids(&with(script), 2) else { return };
    let (pid, ids) = (live.pid(), live.ids().to_vec());
    live.signal("KILL");
    live.wait();
    assert!(eventually(|| !is_there(ids[0])), "it dies with us");
    assert!(eventually(|| groups_of(pid).is_empty()), "{:?}", groups_of(pid));
    // Its child is an ordinary process now, and runs.
    assert!(eventually(|| policy(ids[1]).as_deref() == Some("0")), "{:?}", policy(ids[1]));
    assert!(goes_on(ids[1]));
}
