//! Programs of an ordinary user, under reservations that the broker grants.
//!
//! Each test has a broker of its own, run by root, and runs `punctual run` as the user nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::spawn;

use punctual_client::Broker;
use punctual_client::wire::{GrantStatus, Status};
use punctual_linux::process::{Signal, die_with_parent, send};
use punctual_linux::sched::{self, Class, SchedError};
use tempfile::TempDir;

use super::common::unprivileged;
use super::live::{PUNCTUAL, SHOW_POLICY, alone, eventually, json, number, text};

const CONFIG: &str = r#"
    [broker]
    grace = "2s"
    choose = "300ms"
    sample = "50ms"
    [default]
    share = "40%"
    max_grants = 100
    allow = ["reservations"]
"#;

/// The host profile in a broker's folder.
const PROFILE: &str = "host.toml";

/// A broker with its own folder, which every user may enter. Killed when dropped.
pub(crate) struct Serving {
    folder: TempDir,
    child: Child,
}

impl Serving {
    /// Starts a broker. Returns `None`, and prints the reason, where this host permits no
    /// reservations.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(CONFIG)
    }

    pub(crate) fn start_with(config: &str) -> Option<Self> {
        Self::start_on(config, None)
    }

    /// Starts a broker on a host with this profile, or on an unmeasured one if it is `None`.
    pub(crate) fn start_on(config: &str, profile: Option<&str>) -> Option<Self> {
        let reservation = "1ms/100ms".parse().expect("valid");
        let class = Class::Deadline { reservation, reset_on_fork: true };
        let mut tried = Ok(());
        // The bandwidth of a killed broker is free when its threads have gone.
        eventually(|| {
            tried = sched::try_out(class);
            !matches!(tried, Err(SchedError::NoBandwidth { .. }))
        });
        if let Err(refused) = tried {
            println!("skipped: {refused}");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("punctual-run").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        fs::write(folder.path().join("broker.toml"), config).expect("ours");
        if let Some(profile) = profile {
            fs::write(folder.path().join(PROFILE), profile).expect("ours");
        }
        let child = serve(folder.path());
        let serving = Self { folder, child };
        serving.wait();
        Some(serving)
    }

    /// Kills the broker and starts another one in its place.
    pub(crate) fn replace(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
        self.child = serve(self.folder.path());
        self.wait();
    }

    fn wait(&self) {
        assert!(eventually(|| Broker::connect_to(&self.socket()).is_ok()), "the broker answers");
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn status(&self) -> Status {
        Broker::connect_to(&self.socket()).and_then(|mut one| one.status()).expect("it answers")
    }

    /// Waits for the first grant and returns it.
    pub(crate) fn granted(&self) -> GrantStatus {
        let mut first = None;
        let found = eventually(|| {
            first = self.status().grants.first().cloned();
            first.is_some()
        });
        assert!(found, "something is granted");
        first.expect("found")
    }

    /// Runs `punctual run` as the user nobody with this broker.
    pub(crate) fn run(&self, arguments: &[&str]) -> Option<Output> {
        run(&self.socket(), arguments)
    }

    pub(crate) fn nothing_is_granted(&self) {
        assert!(eventually(|| self.status().totals.granted_ppm == 0), "{:?}", self.status());
    }
}

fn serve(folder: &Path) -> Child {
    let mut command = Command::new(PUNCTUAL);
    let profile = Some(folder.join(PROFILE)).filter(|file| file.exists());
    command.arg("serve").env("PUNCTUAL_HOST_PROFILE", profile.unwrap_or("ideal".into()));
    for (option, file) in
        [("--config", "broker.toml"), ("--socket", "socket"), ("--state", "state")]
    {
        command.arg(option).arg(folder.join(file));
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
    command.stdin(Stdio::null()).stderr(log.expect("ours"));
    die_with_parent(&mut command);
    command.spawn().expect("was built")
}

impl Drop for Serving {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            println!("the broker's log:\n{log}");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(socket: &Path, arguments: &[&str]) -> Option<Output> {
    let socket = socket.to_str().expect("UTF-8");
    unprivileged(&[&["run", "--broker", socket], arguments].concat())
}

#[test]
fn a_program_runs_under_a_grant_that_ends_with_it() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let script = format!("{SHOW_POLICY}; sh -c '{SHOW_POLICY}'; exit 7");
    for options in [
        &["--reserve", "2ms/10ms", "--"][..],
        &["--reserve", "2ms/10ms", "--backend", "kernel", "--hard", "--"],
    ] {
        let arguments = [options, &["sh", "-c", &script]].concat();
        let Some(output) = serving.run(&arguments) else { return };
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(7), "6\n0\n"), "{said}");
        for part in
            ["2ms/10ms, hard, by the kernel, for the first thread", "granted by the broker, grant"]
        {
            assert!(said.contains(part), "{said}");
        }
        serving.nothing_is_granted();
    }
}

#[test]
fn the_grant_is_reported_as_json() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let arguments = ["--reserve", "2ms/10ms", "--json", "--", "true"];
    let Some(output) = serving.run(&arguments) else { return };
    let summary = json(&output);
    assert_eq!(number(&summary, "grant"), 1);
    assert_eq!(summary["broker"], serving.socket().to_str().expect("UTF-8"));
    assert_eq!((&summary["backend"], &summary["revoked"].is_null()), (&"kernel".into(), &true));
    assert!(number(&summary, "inside_ns") > 0 && number(&summary, "periods") > 0);
}

#[test]
fn a_refusal_has_its_numbers_and_what_would_be_granted() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let arguments = ["--reserve", "5ms/10ms", "--", "echo", "ran"];
    let Some(output) = serving.run(&arguments) else { return };
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{said}");
    for part in [
        "punctual: refused by the quota test of the broker: ",
        "40.0 %",
        "it would be admitted with",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let Some(output) = serving.run(&["--reserve", "2ms/2s", "--", "echo", "ran"]) else { return };
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{said}");
    assert!(said.contains("the period 2s is longer than 1s"), "{said}");
    serving.nothing_is_granted();
}

#[test]
fn without_privilege_and_broker_both_ways_are_named() {
    let _alone = alone();
    let nobody = Path::new("/nonexistent/broker.sock");
    for backend in ["auto", "kernel"] {
        let arguments = ["--backend", backend, "--reserve", "2ms/10ms", "--", "echo", "ran"];
        let Some(output) = run(nobody, &arguments) else { return };
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(3), ""), "{said}");
        for part in ["CAP_SYS_NICE", "/nonexistent/broker.sock", "punctual serve"] {
            assert!(said.contains(part), "{said}");
        }
        let arguments = [&["run", "--no-broker"], &arguments[..]].concat();
        let Some(output) = unprivileged(&arguments) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("CAP_SYS_NICE") && said.contains("--no-broker"), "{said}");
    }
}

#[test]
fn options_that_the_broker_lacks_are_refused_before_it_is_asked() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    for options in [&["--hard"][..], &["--soft"], &["--cpu", "0"], &["--backend", "timetable"]] {
        let arguments = [&["--reserve", "2ms/10ms"], options, &["--", "echo", "ran"]].concat();
        let Some(output) = serving.run(&arguments) else { return };
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(3), ""), "{said}");
        assert!(said.contains("to the first thread alone"), "{said}");
    }
    assert_eq!(serving.status().totals.refused, 0);
}

#[test]
fn an_unexecutable_program_leaves_no_grant() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    for (program, code) in [("/nonexistent/program", 127), ("/etc/passwd", 126)] {
        let Some(output) = serving.run(&["--reserve", "2ms/10ms", "--", program]) else { return };
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        serving.nothing_is_granted();
    }
}

#[test]
fn the_programs_of_a_contract_are_granted_each_its_own() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let mut contract = String::new();
    for (name, budget) in [("one", "1ms"), ("two", "2ms")] {
        contract += &format!(
            "[[reservation]]\nname = \"{name}\"\nbudget = \"{budget}\"\nperiod = \"20ms\"\n\
             [[command]]\nname = \"run-{name}\"\nrun = [\"sh\", \"-c\", \"{SHOW_POLICY}\"]\n\
             reservation = \"{name}\"\nenforcement = \"hard\"\nbackend = \"kernel\"\n"
        );
    }
    let file = serving.folder.path().join("contract.toml");
    fs::write(&file, contract).expect("ours");
    let file = file.to_str().expect("UTF-8");
    let Some(plan) = serving.run(&["--dry-run", file]) else { return };
    assert!(text(&plan.stdout).contains("broker"), "{}", text(&plan.stderr));
    serving.nothing_is_granted();
    let Some(output) = serving.run(&[file]) else { return };
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "6\n6\n"), "{said}");
    assert!(said.contains("broker, grant 1") && said.contains("broker, grant 2"), "{said}");
    serving.nothing_is_granted();
}

#[test]
fn a_program_near_its_limit_or_without_its_grant_is_told() {
    let _alone = alone();
    let Some(serving) = Serving::start() else { return };
    let socket = serving.socket();
    // Ends when its grant has been taken back, or by itself.
    let hog = "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done";
    let running = spawn(move || run(&socket, &["--reserve", "2ms/10ms", "--", "sh", "-c", hog]));
    let began = eventually(|| running.is_finished() || !serving.status().grants.is_empty());
    assert!(began, "something is granted");
    if running.is_finished() {
        assert!(running.join().expect("no panic").is_none(), "ended early");
        return;
    }
    let grant = serving.granted();
    let near = eventually(|| {
        serving.status().grants.iter().any(|grant| grant.used_ppm.is_some_and(|ppm| ppm > 180_000))
    });
    assert!(near, "it uses all that it has");
    let tighter = CONFIG.replace("40%", "1%");
    fs::write(serving.folder.path().join("broker.toml"), tighter).expect("ours");
    send(&serving.child, Signal::HUP).expect("our child");
    let is_gone = || serving.status().grants.is_empty();
    assert!(eventually(is_gone), "the host got tighter");
    // Its listener looks four times a second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    super::live::signal(grant.pid, "KILL");
    let Some(output) = running.join().expect("no panic") else { return };
    let said = text(&output.stderr);
    for part in ["near its limit", "the host got tighter", "took the reservation back", "2ms/100ms"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(output.status.code(), Some(128 + 9), "{said}");
}

#[test]
fn a_grant_outlives_its_broker() {
    let _alone = alone();
    let Some(mut serving) = Serving::start() else { return };
    let socket = serving.socket();
    let running = spawn(move || run(&socket, &["--reserve", "2ms/10ms", "--", "sleep", "600"]));
    if eventually(|| running.is_finished() || !serving.status().grants.is_empty())
        && running.is_finished()
    {
        assert!(running.join().expect("no panic").is_none(), "ended early");
        return;
    }
    let before = serving.granted();
    serving.replace();
    let again = eventually(|| serving.granted().connected);
    // Waits for longer than the broker's grace time.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let after = serving.status().grants;
    super::live::signal(before.pid, "TERM");
    let Some(output) = running.join().expect("no panic") else { return };
    let said = text(&output.stderr);
    assert!(again, "somebody speaks for it: {said}");
    assert_eq!(after.iter().map(|grant| grant.grant).collect::<Vec<_>>(), [before.grant], "{said}");
    assert!(!said.contains("took the reservation back"), "{said}");
    assert_eq!(output.status.code(), Some(128 + 15), "{said}");
}
