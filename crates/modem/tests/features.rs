//! The dependencies of the library without the program.

use std::process::Command;

#[test]
fn the_library_alone_takes_nothing_that_only_the_program_needs() {
    let tree = |more: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--offline", "--locked", "--prefix", "none", "--edges", "normal"]);
        let output = cargo.args(["--package", "punctual-modem"]).args(more).output();
        let output = output.expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let (all, library) = (tree(&[]), tree(&["--no-default-features"]));
    assert!(library.contains("punctual-model "), "{library}");
    for program in ["clap ", "punctual-linux ", "punctual-observe ", "punctual-runtime "] {
        assert!(all.contains(program), "{all}");
        assert!(!library.contains(program), "{library}");
    }
}
