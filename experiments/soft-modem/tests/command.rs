//! The `soft-modem` program: it lists its parts and their arguments.

use std::process::Command;

fn study(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_soft-modem")).args(arguments).output().expect("was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn all_parts_of_the_study_are_there() {
    let (code, told, _) = study(&["--help"]);
    assert_eq!(code, Some(0));
    for half in ["live", "transfers", "map"] {
        assert!(told.contains(half), "{half}: {told}");
    }
}

#[test]
fn bad_usage_exits_with_2() {
    for arguments in [
        &[][..],
        &["live", "--seconds", "0"],
        &["live", "--lines", "many"],
        &["live", "--modems", "acoustic"],
        &["transfers", "--only", "RES 9ms/8ms hard"],
        &["map", "--longest", "500us"],
        &["hard-modem"],
    ] {
        let (code, _, said) = study(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
}

/// Runs a study of no calls: the trace is created, and a second run does not replace it without
/// `--force`.
#[test]
fn a_trace_that_is_there_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.ptrace");
    let path = path.to_str().expect("UTF-8");
    let transfers = ["transfers", "--times", "0", "--trace", path];
    assert_eq!(study(&transfers).0, Some(0));
    let written = std::fs::read(path).expect("written");
    let (code, _, said) = study(&transfers);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(path).expect("left alone"), written);
    assert_eq!(study(&[&transfers[..], &["--force"]].concat()).0, Some(0));
}

#[test]
fn an_unwritable_folder_exits_with_3() {
    let nowhere = "/proc/self/fdinfo/nowhere";
    let (code, _, said) = study(&["transfers", "--times", "0", "--results", nowhere]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(nowhere), "{said}");
}
