//! Runs the program as it was built, with the tests' privileges and without any.
#![allow(dead_code, reason = "each test file uses its part")]

use std::process::{Command, Output};

/// The program that was built.
pub(crate) const MODEM: &str = env!("CARGO_BIN_EXE_punctual-modem");

/// Runs the program that was built.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(MODEM).args(arguments).output().expect("was built")
}

/// Runs it as user `nobody` without capabilities; returns `None` if that is not possible here.
pub(crate) fn unprivileged(arguments: &[&str]) -> Option<Output> {
    // That user may not read the checkout, so the program is copied to a readable folder.
    let folder = tempfile::Builder::new().prefix("punctual-modem").tempdir().ok()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).ok()?;
    let program = folder.path().join("punctual-modem");
    std::fs::copy(MODEM, &program).ok()?;
    let setpriv = ["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
    let check = Command::new("setpriv").args(setpriv).arg("true").output();
    if !check.is_ok_and(|check| check.status.success()) {
        println!("skipped: not root, or no setpriv (util-linux)");
        return None;
    }
    let mut command = Command::new("setpriv");
    let output = command.args(setpriv).arg(&program).args(arguments).output();
    Some(output.expect("setpriv just ran"))
}

/// Returns what was printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
