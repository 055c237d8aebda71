//! `punctual run` with a deferrable server, the default.

use super::live::{Live, alone, eventually, json, number, policy, run, signal, text};

/// Returns whether no server can run here, and prints the reason.
pub(crate) fn is_without_server() -> bool {
    let cpu = punctual_linux::thread::affinity()[0];
    match punctual_linux::cgroup::group_clock::GroupClock::probe(cpu) {
        Ok(()) => false,
        Err(why) => {
            println!("skipped: {why}");
            true
        }
    }
}

/// Starts a program that sleeps, and so does its child, whose id is known. Returns `None` where no
/// server can run.
fn sleeping() -> Option<Live> {
    if is_without_server() {
        return None;
    }
    let script = "sleep 600 & echo $!; wait";
    Live::with_ids(&["--reserve", "2ms/10ms", "--", "sh", "-c", script], 1)
}

#[test]
fn a_soft_program_has_a_server_and_runs_at_its_level_while_it_sleeps() {
    let _alone = alone();
    // It keeps its budget, and with it the level that it wakes up with.
    let Some(mut running) = sleeping() else { return };
    let child = running.ids()[0];
    // Its start may have taken the budget of some periods.
    let is_raised = eventually(|| policy(child).as_deref() == Some("1"));
    signal(child, "TERM");
    running.wait();
    assert!(is_raised, "SCHED_FIFO, and its children as well");
}

#[test]
fn a_hog_gets_its_budget_at_the_level_and_the_rest_as_an_ordinary_program() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    let hog = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let Some(output) = run(&["--reserve", "2ms/10ms", "--json", "--", "sh", "-c", hog]) else {
        return;
    };
    let summary = json(&output);
    let how = (&summary["backend"], &summary["enforcement"]);
    assert_eq!(how, (&"server".into(), &"soft".into()), "{summary}");
    assert_eq!((number(&summary, "exit_code"), number(&summary, "failures")), (0, 0));
    assert!(summary["slots"].is_null(), "{summary}");
    let inside = number(&summary, "inside_ns");
    let both = inside + number(&summary, "outside_ns");
    assert!(inside > 0 && both == number(&summary, "exec_time_ns"), "{summary}");
}

#[test]
fn programs_that_wait_for_each_other_by_spinning_make_progress() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    // The first spins until the second, which needs the same CPU, has removed the file.
    let script = "f=$(mktemp); (rm $f) & while [ -e $f ]; do :; done; echo done";
    for how in ["--soft", "--hard"] {
        let arguments = ["--reserve", "2ms/20ms", how, "--quiet", "--", "sh", "-c", script];
        let Some(output) = run(&arguments) else { return };
        assert_eq!(text(&output.stdout), "done\n", "{how}");
    }
}

/// Tests what a hard timetable cannot do: its threads are not sliced, and what is to end the loop
/// comes behind the loop in every slot.
#[test]
fn a_hard_hog_is_ended_from_within_its_group() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    let hog = ["timeout", "1", "sh", "-c", "while :; do :; done"];
    let script = "(sleep 0.5; kill $$) & while :; do :; done";
    for (command, code) in [(&hog[..], 124), (&["sh", "-c", script][..], 128 + 15)] {
        let options = ["--reserve", "2ms/10ms", "--hard", "--json", "--"];
        let Some(output) = run(&[&options[..], command].concat()) else { return };
        assert_eq!(output.status.code(), Some(code), "{command:?}");
    }
}

#[test]
fn a_hard_hog_gets_its_budget_and_no_more() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    let hogs = "for i in 1 2 3; do (while :; do :; done) & done; wait";
    let options = ["--reserve", "2ms/10ms", "--hard", "--json", "--", "timeout", "1.5", "sh", "-c"];
    let Some(output) = run(&[&options[..], &[hogs]].concat()) else { return };
    let summary = json(&output);
    let how = (&summary["backend"], &summary["enforcement"]);
    assert_eq!(how, (&"server".into(), &"hard".into()), "{summary}");
    assert_eq!((number(&summary, "exit_code"), number(&summary, "failures")), (124, 0));
    let (inside, offered) = (number(&summary, "inside_ns"), number(&summary, "offered_ns"));
    // What it takes too much is owed, as far as the host did not steal it.
    assert!(inside > offered / 4 && inside < offered * 5 / 4, "{summary}");
    assert_eq!(number(&summary, "outside_ns"), 0);
}

/// Tests that a thread that waits is not woken by its group's being stopped, as long as the group
/// keeps its budget (a stopped thread's epoll_wait(2) fails with EINTR).
#[test]
fn a_hard_program_within_its_budget_is_never_interrupted() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    // Python starts over after EINTR, so this asks the C library.
    let script = "import ctypes, select\n\
                  c = ctypes.CDLL(None, use_errno=True)\n\
                  e = select.epoll()\n\
                  b = ctypes.create_string_buffer(64)\n\
                  n = [c.epoll_wait(e.fileno(), b, 1, 5) for _ in range(100)]\n\
                  print(n.count(0), n.count(-1))\n";
    // Its start needs more than a few budgets, and sleeps after that.
    let wait = format!("import time\n{script}").replace("n = [", "time.sleep(0.3)\nn = [");
    let options = ["--reserve", "4ms/10ms", "--hard", "--quiet", "--", "python3", "-c", &wait];
    let Some(output) = run(&options) else { return };
    let counts: Vec<u32> =
        text(&output.stdout).split_whitespace().map(|n| n.parse().expect("a number")).collect();
    assert_eq!(counts, [100, 0], "{}", text(&output.stderr));
}

/// Returns the budgets that `run --json` reported, and that of its summary, in nanoseconds.
fn budgets(output: &std::process::Output) -> Vec<u64> {
    let lines = text(&output.stderr);
    let budget =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["budget_ns"].as_u64();
    lines.lines().filter_map(budget).collect()
}

#[test]
fn the_budget_follows_what_the_program_uses() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    // It wants all that it can get.
    let hog = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let options = ["--reserve", "1ms/10ms", "--adapt", "500us..4ms", "--json", "--"];
    let Some(output) = run(&[&options[..], &["sh", "-c", hog]].concat()) else { return };
    let grown = budgets(&output);
    assert!(grown.len() > 1 && grown.iter().all(|budget| *budget == 4_000_000), "{grown:?}");
    // It wakes every 10 ms, for more than 50 periods. What the host takes counts as use, so the budget
    // may grow again at times.
    let little = "import time\nfor _ in range(300): time.sleep(0.01)";
    let options = ["--reserve", "10ms/20ms", "--adapt", "1ms..10ms", "--json", "--"];
    let Some(output) = run(&[&options[..], &["python3", "-c", little]].concat()) else { return };
    let shrunk = budgets(&output);
    let is_less = |budget: &u64| (1_000_000..10_000_000).contains(budget);
    assert!(shrunk.len() > 1 && shrunk.iter().any(is_less), "{shrunk:?}");
}

/// Tests what holds on every host: more than the host has is refused with what is left, and a host that
/// keeps no memory says so. The laboratory's job `memory` shows that it is kept.
#[test]
fn memory_is_admitted_and_told_or_this_host_says_what_it_lacks() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    let with = |options: &[&str]| {
        let all = [&["--reserve", "2ms/20ms", "--json"], options, &["--", "true"]];
        Live::start(&all.concat()).output()
    };
    for (options, code, word) in [
        (&["--memory", "1000GiB"][..], 1, "refused by the memory test"),
        (&["--memory", "1000GiB"], 1, "it had memory"),
        (&["--memory", "0MiB"], 2, "keeps nothing"),
        (
            &["--memory", "8MiB", "--backend", "kernel"],
            2,
            "a server or a timetable of this process",
        ),
    ] {
        let refused = with(options);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(said.contains(word), "{said}");
    }
    let output = with(&["--memory", "8MiB"]);
    if output.status.code() == Some(3) {
        let said = text(&output.stderr);
        let lacks = ["no memory can be kept", "keeping a program's memory"];
        assert!(lacks.iter().any(|words| said.contains(words)), "{said}");
        return;
    }
    let summary = json(&output);
    assert_eq!((number(&summary, "exit_code"), number(&summary, "refaults")), (0, 0));
    assert_eq!(number(&summary, "memory_bytes"), 8 << 20);
    assert!(number(&summary, "memory_peak_bytes") > 0, "{summary}");
}

#[test]
fn what_cannot_adapt_is_refused() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    for (options, code, word) in [
        (&["--adapt", "3ms..4ms"][..], 2, "<= its budget <="),
        (&["--adapt", "1ms..11ms"], 2, "<= its period"),
        (&["--adapt", "1ms..4ms", "--backend", "timetable"], 3, "only a server"),
        (&["--adapt", "4ms..1ms"], 2, "not a range"),
    ] {
        let all = [&["--reserve", "2ms/10ms"], options, &["--", "echo", "ran"]];
        let output = Live::start(&all.concat()).output();
        let why = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(code), ""), "{why}");
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let _alone = alone();
    let Some(mut running) = sleeping() else { return };
    let child = running.ids()[0];
    signal(running.pid(), "KILL");
    running.wait();
    // The program dies with its parent; what it left behind is an ordinary process.
    assert!(eventually(|| policy(child).as_deref() != Some("1")), "{:?}", policy(child));
    signal(child, "KILL");
}

#[test]
fn what_a_server_cannot_do_is_refused() {
    let _alone = alone();
    if is_without_server() {
        return;
    }
    for (options, word) in [
        (&["--reserve", "200us/10ms", "--hard"][..], "ask for a soft one"),
        (&["--reserve", "10us/10ms"], "the least budget is"),
    ] {
        for back_end in [&["--backend", "server"][..], &["--backend", "timetable"], &[]] {
            let all = [back_end, options, &["--", "echo", "ran"]];
            let output = Live::start(&all.concat()).output();
            let why = text(&output.stderr);
            assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{why}");
            assert!(why.contains(word), "{why}");
        }
    }
}
