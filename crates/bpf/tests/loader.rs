//! Programs in the kernel: loaded, refused, run, attached, and removed with their loader.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use punctual_bpf::{AttachError, LoadError, MapError, Object, RunError, probe};
use punctual_linux::{clock, thread};
use punctual_model::time::Duration;

/// The kernel's message if it was built with PREEMPT_RT.
const NO_TIMER: &str = "bpf_timer cannot be used for PREEMPT_RT";

/// The reason why a kernel before Linux 6.7 refuses to start a timer of one CPU.
const NO_PINNED_TIMER: &str = "BPF timers on one CPU take Linux 6.7 or newer";

const OBJECT: &[u8] = include_bytes!("../bpf/probe.bpf.o");

fn eventually(mut happened: impl FnMut() -> bool) -> bool {
    let until = clock::now() + Duration::from_secs(20);
    while !happened() {
        if clock::now() >= until {
            return false;
        }
        clock::sleep(Duration::from_millis(2));
    }
    true
}

/// Loads the object; prints the reason and returns `None` if this host cannot.
fn loaded() -> Option<Object> {
    match Object::load("the probe", OBJECT, &[]) {
        Ok(object) => Some(object),
        Err(why @ (LoadError::Privilege { .. } | LoadError::NoBtf { .. })) => {
            println!("skipped: {why}");
            None
        }
        Err(why) if why.to_string().contains(NO_TIMER) => {
            println!("skipped: {NO_TIMER}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Starts the timer of `object`; prints the reason and returns `false` if this kernel has no such
/// timers.
fn armed(object: &Object) -> bool {
    if object.run("arm").expect("it runs") == 0 {
        return true;
    }
    let counts = object.array("counts").expect("an array").load(0);
    let result = i64::from_ne_bytes(counts[16..24].try_into().expect("eight bytes"));
    assert_eq!(result, -i64::from(libc::EINVAL), "the kernel's answer to `arm`");
    println!("skipped: {NO_PINNED_TIMER}");
    false
}

#[test]
fn every_cpu_is_tried_out() {
    if loaded().is_none() {
        return;
    }
    for cpu in thread::affinity() {
        let found = probe::on(cpu).expect("it can be loaded");
        for (what, seen) in [
            ("hard interrupt", &found.hard_interrupt),
            ("softirq", &found.softirq),
            ("tracepoint", &found.tracepoint),
        ] {
            println!("CPU {cpu}, {what}: {seen:?}");
        }
        assert!(found.tracepoint.works(), "{:?}", found.tracepoint);
        assert!(thread::affinity().contains(&cpu), "the affinity is as it was");
    }
}

#[test]
fn rubbish_is_refused() {
    let refused = Object::load("rubbish", b"\x7fELF and nothing more", &[]);
    let why = refused.expect_err("it is none");
    assert!(matches!(why, LoadError::NotAnObject { object: "rubbish", .. }), "{why}");
    assert!(Object::load("nothing", &[], &[]).is_err());
    for length in (0..OBJECT.len()).step_by(97) {
        // A truncated object is refused, whatever is missing.
        assert!(Object::load("a piece", &OBJECT[..length], &[]).is_err(), "{length} bytes");
    }
}

#[test]
fn a_missing_program_or_map_is_named() {
    let Some(object) = loaded() else { return };
    let why = object.run("nobody").expect_err("no such program");
    assert!(matches!(why, RunError::NoProgram { .. }) && why.to_string().contains("arm"), "{why}");
    let why = object.array("nothing").expect_err("no such map");
    assert!(matches!(why, MapError::NoMap { .. }) && why.to_string().contains("counts"), "{why}");
    let why = object.array("switches").expect_err("a ring is no array");
    assert!(matches!(why, MapError::Kind { .. }), "{why}");
    let why = object.ring("counts", |_| ()).expect_err("an array is no ring");
    assert!(matches!(why, MapError::Kind { .. }), "{why}");
    let why = object.attach("nobody").expect_err("no such program");
    assert!(matches!(why, AttachError::NoProgram { .. }), "{why}");
    let every = Duration::from_millis(1);
    let why = object.on_cpu_clock("interrupt", 100_000, every).expect_err("no such CPU");
    assert!(matches!(why, AttachError::Clock { cpu: 100_000, .. }), "{why}");
    let why = object.on_cpu_clock("interrupt", 0, Duration::ZERO).expect_err("no period");
    assert!(matches!(why, AttachError::Period { nanos: 0 }), "{why}");
    let size = Object::load("the probe", OBJECT, &[("nothing", 3)]).expect_err("no such map");
    assert!(matches!(size, LoadError::Size { entries: 3, .. }), "{size}");
}

#[test]
fn memory_is_shared_and_has_the_requested_size() {
    let Some(_) = loaded() else { return };
    let object = Object::load("the probe", OBJECT, &[("counts", 5)]).expect("it can be loaded");
    let counts = object.array("counts").expect("an array");
    assert_eq!((counts.entries(), counts.value_bytes()), (5, 24));
    let bytes: Vec<u8> = (1..=24).collect();
    counts.store(4, &bytes);
    assert_eq!(counts.load(4), bytes);
    assert_eq!(counts.load(3), [0; 24]);
    counts.store(4, &[99, 98, 97]);
    assert_eq!(counts.load(4)[..5], [99, 98, 97, 4, 5]);
    let second = counts.half_word(4, 12).load(Ordering::Relaxed);
    assert_eq!(second, u32::from_ne_bytes([13, 14, 15, 16]));
    if !armed(&object) {
        return;
    }
    assert!(eventually(|| counts.half_word(0, 8).load(Ordering::Relaxed) == 1), "softirq");
}

#[test]
fn dropping_a_clock_stops_it_and_another_period_is_taken() {
    let Some(object) = loaded() else { return };
    let counts = object.array("counts").expect("an array");
    let ticks = || counts.half_word(0, 0).load(Ordering::Relaxed);
    let fires = |cpu: &usize| probe::on(*cpu).is_ok_and(|found| found.hard_interrupt.works());
    let Some(cpu) = thread::affinity().into_iter().find(|cpu| fires(cpu)) else {
        println!("skipped: no CPU of this host has a software clock that ticks");
        return;
    };
    let slow = Duration::from_secs(3_600);
    let clock = object.on_cpu_clock("interrupt", cpu, slow).expect("it is attached");
    assert_eq!(ticks(), 0, "an hour has not passed");
    clock.set_period(Duration::from_millis(1)).expect("a valid period");
    assert!(eventually(|| ticks() > 0), "every millisecond");
    assert!(clock.set_period(Duration::ZERO).is_err());
    drop(clock);
    let after = ticks();
    clock::sleep(Duration::from_millis(50));
    assert_eq!(ticks(), after, "it ticked after it was dropped");
}

/// The loader of `a_killed_loader_leaves_nothing`, in a process of its own.
#[test]
#[ignore = "started by a_killed_loader_leaves_nothing"]
fn a_loader_that_waits_to_be_killed() {
    let Some(object) = loaded() else { return };
    let cpu = thread::affinity()[0];
    let every = Duration::from_millis(1);
    let _clock = object.on_cpu_clock("interrupt", cpu, every).expect("it is attached");
    let _attached = object.attach("switched").expect("it is attached");
    if !armed(&object) {
        return;
    }
    let ids: Vec<String> = object.program_ids().iter().map(u32::to_string).collect();
    println!("ids {}", ids.join(" "));
    clock::sleep(Duration::from_secs(30));
}

#[test]
fn a_killed_loader_leaves_nothing() {
    if loaded().is_none() {
        return;
    }
    let me = std::env::current_exe().expect("this program");
    let mut loader = Command::new(me)
        .args(["--exact", "a_loader_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(loader.stdout.take().expect("piped")).lines();
    // The test's own name may precede it on the line.
    let told = lines.map_while(Result::ok).find_map(|line| {
        let (_, told) = line.split_once("ids ").or_else(|| line.split_once("skipped: "))?;
        Some(told.to_owned())
    });
    loader.kill().expect("it is ours");
    loader.wait().expect("it is ours");
    let told = told.expect("its programs");
    if told == NO_PINNED_TIMER {
        println!("skipped: {told}");
        return;
    }
    let ids: Vec<u32> = told.split(' ').map(|id| id.parse().expect("a number")).collect();
    assert_eq!(ids.len(), 3, "three programs");
    let there = || ids.iter().filter(|&&id| exists(id)).count();
    assert!(eventually(|| there() == 0), "{} of {ids:?} are still in the kernel", there());
}

fn exists(program: u32) -> bool {
    libbpf_rs::Program::fd_from_id(program).is_ok()
}
