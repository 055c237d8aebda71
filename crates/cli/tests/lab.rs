//! `punctual lab`: the studies are found, and say what they take.

use std::process::Command;

fn lab(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("punctual runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn both_halves_of_the_study_are_there() {
    let (code, told, _) = lab(&["soft-modem", "--help"]);
    assert_eq!(code, Some(0));
    assert!(told.contains("live") && told.contains("map"), "{told}");
}

#[test]
fn bad_usage_exits_with_2() {
    for arguments in [
        &["soft-modem"][..],
        &["soft-modem", "live", "--seconds", "0"],
        &["soft-modem", "live", "--lines", "many"],
        &["hard-modem"],
    ] {
        let (code, _, said) = lab(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
}
