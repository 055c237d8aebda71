//! Runs the built program, with the rights of the tests and without any.
#![allow(dead_code, reason = "each test file uses its part")]

use std::process::{Command, Output};

/// The path of the built program.
pub(crate) const PUNCTUAL: &str = env!("CARGO_BIN_EXE_punctual");

/// The variable that names the host profile. The tests set it, so that their answers do not depend
/// on earlier runs of punctual calibrate on the host.
pub(crate) const PROFILE: &str = "PUNCTUAL_HOST_PROFILE";

/// Runs the built program.
pub(crate) fn punctual(arguments: &[&str]) -> Output {
    Command::new(PUNCTUAL).env(PROFILE, "ideal").args(arguments).output().expect("was built")
}

/// Runs it as the user nobody, without capabilities. Returns `None` if this is impossible here.
pub(crate) fn unprivileged(arguments: &[&str]) -> Option<Output> {
    // The checkout may be unreadable for that user, so the program is copied to a folder that all
    // can read.
    let folder = tempfile::Builder::new().prefix("punctual").tempdir().ok()?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).ok()?;
    let program = folder.path().join("punctual");
    std::fs::copy(PUNCTUAL, &program).ok()?;
    let setpriv = ["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];
    let check = Command::new("setpriv").args(setpriv).arg("true").output();
    if !check.is_ok_and(|check| check.status.success()) {
        println!("skipped: not root, or no setpriv (util-linux)");
        return None;
    }
    let mut command = Command::new("setpriv");
    let output = command.env(PROFILE, "ideal").args(setpriv).arg(&program).args(arguments).output();
    Some(output.expect("setpriv just ran"))
}

/// Returns the output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
