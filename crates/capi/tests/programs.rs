//! Builds C and C++ programs against the library as it is installed, and runs them.
//!
//! A program exits with 0 if all holds, with 3 if this host is not able to (then its part is
//! skipped, and the reason printed), and with anything else if something does not hold.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use punctual::admission::Answer;
use punctual::contract::{self, Declared, Noted};
use punctual::host;
use punctual::simulate::{Options, Simulation};
use punctual::trace::{Existing, Recorder, run_in_virtual_time};
use punctual_model::{self as model, JobId};
use punctual_trace::{Event, Kind, Subject, SubjectKind};
use serde_json::Value;
use tempfile::TempDir;

/// The time-out of a program, on a machine with other things to do.
const TIMEOUT: Duration = Duration::from_secs(90);

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the library in its own folder, as `make` does, and returns where it is. Beside the other
/// crates of the workspace it would link what they need.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let this = std::env::current_exe().expect("the test has a path");
        // target/debug/deps/programs-…
        let target = this.ancestors().nth(3).expect("and Cargo's folders").join("library");
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let profile = if cfg!(debug_assertions) { "quick" } else { "release" };
        let built = Command::new(cargo)
            .args(["build", "--locked", "-p", "punctual-capi", "-p", "punctual-interpose"])
            .args(["--profile", profile])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(root())
            .output()
            .expect("cargo");
        assert!(built.status.success(), "{}", said(&built));
        target.join(profile)
    })
}

/// A folder into which the library was installed.
struct Installed(TempDir);

/// Shared by the tests that run at the same time, because a library with debug information is
/// large. Removed with the last of them.
static SHARED: Mutex<Weak<Installed>> = Mutex::new(Weak::new());

impl Installed {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder for the library");
        let install = Command::new(root().join("tools/install-library"))
            .arg(library())
            .env("PREFIX", folder.path())
            .env_remove("LIBDIR")
            .env_remove("DESTDIR")
            .output()
            .expect("a shell");
        assert!(install.status.success(), "{}", said(&install));
        Self(folder)
    }

    fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let installed = Arc::new(Self::new());
            *shared = Arc::downgrade(&installed);
            installed
        })
    }

    fn lib(&self) -> PathBuf {
        self.0.path().join("lib")
    }

    fn pkg_config(&self, wanted: &[&str]) -> Vec<String> {
        let found = Command::new("pkg-config")
            .args(wanted)
            .arg("punctual")
            .env("PKG_CONFIG_PATH", self.lib().join("pkgconfig"))
            .output()
            .expect("pkg-config, which `make deps` installs");
        assert!(found.status.success(), "{}", said(&found));
        String::from_utf8_lossy(&found.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// Builds `source`. Returns `None`, and prints the reason, if there is no such compiler.
    fn build(&self, compiler: &str, standard: &str, source: &str) -> Option<PathBuf> {
        let name = Path::new(source).file_stem().expect("a file").to_string_lossy().into_owned();
        let of_its_own = self.0.path().join(format!("{:?}", std::thread::current().id()));
        fs::create_dir_all(&of_its_own).expect("a folder for the program");
        let program = of_its_own.join(name);
        let built = Command::new(compiler)
            .arg(format!("-std={standard}"))
            .args(STRICT)
            .args(self.pkg_config(&["--cflags"]))
            .arg(root().join(source))
            .arg("-o")
            .arg(&program)
            .args(self.pkg_config(&["--libs"]))
            .arg(format!("-Wl,-rpath,{}", self.lib().display()))
            .output();
        match built {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: there is no {compiler}");
                None
            }
            built => {
                let built = built.expect("the compiler runs");
                assert!(built.status.success(), "{}", said(&built));
                Some(program)
            }
        }
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A child that is killed when this is dropped, so that a failing test leaves no program behind.
struct Killed(Option<Child>);

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the program to its end, or fails after the time-out. Returns what it printed, unless the
/// host is not able to run it. The program must exit with 0, or with `may_be`.
fn run(program: &Path, arguments: &[&str], may_be: Option<i32>) -> Option<String> {
    let child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut child = Killed(Some(child));
    let since = Instant::now();
    let running = |child: &mut Killed| {
        let status = child.0.as_mut().expect("not taken yet").try_wait();
        status.expect("our child").is_none()
    };
    while running(&mut child) {
        assert!(since.elapsed() < TIMEOUT, "{} {arguments:?} does not end", program.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    let child = child.0.take().expect("not taken yet");
    let output = child.wait_with_output().expect("our child");
    match output.status.code() {
        Some(code) if code == 0 || may_be == Some(code) => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Some(3) => {
            println!("{} {arguments:?}: {}", program.display(), said(&output));
            None
        }
        _ => panic!("{} {arguments:?}: {}", program.display(), said(&output)),
    }
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Builds and runs a program, one at a time, because programs with real-time threads would disturb
/// each other.
fn check(standard: &str, source: &str, arguments: &[&str]) -> Option<String> {
    check_or(standard, source, arguments, None)
}

fn check_or(
    standard: &str,
    source: &str,
    arguments: &[&str],
    may_be: Option<i32>,
) -> Option<String> {
    let installed = Installed::shared();
    let program = installed.build("cc", standard, source)?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    run(&program, arguments, may_be)
}

#[test]
fn the_library_needs_no_other_than_that_of_c() {
    let library = library().join("libpunctual.so");
    let read = Command::new("readelf").arg("-d").arg(&library).output().expect("readelf");
    let text = String::from_utf8_lossy(&read.stdout);
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<&str> = needed.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
    let allowed = ["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux"];
    let other = |name: &&&str| !allowed.iter().any(|allowed| name.starts_with(allowed));
    assert!(needed.contains(&"libc.so.6"), "{text}");
    assert_eq!(needed.iter().find(other), None);
}

#[test]
fn a_library_that_needs_another_is_not_installed() {
    let folder = TempDir::new().expect("a folder");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .env("PREFIX", folder.path().join("installed"))
            .env_remove("DESTDIR")
            .output();
        output.expect("a compiler, an archiver and a shell")
    };
    let made = |made: Output| assert!(made.status.success(), "{}", said(&made));
    let install = root().join("tools/install-library");
    for (linked, member, words) in [
        ("-lelf", "one.o", "libpunctual.so needs libelf"),
        ("-lc", "libbpf.o", "libpunctual.a contains libbpf"),
    ] {
        for empty in [member, "libpunctual_udp.so"] {
            fs::write(folder.path().join(empty), "").expect("a file");
        }
        let options = ["-shared", "-x", "c", "/dev/null", "-Wl,--no-as-needed", linked];
        made(run("cc", &[&options[..], &["-o", "libpunctual.so"]].concat()));
        made(run("ar", &["rc", "libpunctual.a", member]));
        let refused = run(install.to_str().expect("UTF-8"), &["."]);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && why.contains(words), "{}", said(&refused));
    }
    assert!(!folder.path().join("installed").exists());
}

#[test]
fn bad_arguments_are_refused() {
    check("c99", "crates/capi/tests/c/arguments.c", &[]).expect("needs no privilege");
}

#[test]
fn channels_that_cannot_be_are_refused() {
    check("c99", "crates/capi/tests/c/channels.c", &[]).expect("needs no privilege");
}

#[test]
fn the_examples_of_channels_say_that_no_broker_answers() {
    let installed = Installed::shared();
    for (source, what) in
        [("examples/c/media_sender.c", &[][..]), ("examples/c/telemetry.c", &["publish"][..])]
    {
        let Some(program) = installed.build("cc", "c99", source) else { return };
        let arguments = [what, &["127.0.0.1:9", "1", "/nonexistent/broker.sock"][..]].concat();
        // The status is 3, which `run` treats as a host that is not able to.
        assert_eq!(run(&program, &arguments, None), None);
    }
}

#[test]
fn a_refusal_has_the_counter_offer_in_it() {
    let said = check("c99", "crates/capi/tests/c/refused.c", &[]).expect("needs no privilege");
    assert!(said.contains("would fit") || said.contains("at most"), "{said}");
}

#[test]
fn upcalls_of_an_ordinary_thread_live_from_creation_to_stop() {
    check("c11", "crates/capi/tests/c/upcalls.c", &["ordinary"]).expect("needs no privilege");
}

#[test]
fn upcalls_never_run_without_their_agent() {
    check("c99", "crates/capi/tests/c/starved.c", &[]).expect("needs no privilege");
}

#[test]
fn real_time_upcalls_live_from_creation_to_stop() {
    check("c11", "crates/capi/tests/c/upcalls.c", &["upcalls"]);
}

#[test]
fn upcalls_inside_a_reservation_live_from_creation_to_stop() {
    check("c11", "crates/capi/tests/c/upcalls.c", &["reserved"]);
}

#[test]
fn a_handler_that_does_not_come_back_is_contained() {
    check("c11", "crates/capi/tests/c/contained.c", &[]);
}

#[test]
fn reservations_and_time_constraints_are_given_used_and_released() {
    check("c99", "crates/capi/tests/c/reserved.c", &[]);
}

/// Writes a trace in which a job of 5 ms took 7 ms.
fn late_trace(folder: &Path) -> PathBuf {
    let path = folder.join("late.ptrace");
    let run = run_in_virtual_time("");
    let mut recorder = Recorder::create(&path, &run, Existing::Keep).expect("a new file");
    let mut subject = Subject::new("audio", SubjectKind::Upcall);
    subject.promise.relative_deadline = Some(model::Duration::from_millis(5));
    recorder.subject(0, &subject).expect("written");
    let (job, release) = (JobId { task: 0, index: 0 }, model::Instant::ZERO);
    let event =
        |ms, kind| Event { at: release + model::Duration::from_millis(ms), job, release, kind };
    recorder.events(&[event(1, Kind::Start), event(7, Kind::Complete)]).expect("written");
    recorder.end(release + model::Duration::from_millis(9)).expect("written");
    path
}

#[test]
fn answers_are_those_of_the_command() {
    let folder = TempDir::new().expect("a folder");
    let trace = late_trace(folder.path());
    let whole = fs::read(&trace).expect("written");
    let torn = folder.path().join("torn.ptrace");
    fs::write(&torn, &whole[..whole.len() - 1]).expect("written");
    let overloaded = root().join("examples/overloaded.toml");
    let arguments = [&overloaded, &trace, &torn].map(|path| path.to_str().expect("UTF-8"));
    let said = check("c99", "crates/capi/tests/c/answers.c", &arguments);
    let said = said.expect("needs no privilege");
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();

    let mixer = b"[[task]]\nname = 'mixer'\nperiod = '10ms'\nwcet = '2ms'\n";
    let mixer = contract::of_text("contract", mixer).expect("valid");
    let overloaded = contract::read(&overloaded).expect("valid");
    let ideal = host::choose(Some("ideal".as_ref())).expect("known");
    let admitted = |declared: &Declared, explain| {
        serde_json::to_value(Answer::new(declared.clone(), ideal.clone(), explain)).expect("JSON")
    };
    let simulated = |declared: &Declared, until| {
        let options = Options { until: model::Duration::from_secs(until), ..Options::default() };
        let run = Simulation::new(&declared.contract, &ideal, options).expect("it can run");
        let report = run.run(&mut ()).expect("nothing watches");
        let noted = Noted { result: &report, notes: &declared.notes };
        serde_json::to_value(noted).expect("JSON")
    };
    assert_eq!(lines[0], admitted(&mixer, true));
    assert_eq!(lines[1], simulated(&mixer, 1));
    assert_eq!(lines[2], admitted(&overloaded, false));
    assert_eq!(lines[3], simulated(&overloaded, 10));
    assert_eq!(lines[4]["late"]["tardiness_ns"], 2_000_000);
    assert_eq!(
        (&lines[5]["threads"][0]["verdict"], &lines[5]["has_end"]),
        (&"broken".into(), &true.into())
    );
    assert_eq!(
        (&lines[7]["threads"][0]["verdict"], &lines[7]["has_end"]),
        (&"broken".into(), &false.into())
    );
    assert_eq!(lines.len(), 8);
}

#[test]
fn what_this_host_can_promise_is_told() {
    let said = check("c99", "crates/capi/tests/c/doctor.c", &[]).expect("needs no privilege");
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert!(json["checks"].as_array().is_some_and(|checks| checks.len() > 5), "{json}");
}

#[test]
fn programs_that_cannot_be_are_refused() {
    check("c99", "crates/capi/tests/c/programs.c", &[]).expect("needs no privilege");
}

#[test]
fn programs_run_under_reservations_and_are_accounted_for() {
    check("c99", "crates/capi/tests/c/programs.c", &["live"]);
}

#[test]
fn the_examples_run() {
    // The status is 1 if something was late, which the examples report and a busy host may cause.
    for (source, words) in
        [("examples/c/upcalls.c", "200 packets in "), ("examples/c/reservation.c", " of 3000 us, ")]
    {
        let said = check_or("c99", source, &["1"], Some(1));
        assert!(said.as_ref().is_none_or(|said| said.contains(words)), "{said:?}");
    }
}

#[test]
fn the_example_of_answers_exits_as_the_command_does() {
    let example = "examples/c/admitted.c";
    let contract = |name: &str| root().join("examples").join(name).display().to_string();
    let said = check("c99", example, &[&contract("studio.toml")]).expect("needs no privilege");
    assert_eq!(said.lines().filter(|line| line.contains("\"admitted\":true")).count(), 2, "{said}");
    let refused = check_or("c99", example, &[&contract("overloaded.toml")], Some(1));
    let refused = refused.expect("needs no privilege");
    assert!(refused.contains("\"admitted\":false"), "{refused}");
    let invalid = contract("c/admitted.c");
    assert_eq!(check_or("c99", example, &[&invalid], Some(2)).as_deref(), Some(""));
    let seven = [&contract("studio.toml"), "sh", "-c", "exit 7"];
    let said = check_or("c99", example, &seven, Some(7));
    assert!(said.is_none_or(|said| said.contains("\"exit_code\":7")));
}

#[test]
fn the_header_is_good_for_cpp() {
    let installed = Installed::shared();
    for standard in ["c++11", "c++20"] {
        let Some(program) = installed.build("c++", standard, "crates/capi/tests/c/header.cpp")
        else {
            return;
        };
        run(&program, &[], None).expect("needs no privilege");
    }
}

#[test]
fn a_program_can_have_the_library_in_it() {
    let installed = Installed::new();
    // Without the shared library only the static one is found.
    for entry in fs::read_dir(installed.lib()).expect("installed") {
        let path = entry.expect("readable").path();
        if path.to_string_lossy().contains(".so") {
            fs::remove_file(path).expect("ours");
        }
    }
    let program = installed.0.path().join("static");
    let built = Command::new("cc")
        .args(["-std=c99", "-pthread"])
        .args(installed.pkg_config(&["--cflags"]))
        .arg(root().join("crates/capi/tests/c/refused.c"))
        .arg("-o")
        .arg(&program)
        .args(installed.pkg_config(&["--static", "--libs"]))
        .output()
        .expect("cc");
    assert!(built.status.success(), "{}", said(&built));
    run(&program, &[], None).expect("needs no privilege");
}
