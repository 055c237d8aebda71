//! Third-party programs as clients of a modem. Each test skips, with the reason printed, if its
//! program is not installed.

pub(crate) mod lrzsz;
pub(crate) mod minicom;
pub(crate) mod minimodem;
pub(crate) mod slip;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};

use punctual_linux::process::die_with_parent;

/// A child process that ends with its test.
struct Killed(Child);

impl Killed {
    fn start(mut command: Command) -> Self {
        die_with_parent(&mut command);
        Self(command.spawn().expect("it is there"))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if all of these programs are installed; prints a missing one.
fn installed(programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, package)| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null());
        let is_there = !matches!(command.output(), Err(why) if why.kind() == ErrorKind::NotFound);
        if !is_there {
            println!("skipped: no {program} (apt-get install {package})");
        }
        is_there
    })
}

/// Runs a program to its end. Returns whether it succeeded, and its output and errors.
fn run(program: &str, arguments: &[impl AsRef<OsStr>]) -> (bool, String) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|why| panic!("{program}: {why}"));
    let both = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&both).into_owned())
}
