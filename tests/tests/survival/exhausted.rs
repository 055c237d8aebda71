//! Exhausted limits: descriptors, threads, locked memory, bandwidth. Each gives a clear error and
//! leaves nothing behind, and upcalls that already run need nothing more.

use punctual_linux::{clock, host};

use system_tests::stalls::Witness;

use crate::host::{Actor, beside_another, eventually, lost_nothing, millis};

/// A user that owns no other processes, which would count against its limits.
const USER: u32 = 64_123;

/// Starts an actor of an ordinary user that may use SCHED_FIFO and nothing else. Returns `None` if
/// this host cannot.
fn of_an_ordinary_user() -> Option<Actor> {
    let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
    let nice = ["--inh-caps=+sys_nice", "--ambient-caps=+sys_nice"];
    let by = ["setpriv", &user, &group, "--clear-groups", nice[0], nice[1]];
    let mut actor = Actor::start_with(&by);
    if let Some(actor) = &mut actor {
        actor.share_a_cpu();
    } else {
        println!("skipped: setpriv(1) cannot run this program as user {USER} with CAP_SYS_NICE");
    }
    actor
}

/// Checks that nothing of that user is left.
fn has_left_nothing() {
    let table = format!("/dev/shm/punctual-{USER}.releases");
    eventually("no shared memory is left", || !std::path::Path::new(&table).exists());
}

/// Starts upcalls under each limit from `from` on until they run. Each time before, the error must
/// contain `why`, and nothing may be left. Returns how often there was an error.
fn until_they_run(
    actor: &mut Actor,
    what: &str,
    from: u64,
    why: &[&str],
    machine: &Witness,
) -> u64 {
    actor.limit(what, 1_000);
    let threads = actor.ask("threads");
    for most in from..from + 20 {
        actor.limit(what, most);
        let answer = actor.ask("start catch_up counts 10 counts 20");
        if answer == "running" {
            actor.goes_on(0);
            actor.goes_on(1);
            lost_nothing(&actor.numbers("stop"), 10, machine);
            actor.limit(what, 1_000);
            eventually("nothing is left", || actor.ask("threads") == threads);
            return most - from;
        }
        assert!(why.iter().any(|why| answer.contains(why)), "{most} of {what}: {answer}");
        actor.limit(what, 1_000);
        eventually("nothing is left", || actor.ask("threads") == threads);
    }
    panic!("20 more of {what} do not suffice");
}

#[test]
fn without_descriptors_upcalls_do_not_start_and_say_so() {
    beside_another(|machine| {
        let mut actor = Actor::start();
        actor.share_a_cpu();
        for _ in 0..3 {
            let refused = until_they_run(&mut actor, "nofile", 3, &["open files"], machine);
            // With PREEMPT_RT the timer is a sleep (`punctual_linux::timer`).
            let timers = u64::from(host::machine().preemption.as_deref() != Some("rt"));
            assert!(refused > timers, "a table, and {timers} timers: {refused}");
        }
    });
}

#[test]
fn upcalls_that_run_need_no_more_descriptors() {
    beside_another(|machine| {
        for conduct in ["spins", "sleeps"] {
            let mut actor = Actor::with(&format!("catch_up counts 10 {conduct} 20"));
            actor.limit("nofile", 0);
            // Through all containments and the closing.
            eventually("it is closed", || actor.ask("activity").ends_with("Closed"));
            actor.goes_on(0);
            lost_nothing(&actor.numbers("stop"), 10, machine);
        }
    });
}

#[test]
fn without_threads_upcalls_do_not_start_and_say_so() {
    beside_another(|machine| {
        let Some(mut actor) = of_an_ordinary_user() else { return };
        for _ in 0..3 {
            let refused = until_they_run(&mut actor, "nproc", 1, &["thread"], machine);
            assert!(refused >= 2, "the one that runs them, and a guard: {refused}");
        }
        has_left_nothing();
    });
}

#[test]
fn without_a_thread_for_another_guard_upcalls_end_and_say_so() {
    beside_another(|_| {
        for _ in 0..3 {
            let Some(mut actor) = of_an_ordinary_user() else { return };
            let threads = actor.ask("threads");
            assert_eq!(actor.ask("start catch_up counts 10 sleeps 20"), "running");
            actor.limit("nproc", 1);
            let mut before = vec![u64::MAX];
            eventually("they end", || {
                clock::sleep(millis(100));
                std::mem::replace(&mut before, actor.numbers("jobs")) == before
            });
            let answer = actor.ask("stop");
            assert!(answer.starts_with("error") && answer.contains("thread"), "{answer}");
            actor.limit("nproc", 1_000);
            eventually("nothing is left", || actor.ask("threads") == threads);
        }
        has_left_nothing();
    });
}

#[test]
fn without_locked_memory_the_reason_is_given_and_upcalls_run() {
    beside_another(|machine| {
        let Some(mut actor) = of_an_ordinary_user() else { return };
        actor.limit("memlock", 0);
        let answer = actor.ask("lock");
        assert!(answer.starts_with("error") && answer.contains("RLIMIT_MEMLOCK is 0"), "{answer}");
        assert_eq!(actor.ask("start catch_up counts 10"), "running");
        actor.goes_on(0);
        lost_nothing(&actor.numbers("stop"), 10, machine);
    });
}

#[test]
fn without_bandwidth_reservations_are_refused_and_upcalls_go_on() {
    beside_another(|machine| {
        let mut upcalls = Actor::with("catch_up counts 10");
        for _ in 0..3 {
            let mut holders = Vec::new();
            let refused = loop {
                let mut holder = Actor::start();
                let answer = holder.ask("inside 30ms/50ms");
                if answer != "running" {
                    break answer;
                }
                holders.push(holder);
                assert!(holders.len() < 1_000, "there is a limit");
            };
            if holders.is_empty() {
                println!("skipped: {refused}");
                return;
            }
            assert!(
                refused.contains("30ms/50ms") && refused.contains("% of each CPU"),
                "{refused}"
            );
            upcalls.goes_on(0);
            // Half of them end by themselves, half are killed.
            for holder in holders.iter_mut().step_by(2) {
                holder.goes_on(0);
                holder.numbers("stop");
            }
            drop(holders);
            let mut next = Actor::start();
            eventually("there is room again", || next.ask("inside 30ms/50ms") == "running");
            next.numbers("stop");
        }
        lost_nothing(&upcalls.numbers("stop"), 10, machine);
    });
}
