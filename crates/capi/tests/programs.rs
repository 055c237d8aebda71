//! Builds C and C++ programs against the library as it is installed, and runs them.
//!
//! A program exits with 0 if all holds, with 3 if this host is not able to (then its part is
//! skipped, and the reason printed), and with anything else if something does not hold.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time-out of a program, on a machine with other things to do.
const TIMEOUT: Duration = Duration::from_secs(90);

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder into which the library was installed.
struct Installed(TempDir);

/// Shared by the tests that run at the same time, because a library with debug information is
/// large. Removed with the last of them.
static SHARED: Mutex<Weak<Installed>> = Mutex::new(Weak::new());

impl Installed {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder for the library");
        // Cargo builds the library for the test and puts it beside the test.
        let this = std::env::current_exe().expect("the test has a path");
        let built = this.parent().expect("and a folder");
        let install = Command::new(root().join("tools/install-library"))
            .arg(built)
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
