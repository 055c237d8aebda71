//! The modem is a separate program. This one links none of its libraries, and finds and runs it.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{PUNCTUAL, text};
use tempfile::TempDir;

/// libspandsp and the libraries that it needs.
const OF_THE_MODEM: [&str; 3] = ["libspandsp", "libtiff", "libjpeg"];

#[test]
fn the_program_is_linked_to_no_library_of_the_modems() {
    let output = Command::new("ldd").arg(PUNCTUAL).output().expect("ldd (libc-bin)");
    let libraries = text(&output.stdout);
    assert!(output.status.success() && libraries.contains("libc.so"), "{libraries}");
    for library in OF_THE_MODEM {
        assert!(!libraries.contains(library), "{libraries}");
    }
}

/// Checks the dependency tree too, since a build script could need the modem without linking it.
#[test]
fn the_program_is_built_without_the_modem() {
    let tree = |package: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "tree",
            "--offline",
            "--locked",
            "--prefix",
            "none",
            "--edges",
            "normal,build",
        ]);
        let output = cargo.args(["--package", package]).output().expect("cargo");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(tree("punctual-modem").contains("punctual-modem "));
    let ours = tree("punctual-cli");
    assert!(ours.contains("punctual-broker ") && !ours.contains("punctual-modem "), "{ours}");
}

/// Returns two folders that are not written to while programs start in them: one with the program,
/// one to be searched.
fn folders() -> [TempDir; 2] {
    let folders = [(); 2].map(|()| TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"));
    fs::hard_link(PUNCTUAL, folders[0].path().join("punctual")).expect("a link");
    folders
}

/// Puts a stand-in for the modem into a folder. Returns the prefix of its output.
fn stand_in(folder: &TempDir) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modem/punctual-modem");
    let link = folder.path().join("punctual-modem");
    symlink(program, &link).expect("a link");
    format!("{}:", link.display())
}

fn run([ours, search]: &[TempDir; 2], arguments: &[&str]) -> (String, Option<i32>, String) {
    let mut command = Command::new(ours.path().join("punctual"));
    let output = command.env("PATH", search.path()).args(arguments).output().expect("was built");
    (text(&output.stdout), output.status.code(), text(&output.stderr))
}

#[test]
fn the_modem_beside_the_program_is_run_with_all_its_options() {
    let folders = folders();
    let [beside, _] = folders.each_ref().map(stand_in);
    for (arguments, passed) in [
        (&["modem", "--pair", "a", "b c"][..], " --pair a b c"),
        (&["modem", "--help"], " --help"),
        (&["modem", "--version"], " --version"),
        (&["modem"], ""),
        (&["demo", "--virtual", "--json", "x"], " demo --virtual --json x"),
    ] {
        let (told, code, _) = run(&folders, arguments);
        assert_eq!((told, code), (format!("{beside}{passed}\n"), Some(7)));
    }
}

#[test]
fn without_one_beside_it_the_one_on_the_path_is_run() {
    let folders = folders();
    let found = stand_in(&folders[1]);
    let (told, code, _) = run(&folders, &["demo"]);
    assert_eq!((told, code), (format!("{found} demo\n"), Some(7)));
}

#[test]
fn without_a_modem_a_sentence_says_how_to_get_it() {
    let folders = folders();
    for command in ["modem", "demo"] {
        let (_, code, said) = run(&folders, &[command, "--help"]);
        assert_eq!(code, Some(3));
        assert!(said.starts_with("punctual: ") && said.contains("install-modem"), "{said}");
    }
}
