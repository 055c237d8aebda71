//! The versions of libspandsp that the build accepts.

#[path = "../build/spandsp.rs"]
mod spandsp;

use std::env;
use std::fs;
use std::process::Command;

const TEST: &str = "the_tested_version_is_taken_and_one_of_other_structures_is_refused_by_name";

/// Set if this program should print the result of the build's check.
const ASKED: &str = "PUNCTUAL_TEST_SPANDSP";

/// Returns the result of the build's check if pkg-config only knows a library of this version.
fn found(version: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let description = format!("Name: spandsp\nDescription: a stand-in\nVersion: {version}\n");
    fs::write(folder.path().join("spandsp.pc"), description).expect("written");
    let mut this = Command::new(env::current_exe().expect("this program"));
    this.args(["--exact", "--nocapture", TEST]).env(ASKED, "1");
    let output =
        this.env("PKG_CONFIG_LIBDIR", folder.path()).env_remove("PKG_CONFIG_PATH").output();
    String::from_utf8(output.expect("it runs").stdout).expect("UTF-8")
}

#[test]
fn the_tested_version_is_taken_and_one_of_other_structures_is_refused_by_name() {
    if env::var_os(ASKED).is_some() {
        return println!("{:?}", spandsp::find());
    }
    for taken in ["0.0.6", "0.0.7", "2.9.9"] {
        let said = found(taken);
        assert!(said.contains("Ok(())"), "{taken}: {said}");
    }
    for refused in ["0.0.5", "3.0.0", "3.1.2"] {
        let said = found(refused);
        for what in ["libspandsp-dev", "0.0.6", "3.0.0", refused] {
            assert!(said.contains(what), "{refused}: {said}");
        }
    }
}
