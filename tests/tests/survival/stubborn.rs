//! Handlers that break their promises, beside handlers of another process and of their own.

use std::fs;

use crate::host::{Actor, beside_another, eventually, lost_nothing};

/// Returns the minor faults of a process so far (proc_pid_stat(5), field 10).
fn faults_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ').nth(7).expect("a field").parse().expect("a number")
}

#[test]
fn a_handler_that_faults_in_fresh_memory_holds_up_no_other() {
    beside_another(|machine| {
        for _ in 0..6 {
            let mut actor = Actor::with("catch_up counts 10 faults 50");
            let (faults, jobs) = (faults_of(actor.pid()), actor.numbers("jobs")[1]);
            actor.goes_on(1);
            actor.goes_on(0);
            let jobs = actor.numbers("jobs")[1] - jobs;
            assert!(faults_of(actor.pid()) >= faults + jobs, "each faults");
            let account = actor.numbers("stop");
            lost_nothing(&account, 10, machine);
        }
    });
}

/// Checks that these handlers are contained and that the others go on, here and in the other
/// process.
fn goes_on_beside(conduct: &str, rounds: u64) {
    beside_another(|machine| {
        let mut actor = Actor::start();
        actor.share_a_cpu();
        let threads = actor.ask("threads");
        for _ in 0..rounds {
            let start = format!("start catch_up counts 10 {conduct} 20");
            assert_eq!(actor.ask(&start), "running");
            actor.goes_on(0);
            actor.ask("free");
            actor.goes_on(0);
            let account = actor.numbers("stop");
            lost_nothing(&account, 10, machine);
            eventually("no thread and no class is left", || actor.ask("threads") == threads);
        }
    });
}

#[test]
fn a_handler_that_spins_holds_up_no_other_process() {
    goes_on_beside("spins", 8);
}

#[test]
fn a_handler_that_sleeps_holds_up_no_other_process() {
    goes_on_beside("sleeps", 8);
}

#[test]
fn a_handler_that_blocks_in_a_system_call_holds_up_no_other_process() {
    goes_on_beside("blocks", 8);
}

#[test]
fn many_stuck_handlers_in_several_processes_hold_up_no_other() {
    beside_another(|_| {
        for _ in 0..3 {
            let mut actors = ["spins", "sleeps", "blocks"]
                .map(|how| Actor::with(&format!("skip counts 10 {how} 20")));
            for actor in &mut actors {
                actor.goes_on(0);
            }
            // The last process is killed where it is.
            for actor in &mut actors[..2] {
                assert_eq!(actor.numbers("stop")[1], 0, "complete twice");
            }
        }
    });
}
