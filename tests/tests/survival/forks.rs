//! Forks, with and without exec, of processes with upcalls and reservations.

use std::fs;

use punctual_linux::shm;

use crate::host::{Actor, beside_another, eventually, lost_nothing, policy_of};

/// Ends a grandchild, regardless of its parent.
struct Ended(u64);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-9", &self.0.to_string()]).status();
    }
}

fn executes(id: u64, program: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == program)
}

/// Returns the open files of a process that belong to Punctual.
fn open_files_of_ours(id: u64) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|path| path.to_string_lossy().contains("punctual-"))
        .collect()
}

#[test]
fn a_fork_without_exec_takes_nothing_from_its_parent() {
    beside_another(|machine| {
        let mut actor = Actor::with("catch_up counts 10 counts 20");
        for _ in 0..10 {
            assert_eq!(actor.ask("fork"), "done");
            assert_eq!(actor.ask("unfork"), "done");
            assert!(shm::path("releases").exists(), "in use");
        }
        actor.goes_on(0);
        let mut late = Actor::with("catch_up counts 10");
        late.goes_on(0);
        assert_eq!(actor.ask("fork"), "done");
        let account = actor.numbers("stop");
        lost_nothing(&account, 10, machine);
        lost_nothing(&account[4..], 20, machine);
        // Killed while the forked process lives, which ends by itself.
        drop(actor);
        late.goes_on(0);
    });
}

/// Checks that a process spawned by `order` executes its program as an ordinary process, with none
/// of Punctual's files open.
#[track_caller]
fn inherits_nothing(id: u64) {
    let child = Ended(id);
    eventually("it executes", || executes(child.0, "sleep"));
    assert_eq!(policy_of(child.0), "SCHED_OTHER");
    assert_eq!(open_files_of_ours(child.0), [] as [std::path::PathBuf; 0]);
}

#[test]
fn a_program_started_by_the_owner_of_upcalls_inherits_nothing() {
    beside_another(|_| {
        let mut actor = Actor::with("catch_up counts 10");
        for _ in 0..5 {
            inherits_nothing(actor.numbers("spawn")[0]);
        }
        actor.goes_on(0);
    });
}

#[test]
fn a_program_started_by_a_handler_inherits_nothing() {
    beside_another(|_| {
        for _ in 0..5 {
            let mut actor = Actor::with("catch_up spawns 20 counts 10");
            eventually("it spawns", || actor.numbers("spawned") != [0]);
            inherits_nothing(actor.numbers("spawned")[0]);
            actor.goes_on(1);
            actor.numbers("stop");
        }
    });
}

/// Starts programs from a thread under a reservation by this back end, which then leaves it and
/// starts another.
fn starts_programs_reserved_by(backend: &str) {
    beside_another(|_| {
        let mut actor = Actor::start();
        let answer = actor.ask(&format!("reserve 3ms/10ms {backend}"));
        if answer.to_lowercase() != backend {
            println!("skipped: {answer}");
            return;
        }
        for _ in 0..5 {
            inherits_nothing(actor.numbers("spawn")[0]);
        }
        assert_eq!(actor.ask("leave"), "done");
        inherits_nothing(actor.numbers("spawn")[0]);
    });
}

#[test]
fn a_program_started_inside_a_reservation_inherits_nothing() {
    starts_programs_reserved_by("kernel");
}

#[test]
fn a_program_started_inside_a_slot_inherits_nothing() {
    starts_programs_reserved_by("timetable");
}
