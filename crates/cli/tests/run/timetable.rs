//! A timetable controls all processes and threads of the program, hard and soft.

use super::live::{SHOW_POLICY, alone, groups_of, json, number, policy, run, signal, text};

/// Three hogs, for a second and a half.
const HOGS: [&str; 5] =
    ["timeout", "1.5", "sh", "-c", "for i in 1 2 3; do (while :; do :; done) & done; wait"];

/// Returns the processor time that the host of this machine has taken away so far, in nanoseconds. A
/// slot that it interrupts is longer by that, also in the account of the program.
fn stolen() -> u64 {
    punctual_linux::host::stolen().map_or(0, |stolen| stolen.as_nanos())
}

/// Returns a quarter of the time of the given slots, because a host that takes the CPU away
/// shortens some of them.
fn least(summary: &serde_json::Value) -> u64 {
    number(summary, "slots") * number(summary, "budget_ns") / 4
}

#[test]
fn children_are_held_as_well() {
    let _alone = alone();
    let script = format!("{SHOW_POLICY}; sh -c '{SHOW_POLICY}'; (sh -c '{SHOW_POLICY}') & wait");
    let arguments =
        ["--backend", "timetable", "--reserve", "2ms/10ms", "--hard", "--", "sh", "-c", &script];
    let Some(output) = run(&arguments) else { return };
    assert_eq!(text(&output.stdout), "1\n1\n1\n", "{}", text(&output.stderr));
    for part in ["2ms/10ms, hard, by a timetable, for all that it starts, on CPU", "slots given"] {
        assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
    }
}

/// Runs under `punctual run` for [`threads_are_held_as_well`]. By itself it only counts its
/// threads.
#[test]
#[ignore = "a program for another test"]
fn several_threads() {
    let policies = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("is there").flatten();
        let stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat"));
        let policy =
            |stat: String| stat.rsplit_once(") ")?.1.split_whitespace().nth(38).map(str::to_owned);
        threads.filter_map(|thread| policy(stat(thread).ok()?)).collect::<Vec<_>>()
    };
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let wait = std::sync::Arc::clone(&wait);
            std::thread::spawn(move || wait.lock().is_ok_and(|wait| wait.recv().is_err()))
        })
        .collect();
    println!("policies {}", policies().join(" "));
    drop(go);
    assert!(threads.into_iter().all(|thread| thread.join().is_ok_and(|waited| waited)));
}

#[test]
fn threads_are_held_as_well() {
    let _alone = alone();
    let me = std::env::current_exe().expect("runs");
    let me = me.to_str().expect("UTF-8");
    let test = ["--ignored", "--exact", "timetable::several_threads", "--nocapture"];
    let arguments =
        [&["--backend", "timetable", "--reserve", "4ms/10ms", "--hard", "--", me][..], &test]
            .concat();
    let Some(output) = run(&arguments) else { return };
    let out = text(&output.stdout);
    let line = out.lines().find_map(|line| line.split_once("policies ")).expect("was printed").1;
    let policies: Vec<&str> = line.split_whitespace().collect();
    assert!(policies.len() >= 4 && policies.iter().all(|policy| *policy == "1"), "{line}");
}

#[test]
fn a_hard_hog_gets_about_its_share_and_no_more() {
    let _alone = alone();
    let options = ["--backend", "timetable", "--reserve", "2ms/10ms", "--hard", "--json", "--"];
    let before = stolen();
    let Some(output) = run(&[&options[..], &HOGS].concat()) else { return };
    let stolen = stolen() - before;
    let summary = json(&output);
    assert_eq!(summary["exit_code"], 124, "{summary}");
    assert_eq!(number(&summary, "failures"), 0);
    if summary["inside_ns"].is_null() {
        return println!("skipped: no account in control groups of version 1");
    }
    let inside = number(&summary, "inside_ns");
    let most = number(&summary, "wall_ns") * 3 / 10 + stolen;
    assert!(inside > least(&summary) && inside < most, "{stolen} ns stolen: {summary}");
    assert_eq!(number(&summary, "outside_ns"), 0);
    assert_eq!(number(&summary, "exec_time_ns"), number(&summary, "inside_ns"));
}

#[test]
fn a_soft_hogs_use_inside_and_outside_its_budget_is_told_apart() {
    let _alone = alone();
    let options = ["--backend", "timetable", "--reserve", "2ms/10ms", "--json", "--"];
    let before = stolen();
    let Some(output) = run(&[&options[..], &HOGS].concat()) else { return };
    let stolen = stolen() - before;
    let summary = json(&output);
    assert_eq!((&summary["enforcement"], &summary["exit_code"]), (&"soft".into(), &124.into()));
    if summary["inside_ns"].is_null() {
        return println!("skipped: no account in control groups of version 1");
    }
    let (inside, offered) = (number(&summary, "inside_ns"), number(&summary, "offered_ns"));
    let most = offered * 3 / 2 + stolen;
    assert!(inside > least(&summary) && inside < most, "{stolen} ns stolen: {summary}");
    let both = inside + number(&summary, "outside_ns");
    assert_eq!(number(&summary, "exec_time_ns"), both);
}

#[test]
fn a_process_left_running_does_not_change_the_sum_while_it_is_read() {
    let _alone = alone();
    let script = "(while :; do :; done) >&- 2>&- & echo $!; sleep 0.1";
    let by = ["--backend", "timetable", "--reserve", "2ms/10ms", "--json"];
    let arguments = [&by[..], &["--", "sh", "-c", script]].concat();
    let Some(output) = run(&arguments) else { return };
    let left: i32 = text(&output.stdout).trim().parse().expect("an id");
    signal(left, "KILL");
    let summary = json(&output);
    assert_eq!(number(&summary, "processes_set_free"), 1);
    if summary["inside_ns"].is_null() {
        return println!("skipped: no account in control groups of version 1");
    }
    let both = number(&summary, "inside_ns") + number(&summary, "outside_ns");
    assert_eq!(number(&summary, "exec_time_ns"), both);
}

#[test]
fn it_is_on_the_cpu_that_was_asked_for() {
    let _alone = alone();
    let mut cpus = punctual_linux::thread::affinity();
    let cpu = cpus.remove(0).to_string();
    let show = "grep Cpus_allowed_list /proc/self/status | cut -f2";
    for by in ["timetable", "server"] {
        let options = ["--backend", by, "--reserve", "2ms/10ms", "--cpu", &cpu, "--quiet"];
        let Some(output) = run(&[&options[..], &["--", "sh", "-c", show]].concat()) else { return };
        assert_eq!((text(&output.stdout).trim(), text(&output.stderr).trim()), (&*cpu, ""));
    }
}

#[test]
fn a_reservation_that_does_not_fit_is_refused_with_an_offer() {
    let _alone = alone();
    for (by, word) in [("timetable", "9.9ms/10ms does not fit"), ("server", "99.0 % of a CPU")] {
        let options = ["--backend", by, "--reserve", "9.9ms/10ms", "--", "echo", "ran"];
        let Some(output) = run(&options) else { return };
        let why = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{why}");
        assert!(why.contains(word), "{why}");
        assert!(why.contains("would be admitted if it had a budget of at most"), "{why}");
    }
}

#[test]
fn processes_left_behind_become_ordinary() {
    let _alone = alone();
    let script = "sleep 600 >&- 2>&- & echo $!; exit 5";
    let arguments = ["--reserve", "2ms/10ms", "--hard", "--json", "--", "sh", "-c", script];
    let Some(output) = run(&arguments) else { return };
    let left: i32 = text(&output.stdout).trim().parse().expect("an id");
    let (is, groups) = (policy(left), groups_of(left));
    signal(left, "KILL");
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(number(&json(&output), "processes_set_free"), 1);
    assert_eq!((is.as_deref(), groups.is_empty()), (Some("0"), true));
}
