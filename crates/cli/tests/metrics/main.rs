//! `punctual metrics` and `punctual serve --metrics`: compares the pages for Prometheus with
//! `punctual status`, and reads them with third-party parsers where those are installed.
//!
//! - `documents`: the texts about metrics.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

#[path = "../common/mod.rs"]
mod common;
mod documents;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{PROFILE, PUNCTUAL, punctual, text};
use punctual_client::want::Guarantee;
use punctual_client::{Spawned, spawn_granted};
use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use serde_json::Value;
use tempfile::TempDir;

const CONFIG: &str = r#"
    [default]
    share = "40%"
    allow = ["reservations", "channels"]
    [channels]
    link = "1gbit/s"
    transport = "null"
"#;

/// Polls until `found` returns a value, for up to thirty seconds.
fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = found() {
            return found;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("not within thirty seconds: {what}");
}

/// A broker with its own folder, and its metrics process. Killed when dropped.
struct Serving {
    folder: TempDir,
    child: Child,
}

impl Serving {
    /// Starts a broker. Returns `None`, and prints the reason, where this host permits no
    /// reservations.
    fn start() -> Option<Self> {
        let reservation = "1ms/100ms".parse().expect("valid");
        if let Err(refused) = sched::try_out(Class::Deadline { reservation, reset_on_fork: true }) {
            println!("skipped: {refused}");
            return None;
        }
        let folder =
            tempfile::Builder::new().prefix("punctual-metrics").tempdir().expect("a folder");
        fs::write(folder.path().join("broker.toml"), CONFIG).expect("ours");
        let mut command = Command::new(PUNCTUAL);
        command.arg("serve").env(PROFILE, "ideal");
        for (option, file) in [
            ("--config", "broker.toml"),
            ("--socket", "socket"),
            ("--state", "state"),
            ("--metrics", "metrics.sock"),
        ] {
            command.arg(option).arg(folder.path().join(file));
        }
        let log = File::create(folder.path().join("log")).expect("ours");
        command.stdin(Stdio::null()).stderr(log);
        die_with_parent(&mut command);
        let child = command.spawn().expect("was built");
        let serving = Self { folder, child };
        eventually("the broker answers", || {
            serving.page().contains("\npunctual_broker_up 1").then_some(())
        });
        Some(serving)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("ours")
    }

    fn status(&self) -> Value {
        let socket = self.path("socket");
        let status = punctual(&["status", "--json", "--broker", socket.to_str().expect("UTF-8")]);
        serde_json::from_slice(&status.stdout).expect("JSON")
    }

    /// Returns a page in the older format, which is easier to read here.
    fn page(&self) -> String {
        scrape(&self.path("metrics.sock"), "*/*").map_or_else(String::new, |(_, body)| body)
    }

    fn program(&self, script: &str) -> Spawned {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        die_with_parent(&mut command);
        let reservation = Guarantee::Reservation("1ms/10ms".parse().expect("valid"));
        spawn_granted(command, reservation, &self.path("socket")).expect("it fits")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("the log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns head and body, or `None` if the server does not listen yet.
fn scrape(path: &Path, accept: &str) -> Option<(String, String)> {
    let mut stream = UnixStream::connect(path).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Returns all values of a metric, with their labels.
fn values(page: &str, name: &str) -> Vec<(String, f64)> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
        let (labels, value) = rest.rsplit_once(' ')?;
        Some((labels.to_owned(), value.parse().expect("a number")))
    };
    page.lines().filter_map(of_line).collect()
}

fn value(page: &str, name: &str) -> f64 {
    match values(page, name)[..] {
        [(_, value)] => value,
        ref other => panic!("{name}: {other:?}\n{page}"),
    }
}

fn sum(page: &str, name: &str) -> f64 {
    values(page, name).iter().map(|(_, value)| value).sum()
}

/// Checks the page with a third-party program, if it is installed.
fn judged_by(command: &mut Command, page: &str) {
    let program = command.get_program().to_string_lossy().into_owned();
    let started =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = started else { return println!("not judged by {program}: not installed") };
    // A program that has already ended fails the check below.
    let _ = child.stdin.take().expect("piped").write_all(page.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("ModuleNotFoundError") {
        return println!("not judged by {program}: {said}");
    }
    assert!(output.status.success(), "{program}: {said}\n{page}");
}

#[test]
fn metrics_agree_with_status_and_third_party_parsers_read_them() {
    let Some(serving) = Serving::start() else { return };
    let program = serving.program("exec sleep 100");
    let refused = Command::new("true");
    let too_much = spawn_granted(
        refused,
        Guarantee::Reservation("9ms/10ms".parse().expect("valid")),
        &serving.path("socket"),
    );
    // Root has no quota, so the host decides whether this is refused. The page counts it either
    // way.
    drop(too_much);
    let page = eventually("the grant is told", || {
        let page = serving.page();
        (value(&page, "punctual_grants") == 1.0
            && !values(&page, "punctual_grant_used_cpus").is_empty())
        .then_some(page)
    });
    let status = serving.status();
    let totals = &status["totals"];
    let number = |value: &Value| value.as_f64().expect("a number");
    let ppm = |value: &Value| number(value) / 1e6;
    assert_eq!(value(&page, "punctual_granted_cpus"), ppm(&totals["granted_ppm"]));
    // The reservation, and the part that is reserved for the channels' threads.
    assert_eq!(value(&page, "punctual_granted_cpus"), 0.1 + 0.5);
    let capacity = ppm(&totals["reservable_ppm"]) * number(&totals["cpus"]);
    assert!((value(&page, "punctual_capacity_cpus") - capacity).abs() < 1e-9);
    let refusals = values(&page, "punctual_refusals_total");
    assert_eq!(refusals[0], ("{of=\"cpu\"}".to_owned(), number(&totals["refused"])));
    assert_eq!(refusals[1].0, "{of=\"channels\"}");
    let grant = &status["grants"][0];
    let labels =
        format!("{{grant=\"{}\",kind=\"reservation\",user=\"{}\"}}", grant["grant"], grant["uid"]);
    assert_eq!(values(&page, "punctual_grant_budget_cpus"), [(labels, ppm(&grant["share_ppm"]))]);
    let link = number(&status["channels"]["totals"]["link_bps"]) / 8.0;
    assert_eq!(value(&page, "punctual_link_bytes_per_second"), link);
    // /proc reports the broker's time in hundredths of a second, so it may still be zero.
    assert!(value(&page, "punctual_broker_cpu_seconds_total") >= 0.0);

    let (head, open) =
        scrape(&serving.path("metrics.sock"), "application/openmetrics-text").expect("it listens");
    let kind = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(kind), "{head}");
    assert!(open.ends_with("\n# EOF\n") && !page.contains("# EOF"));
    judged_by(Command::new("promtool").args(["check", "metrics"]), &page);
    let parser = "import sys\n\
                  from prometheus_client.openmetrics.parser import text_string_to_metric_families\n\
                  families = list(text_string_to_metric_families(sys.stdin.read()))\n\
                  assert any(f.name == 'punctual_grants' for f in families), families";
    judged_by(Command::new("/usr/bin/python3").args(["-c", parser]), &open);

    // A page printed once, without a listener, says the same.
    let socket = serving.path("socket");
    let once = punctual(&["metrics", "--broker", socket.to_str().expect("UTF-8")]);
    let once = text(&once.stdout);
    assert_eq!(value(&once, "punctual_granted_cpus"), 0.1 + 0.5);
    judged_by(Command::new("promtool").args(["check", "metrics"]), &once);
    end(program);
}

fn end(mut program: Spawned) {
    let _ = program.child.kill();
    let _ = program.child.wait();
}

/// Each job of this program needs more than its whole period, so each is late, and not by chance.
#[test]
fn misses_of_granted_work_are_counted_by_cause() {
    let Some(serving) = Serving::start() else { return };
    if value(&serving.page(), "punctual_observer_up") != 1.0 {
        println!("skipped: {}", serving.log());
        return;
    }
    let work = "while sleep 0.02; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";
    let program = serving.program(work);
    let page = eventually("late jobs are told", || {
        let page = serving.page();
        (sum(&page, "punctual_deadline_misses_total") >= 3.0).then_some(page)
    });
    end(program);
    let misses = values(&page, "punctual_deadline_misses_total");
    let main = misses.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("some");
    println!("{misses:?}");
    assert!(main.0.starts_with("{task=\"sh\",cause=\""), "{main:?}");
    let jobs = sum(&page, "punctual_jobs_total");
    let began = sum(&page, "punctual_wakeup_latency_seconds_count");
    assert!(jobs >= sum(&page, "punctual_deadline_misses_total") && began >= 3.0, "{page}");
    assert_eq!(value(&page, "punctual_observer_threads"), 1.0);
}

#[test]
fn the_broker_goes_on_without_its_metrics_process() {
    let Some(serving) = Serving::start() else { return };
    let children = format!("/proc/{0}/task/{0}/children", serving.child.id());
    let children = fs::read_to_string(children).expect("it lives");
    let answers = |child: &&str| {
        let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"metrics")
    };
    let child = children.split_whitespace().find(answers).expect("it answers");
    let status = Command::new("kill").args(["-KILL", child]).status().expect("kill");
    assert!(status.success());
    eventually("the log says so", || {
        serving.log().contains("the metrics process has ended").then_some(())
    });
    assert_eq!(serving.status()["totals"]["grants"], 0);
    assert!(scrape(&serving.path("metrics.sock"), "*/*").is_none());
}

#[test]
fn an_unusable_metrics_address_is_reported_before_serving() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    for (address, code, words) in [
        ("0.0.0.0:9464", 2, "not a loopback address"),
        ("localhost", 2, "no address and port"),
        ("/nonexistent/metrics.sock", 3, "choose another address"),
    ] {
        for command in [
            &["serve", "--socket", &path("socket"), "--state", &path("state"), "--metrics"][..],
            &["metrics", "--listen"],
        ] {
            let output = punctual(&[command, &[address]].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
    let nobody = punctual(&["metrics", "--broker", &path("nobody")]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(text(&nobody.stderr).contains("punctual serve"));
}
