//! The kept BPF objects match their sources.

use std::path::Path;
use std::process::Command;

#[test]
fn the_kept_objects_are_what_their_sources_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("tools/build-bpf"))
        .arg("--check")
        .output()
        .expect("the script runs");
    // Without the compiler of the kept objects the script prints that it did not compare.
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
