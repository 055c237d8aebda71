//! Whole programs of an ordinary user, which the broker's dispatcher holds in servers.

use std::process::Output;
use std::thread::{JoinHandle, spawn};

use super::broker::{Serving, run};
use super::live::{alone, eventually, json, number, policy, signal, text};
use super::server::is_without_server;

const CONFIG: &str = r#"
    [host]
    cpus = 1
    [broker]
    grace = "2s"
    penalty = "60s"
    [default]
    share = "60%"
    max_grants = 100
    allow = ["programs"]
"#;

/// Starts a broker. Returns `None`, and prints the reason, where it can hold no programs.
fn serving() -> Option<Serving> {
    if is_without_server() {
        return None;
    }
    Serving::start_with(CONFIG)
}

/// Runs a program that `serving` is to hold, while the test does something else.
fn start(serving: &Serving, arguments: &[&str]) -> JoinHandle<Option<Output>> {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let socket = serving.socket();
    spawn(move || run(&socket, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// Waits until so many programs are granted. Returns whether this host runs programs of another user.
fn are_granted(serving: &Serving, count: usize, first: &JoinHandle<Option<Output>>) -> bool {
    let began = eventually(|| first.is_finished() || serving.status().grants.len() == count);
    assert!(began, "{count} programs are granted: {:?}", serving.status());
    serving.status().grants.len() == count
}

/// Waits until every thread of the processes of `leader`'s control group has this policy.
fn is_raised(pid: i32) -> bool {
    policy(pid).as_deref() == Some("1")
}

fn children_of(pid: i32) -> Vec<i32> {
    let of = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(of).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[test]
fn all_that_a_users_program_starts_runs_at_the_servers_level() {
    let _alone = alone();
    let Some(serving) = serving() else { return };
    let arguments = ["--reserve", "4ms/10ms", "--", "sh", "-c", "sleep 600 & sleep 600; exit 7"];
    let running = start(&serving, &arguments);
    if !are_granted(&serving, 1, &running) {
        assert!(running.join().expect("no panic").is_none(), "ended early");
        return;
    }
    let grant = serving.granted();
    let mut children = Vec::new();
    let both = eventually(|| {
        children = children_of(grant.pid);
        children.len() == 2
    });
    let raised = eventually(|| is_raised(grant.pid) && children.iter().all(|pid| is_raised(*pid)));
    children.iter().for_each(|pid| signal(*pid, "TERM"));
    let Some(output) = running.join().expect("no panic") else { return };
    let said = text(&output.stderr);
    assert!(both && raised, "{said}");
    assert_eq!(output.status.code(), Some(7), "{said}");
    for part in
        ["4ms/10ms, soft, by a server, for all that it starts, on CPU", "granted by the broker"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(grant.what, "4ms/10ms, soft server");
    serving.nothing_is_granted();
}

#[test]
fn a_hard_program_of_a_user_gets_its_budget_and_no_more() {
    let _alone = alone();
    let Some(serving) = serving() else { return };
    let hogs = "for i in 1 2 3; do (while :; do :; done) & done; wait";
    let options = ["--reserve", "2ms/10ms", "--hard", "--json", "--", "timeout", "1.5", "sh", "-c"];
    let Some(output) = serving.run(&[&options[..], &[hogs]].concat()) else { return };
    let summary = json(&output);
    // All of the program, whose children nobody waits for.
    let inside = number(&summary, "inside_ns");
    assert!(inside >= 100_000_000 && inside == number(&summary, "exec_time_ns"), "{summary}");
    let how = (&summary["backend"], &summary["enforcement"], &summary["revoked"]);
    assert_eq!(how, (&"server".into(), &"hard".into(), &serde_json::Value::Null), "{summary}");
    assert_eq!((number(&summary, "exit_code"), number(&summary, "grant")), (124, 1), "{summary}");
    serving.nothing_is_granted();
}

#[test]
fn programs_of_a_user_share_a_cpu() {
    let _alone = alone();
    let Some(serving) = serving() else { return };
    let hog = "while :; do :; done";
    let all: Vec<_> = (0..3)
        .map(|_| {
            let options = ["--reserve", "1ms/20ms", "--hard", "--json", "--", "timeout", "2"];
            start(&serving, &[&options[..], &["sh", "-c", hog]].concat())
        })
        .collect();
    let granted = are_granted(&serving, 3, &all[0]);
    let cpus: Vec<_> = serving.status().grants.iter().map(|grant| grant.cpu).collect();
    for one in all {
        let Some(output) = one.join().expect("no panic") else { return };
        assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    }
    assert!(granted);
    assert!(cpus.iter().all(|cpu| cpu.is_some() && *cpu == cpus[0]), "{cpus:?}");
}

/// Tests that the broker keeps no CPU from others on which it holds nothing any more.
#[test]
fn a_cpu_without_programs_is_anybodys() {
    let _alone = alone();
    let Some(serving) = serving() else { return };
    let Some(output) = serving.run(&["--reserve", "2ms/10ms", "--json", "--", "true"]) else {
        return;
    };
    let cpu = number(&json(&output), "cpu").to_string();
    serving.nothing_is_granted();
    let own = ["--no-broker", "--reserve", "2ms/20ms", "--cpu", &cpu, "--", "true"];
    let mut said = String::new();
    let is_free = eventually(|| {
        let output = super::live::Live::start(&own).output();
        said = text(&output.stderr);
        output.status.success()
    });
    assert!(is_free, "{said}");
}

#[test]
fn a_program_beyond_the_quota_or_the_cpu_is_refused_with_an_offer() {
    let _alone = alone();
    let Some(serving) = serving() else { return };
    for (asked, test, offer) in [
        ("7ms/10ms", "the quota test", "a budget of at most"),
        ("20us/10ms", "the server test", "a budget of at least 100us"),
        ("9ms/10ms --hard", "the quota test", "a budget of at most"),
    ] {
        let words: Vec<&str> = asked.split(' ').chain(["--", "echo", "ran"]).collect();
        let Some(output) = serving.run(&[&["--reserve"], &words[..]].concat()) else { return };
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{said}");
        assert!(said.contains(test) && said.contains(offer), "{said}");
    }
    serving.nothing_is_granted();
}

/// Tests that a program loses its grant when it goes where nothing counts its time, or has more
/// threads than can be looked at, and is an ordinary one then.
#[test]
fn a_program_that_breaks_out_is_an_ordinary_one() {
    let _alone = alone();
    if punctual_linux::thread::affinity().len() < 2 {
        return println!("skipped: it takes two CPUs");
    }
    for (script, why) in [
        ("taskset -pc 0 $$ >/dev/null; sleep 600", "may run on other CPUs"),
        ("for i in $(seq 300); do sleep 600 & done; wait", "more than 256 threads"),
    ] {
        let Some(serving) = serving() else { return };
        let running = start(&serving, &["--reserve", "4ms/10ms", "--", "sh", "-c", script]);
        if !are_granted(&serving, 1, &running) {
            assert!(running.join().expect("no panic").is_none(), "ended early");
            return;
        }
        let pid = serving.granted().pid;
        let is_over = eventually(|| serving.status().grants.is_empty());
        let is_ordinary = eventually(|| policy(pid).as_deref() == Some("0"));
        let again = serving.run(&["--reserve", "4ms/10ms", "--", "echo", "ran"]);
        // Its listener looks four times a second.
        std::thread::sleep(std::time::Duration::from_secs(1));
        children_of(pid).into_iter().for_each(|pid| signal(pid, "KILL"));
        signal(pid, "KILL");
        let Some(output) = running.join().expect("no panic") else { return };
        let said = text(&output.stderr);
        assert!(is_over && is_ordinary && said.contains(why), "{said}");
        assert!(said.contains("goes on as an ordinary one"), "{said}");
        let refused = again.map(|output| text(&output.stderr)).unwrap_or_default();
        assert!(refused.contains("conduct"), "{refused}");
    }
}

#[test]
fn a_program_outlives_its_broker() {
    let _alone = alone();
    let Some(mut serving) = serving() else { return };
    let running = start(&serving, &["--reserve", "4ms/10ms", "--", "sleep", "600"]);
    if !are_granted(&serving, 1, &running) {
        assert!(running.join().expect("no panic").is_none(), "ended early");
        return;
    }
    let before = serving.granted();
    serving.replace();
    let again = eventually(|| serving.granted().connected && is_raised(before.pid));
    let after = serving.granted();
    signal(before.pid, "TERM");
    let Some(output) = running.join().expect("no panic") else { return };
    let said = text(&output.stderr);
    assert!(again && after.grant == before.grant, "{said}");
    // The second broker does not know what the first one gave.
    assert!(!said.contains("% of the"), "{said}");
    assert_eq!(output.status.code(), Some(128 + 15), "{said}");
    serving.nothing_is_granted();
}
