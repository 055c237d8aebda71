//! Tests of the contract that a workload becomes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::parse;
use super::{good, has_note, refusal, workload};
use crate::{Policy, Task};

/// Writes each task as `name period/wcet/jitter/deadline`, in microseconds.
fn seen(text: &str) -> Vec<String> {
    let line = |task: &Task| {
        let numbers = [
            task.min_inter_arrival().as_nanos(),
            task.wcet().as_nanos(),
            task.release_jitter().as_nanos(),
            task.relative_deadline().as_nanos(),
        ];
        let [period, wcet, jitter, deadline] = numbers.map(|nanos| nanos / 1000);
        format!("{} {period}/{wcet}/{jitter}/{deadline}", task.name())
    };
    good(text).contract.tasks.iter().map(line).collect()
}

#[test]
fn a_thread_with_a_timer_is_a_periodic_task() {
    for (thread, tasks) in [
        (r#""a":{"run":10,"timer":{"ref":"t","period":100}}"#, "a 100/10/0/100"),
        // Runs add up across events that take no time.
        (
            r#""a":{"run":10,"unlock":"m","runtime":5,"run1":1,"timer":{"period":100}}"#,
            "a 100/16/0/100",
        ),
        // The first wake-up comes before the first run.
        (r#""a":{"timer":{"period":100},"run":10}"#, "a 100/10/0/100"),
        (r#""a":{"loop":-1,"timer":{"period":100},"run":10}"#, "a 100/10/0/100"),
        // Sleep within a job counts as running; sleep after it does not count.
        (r#""a":{"run":10,"sleep":7,"run":1,"sleep":50,"timer":{"period":100}}"#, "a 100/18/0/100"),
        // Sleep before a job counts too, except before the first job.
        (r#""a":{"sleep":7,"run":10,"timer":{"period":100}}"#, "a 100/17/0/100"),
        (
            r#""a":{"loop":1,"phases":{"p":{"sleep":500},"q":{"loop":9,"run":10,"timer":{"period":100}}}}"#,
            "a 100/10/0/100",
        ),
        // A timer of zero is none.
        (r#""a":{"run":10,"timer":{"period":0},"timer":{"period":100}}"#, "a 100/10/0/100"),
        // Two wake-ups of one timer in a phase: the longest run counts every time.
        (
            r#""a":{"run":10,"timer":{"ref":"t","period":100},"run":30,"timer":{"ref":"t","period":100}}"#,
            "a 100/30/0/100",
        ),
        // Two timers advance together: each round has both runs.
        (
            r#""a":{"run":10,"timer":{"ref":"t","period":90},"run":30,"timer":{"ref":"u","period":100}}"#,
            "a 100/40/0/100",
        ),
        // The longest phase stands for all.
        (
            r#""a":{"phases":{"l":{"loop":10,"run":10,"timer":{"period":100}},"h":{"run":70,"timer":{"period":100}}}}"#,
            "a 100/70/0/100",
        ),
        // A phase without the timer is part of the job around it, with all its repetitions.
        (
            r#""a":{"phases":{"p":{"loop":7,"run":2,"sleep":3},"q":{"run":10,"timer":{"period":100}}}}"#,
            "a 100/45/0/100",
        ),
        // Events after an endless phase never happen.
        (
            r#""a":{"phases":{"p":{"loop":-1,"run":10,"timer":{"period":100}},"q":{"run":9999}}}"#,
            "a 100/10/0/100",
        ),
        (
            r#""a":{"phases":{"p":{"loop":0,"run":999},"q":{"run":10,"timer":{"period":100}}}}"#,
            "a 100/10/0/100",
        ),
    ] {
        assert_eq!(seen(&workload(&[thread])), [tasks], "{thread}");
    }
}

#[test]
fn several_periods_become_several_tasks() {
    let thread = r#""a":{"phases":{
        "slow":{"loop":3,"run":40,"timer":{"ref":"t","period":400}},
        "fast":{"loop":3,"run":10,"timer":{"ref":"t","period":100}}}}"#;
    let text = workload(&[thread]);
    assert_eq!(seen(&text), ["a.fast 100/10/0/100", "a.slow 400/40/0/400"]);
    assert!(has_note(&good(&text), (2, 1), "has periods of 100us, 400us"));

    let events =
        r#""run":40,"timer":{"ref":"t","period":400},"run":10,"timer":{"ref":"t","period":100}"#;
    let without_phases = workload(&[&format!("\"a\":{{{events}}}")]);
    assert_eq!(seen(&without_phases), ["a.100us 100/10/0/100", "a.400us 400/40/0/400"]);
    let in_one_phase = workload(&[&format!("\"a\":{{\"phases\":{{\"p\":{{{events}}}}}}}")]);
    assert_eq!(seen(&in_one_phase), ["a.p.100us 100/10/0/100", "a.p.400us 400/40/0/400"]);
}

#[test]
fn a_thread_that_only_sleeps_is_sporadic_with_jitter() {
    for (thread, tasks) in [
        (r#""a":{"run":20,"sleep":80}"#, "a 100/20/20/120"),
        (r#""a":{"sleep":80,"run":20}"#, "a 100/20/20/120"),
        (r#""a":{"loop":-1,"run":5,"run":15,"sleep":30,"sleep":50}"#, "a 100/20/20/120"),
        // The run at the end and the run at the beginning follow each other.
        (r#""a":{"run":5,"sleep":80,"run":15}"#, "a 100/20/20/120"),
        (r#""a":{"loop":-1,"run":5,"sleep":80,"run":15}"#, "a 100/20/20/120"),
        // The longest run and the shortest sleep count.
        (r#""a":{"run":5,"sleep":80,"run":20,"sleep":90}"#, "a 100/20/20/120"),
        (r#""a":{"phases":{"p":{"loop":4,"run":5},"q":{"sleep":80}}}"#, "a 100/20/20/120"),
        // Waiting only makes the next release later.
        (r#""a":{"run":20,"barrier":"b","sleep":80}"#, "a 100/20/20/120"),
    ] {
        let text = workload(&[thread]);
        assert_eq!(seen(&text), [tasks], "{thread}");
        assert!(has_note(&good(&text), (2, 1), "has no timer"), "{thread}");
    }
}

#[test]
fn threads_without_a_rate_are_left_out_with_the_reason() {
    let known = r#""k":{"run":1,"timer":{"period":9}}"#;
    for (thread, why) in [
        (r#""a":{"run":10}"#, "it runs without a pause"),
        (r#""a":{"loop":-1,"run":10}"#, "it runs without a pause"),
        (r#""a":{"loop":3,"run":10}"#, "it runs once"),
        (r#""a":{"loop":1,"phases":{"p":{"sleep":5},"q":{"run":10}}}"#, "it runs once"),
        (r#""a":{"suspend","run":10}"#, "other threads wake it"),
        (r#""a":{"loop":-1,"run":10,"sem_wait":"s"}"#, "other threads wake it"),
        (r#""a":{"timer":{"period":100},"resume":"k"}"#, "it runs nothing of its own"),
        (r#""a":{"mem":100,"sleep":100}"#, "it runs nothing of its own"),
        (r#""a":{"instance":0,"run":10,"sleep":5}"#, "it has no instances"),
        (
            r#""a":{"phases":{"p":{"run":1,"timer":{"period":9}},"q":{"loop":-1,"run":1,"sleep":1}}}"#,
            "never returns to its timer",
        ),
    ] {
        let imported = good(&workload(&[known, thread]));
        assert_eq!(imported.contract.tasks.len(), 1, "{thread}");
        assert!(has_note(&imported, (3, 1), why), "{thread} {:?}", imported.notes);
        // A workload of such a thread alone is refused with the reason.
        let message = refusal(&workload(&[thread]));
        assert!(message.starts_with("w.json:1:2: no thread here has a rate"), "{message}");
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn instances_and_repeated_names_are_numbered() {
    let thread = r#""a":{"instance":3,"run":1,"timer":{"period":9}}"#;
    let single = r#""b":{"run":1,"timer":{"period":9}}"#;
    let text = workload(&[thread, single, single, &single.replace("b", "b1"), single]);
    let names: Vec<String> =
        good(&text).contract.tasks.iter().map(|task| task.name().to_string()).collect();
    assert_eq!(names, ["a-0", "a-1", "a-2", "b", "b2", "b1", "b3"]);
    let clash = workload(&[thread, &single.replace("b", "a-1")]);
    assert!(refusal(&clash).contains("3:1: the name \"a-1\" is taken"), "{}", refusal(&clash));
}

#[test]
fn priorities_give_the_order_and_ordinary_threads_stand_below() {
    let thread = |name: &str, rest: &str, period: u32| {
        format!("\"{name}\":{{{rest}\"run\":1,\"timer\":{{\"period\":{period}}}}}")
    };
    let fifo = |name, priority| {
        thread(name, &format!("\"policy\":\"SCHED_FIFO\",\"priority\":{priority},"), 50)
    };
    let threads = [
        thread("idle", "\"policy\":\"SCHED_IDLE\",", 5),
        thread("slow", "", 90),
        fifo("low", 3),
        thread("quick", "\"priority\":-19,", 40),
        thread("rr", "\"policy\":\"SCHED_RR\",", 50),
        fifo("high", 80),
    ];
    let text = workload(&threads.each_ref().map(String::as_str));
    let imported = good(&text);
    assert_eq!(imported.contract.policy, Policy::Fp);
    let names: Vec<&str> = imported.contract.tasks.iter().map(Task::name).collect();
    assert_eq!(names, ["high", "rr", "low", "quick", "slow", "idle"], "rr has the default, 10");
    assert!(has_note(&imported, (5, 10), "a nice value promises nothing"));
    assert!(has_note(&imported, (2, 1), "below the real-time ones"));
    assert!(has_note(&imported, (6, 7), "it is SCHED_FIFO"));

    let ordinary = good(&workload(&[&threads[1], &threads[3]]));
    assert_eq!(ordinary.contract.policy, Policy::Rm);
    let by_default = format!(
        "{{\"global\":{{\"default_policy\":\"SCHED_FIFO\"}},\"tasks\":{{{}}}}}",
        threads[1]
    );
    assert_eq!(good(&by_default).contract.policy, Policy::Fp);
}

#[test]
fn deadline_threads_are_reservations() {
    let reservation = |rest: &str| {
        let thread = format!("\"a\":{{\"policy\":\"SCHED_DEADLINE\",{rest}\"run\":1}}");
        parse("w.json", workload(&[&thread]).as_bytes())
    };
    for (rest, text) in [
        ("\"dl-runtime\":2000,\"dl-period\":8000,", "2ms/8ms"),
        ("\"dl-runtime\":2000,\"dl-period\":8000,\"dl-deadline\":8000,", "2ms/8ms"),
        ("\"dl-runtime\":2000,\"dl-period\":8000,\"dl-deadline\":4000,", "2ms/4ms"),
        ("\"dl-runtime\":2000,", "2ms/2ms"),
        ("\"dl-runtime\":2000,\"instance\":2,\"dl-period\":8000,", "2ms/8ms"),
        ("\"runtime\":2000,\"period\":8000,\"deadline\":8000,", "2ms/8ms"),
    ] {
        let contract = reservation(rest).expect(rest).contract;
        assert_eq!(contract.reservations[0].reservation.to_string(), text, "{rest}");
        assert!(contract.tasks.is_empty());
    }
    for (rest, wanted) in [
        ("", "2:6: \"a\" is under SCHED_DEADLINE without a \"dl-runtime\""),
        ("\"dl-runtime\":9,\"dl-period\":8,", "2:45: the budget 9us is above the period 8us"),
        ("\"dl-runtime\":1,\"dl-period\":8,\"dl-deadline\":9,", "the deadline 9us is above"),
        ("\"dl-runtime\":0,", "without a \"dl-runtime\""),
    ] {
        let message = reservation(rest).expect_err(rest).to_string();
        assert!(message.contains(wanted), "{rest} {message}");
    }
    let stricter = reservation("\"dl-runtime\":2000,\"dl-period\":8000,\"dl-deadline\":4000,");
    assert!(has_note(&stricter.expect("good"), (2, 67), "every 4ms instead of every 8ms"));
}

#[test]
fn old_files_have_exec_and_period() {
    let text = workload(&[
        r#""a":{"exec":1000,"period":10000,"deadline":8000,"lock_order":["m"],"resources":{}}"#,
        r#""b":{"exec":1000,"period":9000}"#,
    ]);
    assert_eq!(seen(&text), ["a 10000/1000/0/8000", "b 9000/1000/0/9000"]);
    assert!(has_note(&good(&text), (2, 49), "a contract has no locks"));
}

#[test]
fn the_contract_asks_for_the_cpus_that_are_named() {
    let thread = |cpus: &str| format!("\"a\":{{{cpus}\"run\":1,\"timer\":{{\"period\":9}}}}");
    for (cpus, count) in [("", 1), ("\"cpus\":[3],", 1), ("\"cpus\":[0,2,2],", 2)] {
        assert_eq!(good(&workload(&[&thread(cpus)])).contract.cpus, count, "{cpus}");
    }
    for cpus in ["[1024]", "[-1]", "[\"0\"]"] {
        let message = refusal(&workload(&[&thread(&format!("\"cpus\":{cpus},"))]));
        assert!(message.contains("2:14: a CPU is a number from 0 to 1023"), "{message}");
    }
}
