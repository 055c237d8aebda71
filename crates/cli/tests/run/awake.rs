//! `--awake`: CPUs do not halt while the programs run, and may halt again afterwards.

use std::fs;
use std::path::PathBuf;

use punctual_linux::awake::Awake;
use punctual_linux::cgroup::Hierarchy;
use punctual_linux::thread;
use serde_json::Value;

use super::broker::Serving;
use super::live::{Live, alone, eventually, json, number, policy, run, text};

/// SCHED_IDLE, as [`policy`] returns it.
const IDLE: &str = "5";

/// Returns the threads of the process `pid` that keep CPUs from halting.
fn spinners(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let spins = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("awake/"))
    };
    let paths = threads.flatten().map(|thread| thread.path()).filter(spins);
    paths.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

/// Returns the CPUs to which the spinners are bound, in ascending order, and whether all are under
/// SCHED_IDLE. A thread may end meanwhile.
fn seats(spinners: &[i32]) -> (Vec<usize>, bool) {
    let tids = || spinners.iter().filter_map(|tid| thread::Tid::from_raw(*tid));
    let mut cpus: Vec<usize> = tids().flat_map(thread::affinity_of).collect();
    cpus.sort_unstable();
    (cpus, spinners.iter().all(|tid| policy(*tid).as_deref() == Some(IDLE)))
}

fn is_gone(tid: i32) -> bool {
    eventually(|| !PathBuf::from(format!("/proc/{tid}")).exists())
}

/// Counts the control groups that a process made for its spinners.
fn groups_below_all(pid: i32) -> usize {
    let Some(hierarchy) = Hierarchy::v1("cpu") else { return 0 };
    let name = format!("punctual-{pid}-");
    let entries = fs::read_dir(hierarchy.root()).expect("it is mounted").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
}

fn cpus_of(json: &Value) -> Vec<u64> {
    json["awake_cpus"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
}

#[test]
fn the_reservations_cpu_does_not_halt_while_the_program_runs_and_nothing_stays() {
    let _alone = alone();
    let cpu = thread::affinity()[0];
    let (on, script) = (cpu.to_string(), "echo $$; exec sleep 600");
    let arguments =
        ["--awake", "--reserve", "2ms/10ms", "--cpu", &on, "--json", "--", "sh", "-c", script];
    let Some(live) = Live::with_ids(&arguments, 1) else { return };
    let pid = live.pid();
    // The spinners of the other CPUs end once the program's CPU is known.
    let one = || seats(&spinners(pid)) == (vec![cpu], true);
    assert!(eventually(one), "{:?}", seats(&spinners(pid)));
    assert_eq!(
        policy(live.ids()[0]).map(|policy| policy == IDLE),
        Some(false),
        "the program is not"
    );
    let left = spinners(pid);
    live.signal("TERM");
    let output = live.output();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    assert_eq!(cpus_of(&json(&output)), [cpu as u64]);
    assert!(left.into_iter().all(is_gone));
    assert_eq!(groups_below_all(pid), 0);
}

#[test]
fn a_program_that_the_kernel_holds_may_be_on_any_cpu() {
    let _alone = alone();
    let script = "echo $$; exec sleep 600";
    let arguments = ["--awake", "--backend", "kernel", "--reserve", "2ms/100ms"];
    let arguments = [&arguments[..], &["--json", "--", "sh", "-c", script]].concat();
    let Some(mut live) = Live::with_ids(&arguments, 1) else { return };
    let pid = live.pid();
    let all = || seats(&spinners(pid)) == (thread::affinity(), true);
    assert!(eventually(all), "{:?}", seats(&spinners(pid)));
    // SCHED_DEADLINE, on all CPUs.
    assert!(eventually(|| policy(live.ids()[0]).as_deref() == Some("6")));
    let left = spinners(pid);
    live.signal("KILL");
    live.wait();
    assert!(left.into_iter().all(is_gone), "they die with us");
    // The next start removes the groups that the killed process left.
    drop(Awake::start(&thread::affinity()).expect("needs no privilege"));
    assert_eq!(groups_below_all(pid), 0);
}

/// The program's account does not include the spinners' time.
#[test]
fn a_hard_hog_gets_no_more_beside_a_spinner() {
    let _alone = alone();
    let hog = ["timeout", "1", "sh", "-c", "while :; do :; done"];
    let options = ["--awake", "--reserve", "2ms/10ms", "--hard", "--json", "--"];
    let Some(output) = run(&[&options[..], &hog].concat()) else { return };
    let summary = json(&output);
    assert_eq!((&summary["exit_code"], cpus_of(&summary).len()), (&124.into(), 1), "{summary}");
    assert_eq!(number(&summary, "failures"), 0);
    if summary["inside_ns"].is_null() {
        return println!("skipped: no account in control groups of version 1");
    }
    let (inside, wall) = (number(&summary, "inside_ns"), number(&summary, "wall_ns"));
    assert!(inside > 0 && inside < wall * 3 / 10, "{summary}");
    assert_eq!(number(&summary, "outside_ns"), 0);
}

#[test]
fn without_privilege_cpus_stay_awake_and_a_note_says_which_threads_share_them() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let arguments = ["--awake", "--reserve", "2ms/10ms", "--", "true"];
    let Some(output) = serving.run(&arguments) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("not halt meanwhile; ordinary threads of other sessions"), "{said}");
}

#[test]
fn of_a_contract_the_cpus_of_all_its_programs_do_not_halt() {
    let _alone = alone();
    let cpus = thread::affinity();
    let cpu = cpus[0];
    let contract = format!(
        "[[reservation]]\nname = \"a\"\nbudget = \"2ms\"\nperiod = \"20ms\"\n\
         [[command]]\nname = \"held\"\nrun = [\"true\"]\nreservation = \"a\"\ncpu = {cpu}\n\
         [[command]]\nname = \"ordinary\"\nrun = [\"true\"]\n"
    );
    let folder = tempfile::tempdir().expect("can be made");
    let file = folder.path().join("contract.toml");
    fs::write(&file, contract).expect("writes");
    let file = file.to_str().expect("UTF-8");
    for (only, expected) in
        [(&["--only=held"][..], &[cpu][..]), (&[], &cpus), (&["--only=ordinary"], &cpus)]
    {
        let Some(output) = run(&[only, &["--awake", "--json", file]].concat()) else { return };
        let page = json(&output);
        assert_eq!(output.status.code(), Some(0), "{page}");
        let expected: Vec<u64> = expected.iter().map(|cpu| *cpu as u64).collect();
        assert_eq!(cpus_of(&page), expected, "{page}");
    }
    let Some(output) = run(&["--awake", "--only=held", file]) else { return };
    let said = text(&output.stderr);
    assert!(said.contains(&format!("CPU {cpu} does not halt meanwhile")), "{said}");
}
