//! Entries that join and leave during a run.

use super::common::{punctual, text};
use super::{json, page, written};

const STUDIO: &str = "
[system]
policy = 'rmdp'
[[task]]
name = 'control'
period = '10ms'
wcet = '5ms'
[[task]]
name = 'video'
period = '20ms'
wcet = '9ms'
[[task]]
name = 'audio'
period = '10ms'
wcet = '5ms'
";

#[test]
fn a_newcomer_is_admitted_or_refused_when_it_comes() {
    let (_folder, studio) = written(STUDIO);
    let run = |join: &str| {
        [&studio, "--for", "200ms", "--leave", "control:5ms", "--join", join].map(String::from)
    };
    let early = run("audio:5ms");
    let early: Vec<&str> = early.iter().map(String::as_str).collect();
    let report = json(&early, 0);
    assert_eq!(report["joined"][0]["admitted"], false, "{report}");
    assert_eq!(report["left"][0]["at_ns"], 5_000_000);
    assert_eq!(report["tasks"].as_array().map(Vec::len), Some(2));
    let said = page(&early, 0);
    assert!(
        said.contains("\"control\" leaves at 5ms\n\"audio\" asks to join at 5ms and is refused"),
        "{said}"
    );
    assert!(said.contains("what has left counts for up to"), "{said}");
    let later = run("audio:40ms");
    let later: Vec<&str> = later.iter().map(String::as_str).collect();
    let report = json(&later, 0);
    assert_eq!(report["joined"][0]["admitted"], true, "{report}");
    assert_eq!(report["tasks"][2]["jobs"], 16);
    assert!(page(&later, 0).contains("\"audio\" asks to join at 40ms and is admitted"));
}

#[test]
fn impossible_joins_and_leaves_are_bad_usage() {
    let (_folder, studio) = written(STUDIO);
    for (option, when, why) in [
        ("--join", "audio", "does not say when"),
        ("--join", "audio:soon", "the time"),
        ("--leave", "nobody:5ms", "is no task and no reservation of this contract; see --leave"),
        ("--join", "nobody:5ms", "is no task and no reservation of this contract; see --join"),
    ] {
        let output = punctual(&["simulate", &studio, option, when]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
