//! The page of a run.

use super::{BLOCKED, COMMANDS, DHALL, STUDIO, written};
use crate::common::{punctual, text};

/// Simulates with a page and returns it. Checks that no other file is left beside it.
fn html(arguments: &[&str], exit: i32) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.html");
    let report = ["--report", path.to_str().expect("UTF-8")];
    let output = punctual(&[&["simulate"], arguments, &report].concat());
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "the trace is whole");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1, "{arguments:?}");
    std::fs::read_to_string(path).expect("written")
}

#[test]
fn a_run_is_the_page_of_its_trace() {
    let (folder, _) = written("");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (trace, page, other) = (path("a.ptrace"), path("a.html"), path("b.html"));
    let run = ["simulate", STUDIO, "--overrun", "6:1/4", "--seed", "3", "--for", "2s"];
    let both = punctual(&[&run[..], &["--trace", &trace, "--report", &page]].concat());
    assert_eq!(both.status.code(), Some(1), "{}", text(&both.stderr));
    assert_eq!(punctual(&["report", &trace, "-o", &other]).status.code(), Some(0));
    let [page, other] = [page, other].map(|path| std::fs::read_to_string(path).expect("written"));
    // The title names the contract here, and the trace there.
    assert!(page.contains("studio.toml: what happened"));
    assert_eq!(page.replace("studio.toml: what", "a.ptrace: what"), other);
}

#[test]
fn every_kind_of_run_has_a_page() {
    let (_folder, dhall) = written(DHALL);
    let (_other, blocked) = written(BLOCKED);
    for (arguments, exit, words) in [
        (&[STUDIO, "--for", "1s"][..], 0, &["capture", "modem", "admitted under rmdp"][..]),
        (&[COMMANDS, "--for", "1s"], 0, &["<svg"]),
        (&[&dhall, "--for", "1s"], 0, &["light", "heavy"]),
        (&[STUDIO, "--overrun", "3", "--for", "1s"], 1, &["late"]),
        (&[&blocked, "--witness"], 1, &["urgent", "slow"]),
        (&[STUDIO, "--witness"], 0, &["<html"]),
    ] {
        let page = html(arguments, exit);
        for words in words {
            assert!(page.contains(words), "{arguments:?}: {words}");
        }
    }
}

#[test]
fn a_page_that_is_there_stays_unless_forced() {
    let (folder, _) = written("");
    let page = folder.path().join("a.html");
    std::fs::write(&page, "mine").expect("written");
    let name = page.to_str().expect("UTF-8");
    let run = ["simulate", STUDIO, "--for", "100ms", "--report", name];
    let refused = punctual(&run);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&page).expect("still there"), "mine");
    assert_eq!(punctual(&[&run[..], &["--force"]].concat()).status.code(), Some(0));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("<html"));
    let nowhere = punctual(&["simulate", STUDIO, "--report", "/nowhere/at/all"]);
    assert_eq!(nowhere.status.code(), Some(2));
}
