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
fn all_parts_of_the_study_are_there() {
    let (code, told, _) = lab(&["soft-modem", "--help"]);
    assert_eq!(code, Some(0));
    for half in ["live", "transfers", "map"] {
        assert!(told.contains(half), "{half}: {told}");
    }
}

#[test]
fn bad_usage_exits_with_2() {
    for arguments in [
        &["soft-modem"][..],
        &["soft-modem", "live", "--seconds", "0"],
        &["soft-modem", "live", "--lines", "many"],
        &["soft-modem", "live", "--modems", "acoustic"],
        &["soft-modem", "transfers", "--only", "RES 9ms/8ms hard"],
        &["soft-modem", "map", "--longest", "500us"],
        &["hard-modem"],
    ] {
        let (code, _, said) = lab(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
}

#[test]
fn what_this_host_cannot_do_exits_with_3() {
    let nowhere = "/proc/self/fdinfo/nowhere";
    let (code, _, said) = lab(&["soft-modem", "transfers", "--times", "0", "--results", nowhere]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(nowhere), "{said}");
}
