//! Checks that the dashboard, the rules and the documentation name existing metrics.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Serving, end, eventually, judged_by, sum, value, values};

/// Returns the names of metrics in a text: `punctual_…`, without the suffixes of histograms and
/// counters.
fn metrics_in(text: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    let family = |name: &str| {
        let suffixes = ["_total", "_bucket", "_count", "_sum"];
        let cut = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        cut.unwrap_or(name).to_owned()
    };
    let mut names: Vec<String> =
        words.filter(|word| word.starts_with("punctual_")).map(family).collect();
    names.sort();
    names.dedup();
    names
}

/// The rules, their tests and the dashboard name only existing metrics, and the documentation names
/// all.
#[test]
fn dashboard_rules_and_documentation_name_existing_metrics() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let file = |path: &str| fs::read_to_string(root.join(path)).expect(path);
    let documented = metrics_in(&file("docs/metrics.md"));
    let dashboard: Value =
        serde_json::from_str(&file("packaging/grafana/punctual.json")).expect("JSON");
    let mut queries = String::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries += target["expr"].as_str().expect("a query");
            queries.push('\n');
        }
    }
    let rules = file("packaging/prometheus/punctual.rules.yml");
    for (of, names) in [("the dashboard", metrics_in(&queries)), ("the rules", metrics_in(&rules))]
    {
        assert!(names.len() > 3, "{of}: {names:?}");
        for name in names {
            assert!(
                documented.contains(&name),
                "{of} asks for {name}, of which docs/metrics.md is silent"
            );
        }
    }
    for (way, file) in [("check", "punctual.rules.yml"), ("test", "punctual.rules.test.yml")] {
        let file = root.join("packaging/prometheus").join(file);
        judged_by(Command::new("promtool").args([way, "rules"]).arg(file), "");
    }
    // Replaces Grafana's variables by values, so that its queries become expressions like those of
    // rules.
    let mut as_rules = "groups: [{name: dashboard, rules: [".to_owned();
    for (at, query) in queries.lines().enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace("$__range", "1h");
        as_rules += &format!("{{record: 'a:{at}', expr: '{}'}},", query.replace("$instance", ".*"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yml");
    fs::write(&file, as_rules + "]}]\n").expect("ours");
    judged_by(Command::new("promtool").args(["check", "rules"]).arg(file), "");
    let Some(serving) = Serving::start() else { return };
    let program = serving.program("while sleep 0.02; do :; done");
    let page = eventually("a job is told", || {
        let page = serving.page();
        let watched =
            value(&page, "punctual_observer_up") == 0.0 || sum(&page, "punctual_jobs_total") > 0.0;
        (watched && !values(&page, "punctual_grant_used_cpus").is_empty()).then_some(page)
    });
    end(program);
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let names = metrics_in(line);
        assert!(documented.contains(&names[0]), "docs/metrics.md does not explain {names:?}");
    }
}
