//! `punctual calibrate` on this host, and the use of its profile by the other commands. No test
//! checks the magnitude of a figure, since it depends on the host.

mod channels;
#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use channels::{receiving_is_charged, sending_is_charged, with_channels};
use common::{PROFILE, PUNCTUAL, punctual, text, unprivileged};
use punctual_linux::host;
use punctual_model::host::{Calibration, HostIdentity, Operation, Percentile, Run, SwitchCharge};
use punctual_model::{Duration, Service};
use serde_json::{Value, json};

const CONTRACT: &str = "
[[task]]
name = 'audio'
period = '10ms'
wcet = '2ms'
";

/// Returns a profile of this or another host with 1 ms a switch, a fifth of it for the switch
/// itself.
fn profile(host: HostIdentity) -> Calibration {
    Calibration {
        host,
        run: Run {
            at_unix_s: 1_700_000_000,
            duration: Duration::from_secs(60),
            version: "0.1.0".into(),
            quick: false,
            stolen: None,
        },
        switching: Some(SwitchCharge {
            switch: Service::from_micros(200),
            by: Operation::ProcessSwitch,
            cache_refill: Service::from_micros(800),
            working_set: 65_536,
            percentile: Percentile::P99,
        }),
        sending: None,
        receiving: None,
        figures: Vec::new(),
        cache_refill: Vec::new(),
        messages: Vec::new(),
        arrivals: Vec::new(),
        absent: Vec::new(),
    }
}

fn elsewhere() -> HostIdentity {
    HostIdentity { kernel_release: "0.99".into(), ..host::identity() }
}

/// A folder with the contract and other files by name.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("contract.toml"), CONTRACT).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn with(&self, name: &str, calibration: &Calibration) -> String {
        let path = self.path(name);
        fs::create_dir_all(Path::new(&path).parent().expect("a folder")).expect("made");
        fs::write(&path, calibration.to_string()).expect("written");
        path
    }

    fn admit(&self, more: &[&str]) -> Output {
        punctual(&[&["admit", &self.path("contract.toml")], more].concat())
    }
}

fn parse(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_quick_run_measures_spreads_in_order_and_is_used() {
    let place = Place::new();
    let path = place.with("host.toml", &with_channels());
    let arguments = ["calibrate", "--quick", "--json", "--working-set", "32KiB", "--output", &path];
    let output = punctual(&arguments);
    assert!(output.stderr.is_empty(), "no progress where there is no terminal");
    let page = parse(&output);
    let figures = page["figures"].as_array().expect("a list");
    let refills = page["cache_refill"].as_array().expect("a list");
    let absent = page["absent"].as_array().expect("a list");
    let names: Vec<&str> =
        figures.iter().filter_map(|figure| figure["operation"].as_str()).collect();
    for (name, _) in Operation::NAMES {
        let why = absent.iter().find(|one| one["what"] == name);
        assert!(
            names.contains(&name) != why.is_some(),
            "{name} is measured or absent with a reason"
        );
    }
    let messages = page["messages"].as_array().expect("a list");
    let arrivals = page["arrivals"].as_array().expect("a list");
    for sampled in figures.iter().chain(refills).chain(messages).chain(arrivals) {
        let number = |key: &str| sampled[key].as_u64().expect("a number");
        let spread = ["min_ns", "p50_ns", "p99_ns", "max_ns"].map(number);
        assert!(spread.is_sorted() && number("samples") > 0, "{sampled}");
    }

    let written = Calibration::parse(&path, &fs::read(&path).expect("written")).expect("valid");
    assert_eq!(written.host.difference(&host::identity()), None);
    assert_eq!(written.figures.len(), figures.len());
    sending_is_charged(&place, &path, &written, &page);
    receiving_is_charged(&written, &page);
    let charged = written.switching.map_or(0, |charge| charge.context_switch().as_nanos());
    assert_eq!(page["switching"]["context_switch_ns"].as_u64().unwrap_or(0), charged);
    // A busy host may have measured switches beneath which nothing fits.
    let answer = place.admit(&["--json", "--host-profile", &path]);
    let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    let stamp = &answer["host_profile"];
    assert_eq!(stamp["context_switch_ns"], charged);
    assert_eq!(stamp["path"], path);
}

#[test]
fn admission_charges_two_switches_a_job_and_says_so() {
    let place = Place::new();
    let path = place.with("host.toml", &profile(host::identity()));
    let bound = |page: &Value| page["tasks"][0]["response_time_bound_ns"].as_u64();
    let page = parse(&place.admit(&["--json", "--host-profile", &path]));
    assert_eq!(bound(&page), Some(4_000_000));
    assert_eq!(
        page["host_profile"],
        json!({
            "path": path,
            "measured_at_unix_s": 1_700_000_000,
            "measured_on": "2023-11-14",
            "context_switch_ns": 1_000_000,
            "wake_up_ns": 0,
            "percentile_ppm": 990_000,
            "working_set_bytes": 65_536,
            "sending_measured": false,
            "receiving_measured": false,
        })
    );
    let page = parse(&place.admit(&["--json"]));
    assert_eq!(bound(&page), Some(2_000_000));
    assert_eq!(page["host_profile"]["path"], Value::Null);

    let line = format!("host profile: {path}, measured on 2023-11-14: 1ms charged");
    let contract = place.path("contract.toml");
    for arguments in [
        &["admit", &contract][..],
        &["simulate", &contract],
        &["simulate", "--witness", &contract],
        &["explore", &contract, "--what", "breakdown", "--out", &place.path("out")],
    ] {
        let answer = punctual(&[arguments, &["--host-profile", &path]].concat());
        assert!(text(&answer.stdout).contains(&line), "{arguments:?}: {}", text(&answer.stdout));
    }
    let page = fs::read_to_string(place.path("out/index.html")).expect("written");
    assert!(page.contains(&line));
    let free = text(&place.admit(&[]).stdout);
    assert!(free.contains("host profile: ideal: switches are free"), "{free}");
}

#[test]
fn a_simulation_pays_what_admission_charges() {
    let place = Place::new();
    let path = place.with("host.toml", &profile(host::identity()));
    let contract = place.path("contract.toml");
    let page = |more: &[&str]| {
        let arguments = ["simulate", "--json", "--for", "1s", "--host-profile", &path, &contract];
        parse(&punctual(&[&arguments[..], more].concat()))
    };
    let measured = page(&[]);
    let costs = json!({ "switch_ns": 200_000, "cache_ns": 800_000, "wake_up_ns": 0 });
    assert_eq!(measured["overheads"], costs);
    let task = &measured["tasks"][0];
    assert_eq!(task["response_time_bound_ns"], 4_000_000);
    assert!(task["max_response_time_ns"].as_u64() > Some(2_000_000), "{task}");
    let given = page(&["--overheads", "1us"]);
    assert_eq!(given["host_profile"]["context_switch_ns"], 1_000);
    assert_eq!(given["tasks"][0]["response_time_bound_ns"], 2_002_000);
    let late = page(&["--overheads", "1us,0us,500us"]);
    assert_eq!(late["host_profile"]["wake_up_ns"], 500_000);
    assert_eq!(late["tasks"][0]["response_time_bound_ns"], 2_502_000);
    // A job whose release finds the CPU idle costs the wake-up and one switch.
    assert_eq!(late["tasks"][0]["max_response_time_ns"], 2_501_000);
}

/// Names the profile by the option and by the variable.
#[test]
fn a_profile_of_another_host_is_used_only_if_it_is_named() {
    let place = Place::new();
    let path = place.with("host.toml", &profile(elsewhere()));
    let output = place.admit(&["--json", "--host-profile", &path]);
    assert!(text(&output.stderr).contains("is of another host: its kernel was 0.99"));
    assert_eq!(parse(&output)["host_profile"]["path"], path);

    // The variable works like the option, and the option takes precedence.
    let by_variable = |more: &[&str]| {
        let contract = place.path("contract.toml");
        let mut command = Command::new(PUNCTUAL);
        command.env(PROFILE, &path).args(["admit", "--json", &contract]).args(more);
        parse(&command.output().expect("was built"))
    };
    assert_eq!(by_variable(&[])["host_profile"]["path"], path);
    assert_eq!(by_variable(&["--host-profile", "ideal"])["host_profile"]["path"], Value::Null);
}

#[test]
fn a_missing_profile_is_told_with_the_command_that_makes_it() {
    let place = Place::new();
    let path = place.path("none.toml");
    let output = place.admit(&["--host-profile", &path]);
    assert_eq!(output.status.code(), Some(2));
    let wanted = format!("no such host profile; measure one: punctual calibrate --output {path}");
    assert!(text(&output.stderr).contains(&wanted), "{}", text(&output.stderr));
}

/// Runs as a user whose state folder holds the profile, in a temporary folder, so that no real
/// profile is changed.
#[test]
fn a_stale_default_is_left_with_a_note_and_a_fresh_one_is_used() {
    let Some(probe) = unprivileged(&["--version"]) else { return };
    assert!(probe.status.success());
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.0.path(), open).expect("ours");
    let program = place.path("punctual");
    fs::copy(PUNCTUAL, &program).expect("copied");
    let admit = || {
        let setpriv = ["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
        let mut command = Command::new("setpriv");
        command.env_remove(PROFILE).env("XDG_STATE_HOME", place.path("state")).args(setpriv);
        command.args([&program, "admit", "--json", &place.path("contract.toml")]);
        command.output().expect("was just there")
    };
    let path = place.with("state/punctual/host.toml", &profile(elsewhere()));
    let output = admit();
    let note = text(&output.stderr);
    assert!(
        note.contains("is stale: its kernel was 0.99") && note.contains("punctual calibrate"),
        "{note}"
    );
    assert_ne!(parse(&output)["host_profile"]["path"], path);

    place.with("state/punctual/host.toml", &profile(host::identity()));
    let output = admit();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(parse(&output)["host_profile"]["path"], path);

    fs::write(&path, "format = 1\nhots = 2\n").expect("written");
    let note = text(&admit().stderr);
    assert!(note.contains("host.toml:2:1: unknown field") && note.contains("not used"), "{note}");
}

#[test]
fn bad_usage_and_bad_profiles_are_exit_2_before_anything_is_measured() {
    let place = Place::new();
    let missing = place.path("none.toml");
    let broken = place.path("broken.toml");
    fs::write(&broken, "format = 1\n[host]\ncpus = \"two\"\n").expect("written");
    let contract = place.path("contract.toml");
    for (arguments, words) in [
        (&["calibrate", "--working-set", "64KB"][..], "write kB for 1000 bytes or KiB for 1024"),
        (&["calibrate", "--working-set", "1GiB"], "from 64B to 64MiB"),
        (&["calibrate", "--packet", "0B"], "a packet has from 1B to 65475B"),
        (&["calibrate", "--send-to", "nowhere"], "invalid"),
        (&["calibrate", "--percentile", "10"], "\"10%\" is below 50%"),
        (&["calibrate", "--percentile", "101"], "above 100%"),
        (&["calibrate", "--output", "-", "--json"], "both want standard output"),
        (&["calibrate", "--output", "/nowhere/at/all"], "cannot be written"),
        (&["admit", "--host-profile", &missing, &contract], "there is no such host profile"),
        (&["admit", "--host-profile", &broken, &contract], "broken.toml:3:8: invalid type"),
    ] {
        let output = punctual(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}\n wanted {words}", text(&output.stderr));
    }
}

#[test]
fn without_privilege_it_measures_a_part_and_lists_the_rest() {
    let Some(output) = unprivileged(&["calibrate", "--quick", "--output", "-"]) else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let calibration =
        Calibration::parse("-", &output.stdout).expect("a profile on standard output");
    assert!(calibration.figure(Operation::ProcessSwitch).is_none());
    let why = |what| {
        let absent = calibration.absent.iter().find(|absent| absent.what == what);
        absent.map(|absent| absent.why.as_str())
    };
    assert!(why("process-switch").expect("told").contains("CAP_SYS_NICE"));
    // A failure because the host is too busy does not count as missing privilege.
    let for_noise = why("clock-read").is_some_and(|why| !why.contains("CAP_SYS_NICE"));
    assert!(calibration.figure(Operation::ClockRead).is_some() || for_noise);
    if let Some(charge) = calibration.switching {
        assert_eq!(charge.by, Operation::HandOffSameCpu);
    }
    if let Some(charge) = calibration.receiving {
        assert_eq!(charge.path.as_deref(), Some("loopback"), "no namespaces without privilege");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = text(&punctual(&["calibrate", "--help"]).stdout);
    for wanted in ["punctual calibrate --quick", "--percentile", "host.toml", "Exit codes"] {
        assert!(help.contains(wanted), "{wanted}");
    }
}
