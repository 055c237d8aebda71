//! Runs `punctual explore` as a process: compares its files with the library, and checks its page
//! and its refusals.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Output;

use common::{punctual, text};
use punctual_analysis::breakdown::{Factor, Test, bounds_at, breakdown, preemptible_anywhere};
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::channel::{DelayBound, deadline_monotonic, paper};
use punctual_analysis::supply::{Guarantee, least_budget};
use punctual_analysis::{CpuLoad, Steps, mapping, order};
use punctual_model::channel::{Channel, Packetisation, Sender, SenderSpec};
use punctual_model::{Contract, Duration, HostProfile, Policy, Service};
use serde_json::Value;

const TASKS: &str = r#"
[[task]]
name = "audio"
period = "12ms"
wcet = "4ms"
quantum = "2ms"

[[task]]
name = "<script>alert(1)</script>, \"video\" & 'more'"
period = "20ms"
wcet = "6ms"
quantum = "3ms"
"#;

/// The sender of real-time channels, §5, with its channels of 32 KB every 100 ms.
const CHANNELS: &str = r#"
[sending]
bandwidth = "160mbit/s"
startup = "40us"
packet = "4KiB"
best_effort = "32KiB"

[sending.costs]
switch = "55us"
cache = "90us"
first_packet = "420us"
packet = "170us"
link_scheduling = "40us"

[[channel]]
name = "camera"
max_message = "32KiB"
min_message = "32KiB"
min_inter_arrival = "100ms"
delay_bound = "100ms"

[[channel]]
name = "sound"
max_message = "1KiB"
min_message = "1KiB"
min_inter_arrival = "20ms"
delay_bound = "10ms"
"#;

/// A folder with a contract, and the place for the results.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn with(contract: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("contract.toml"), contract).expect("written");
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn explore(&self, out: &str, more: &[&str]) -> Output {
        let (contract, out) = (self.path("contract.toml"), self.path(out));
        let mut arguments = vec!["explore", &contract, "--out", &out];
        arguments.extend(more);
        punctual(&arguments)
    }

    /// Runs the command, which must succeed, and returns all files by name.
    fn files(&self, out: &str, more: &[&str]) -> BTreeMap<String, Vec<u8>> {
        let output = self.explore(out, more);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "no progress where there is no terminal");
        read_all(Path::new(&self.path(out)))
    }
}

fn read_all(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().expect("UTF-8");
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

/// Returns the rows of a CSV file by the keys of its header.
fn rows(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(&files[name][..])
        .deserialize()
        .map(|row| row.expect("as long as the header"))
        .collect()
}

fn number<T: std::str::FromStr>(row: &BTreeMap<String, String>, key: &str) -> Option<T> {
    let field = &row[key];
    (!field.is_empty()).then(|| field.parse().ok().expect("a whole number"))
}

fn parse(contract: &str) -> Contract {
    Contract::parse("contract.toml", contract.as_bytes()).expect("valid")
}

const HOST: HostProfile = HostProfile::ideal(1);

#[test]
fn breakdown_is_what_the_library_says() {
    let files = Place::with(TASKS).files("out", &["--what", "breakdown"]);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["breakdown.csv", "index.html", "response-times.csv"]);
    let declared = parse(TASKS);
    let tests = ["liu-layland", "hyperbolic", "rmdp", "sha", "density", "exact"];
    let of_name =
        [Test::LiuLayland, Test::Hyperbolic, Test::Rmdp, Test::Sha, Test::Density, Test::Exact];
    let rows_seen = rows(&files, "breakdown.csv");
    for row in &rows_seen {
        let (_, policy) =
            *Policy::NAMES.iter().find(|(name, _)| *name == row["policy"]).expect("a policy");
        let test = of_name[tests.iter().position(|name| *name == row["test"]).expect("a test")];
        let variant = match row["preemption"].as_str() {
            "as declared" => declared.clone(),
            _ => preemptible_anywhere(&declared),
        };
        let asked = Contract { policy, ..variant };
        let answer = breakdown(&asked, &HOST, test, Steps::ADMISSION);
        let found = answer.as_ref().ok();
        assert_eq!(number(row, "factor_ppm"), found.map(|found| found.factor.millionths()));
        assert_eq!(
            number(row, "utilisation_ppm"),
            found.map(|found| found.utilisation.ppm_above())
        );
        assert_eq!(row["never_because"], answer.map_or_else(|never| never.why, |_| String::new()));
    }
    for policy in Policy::NAMES.map(|(name, _)| name) {
        let exact = |row: &&BTreeMap<_, _>| row["policy"] == policy && row["test"] == "exact";
        // These tasks are of one criticality, so `edf-vd` would equal `edf`.
        assert_eq!(rows_seen.iter().any(|row| exact(&row)), policy != "edf-vd", "{policy}");
    }
}

#[test]
fn response_times_are_what_admission_proves() {
    let files = Place::with(TASKS).files("out", &["--what", "breakdown"]);
    let declared = parse(TASKS);
    let rows = rows(&files, "response-times.csv");
    let mut admitted = 0;
    for pair in rows.chunks(declared.tasks.len()) {
        let factor = number(&pair[0], "factor_ppm").and_then(Factor::from_millionths);
        let scaled = bounds_at(&declared, &HOST, factor.expect("a factor"), Steps::ADMISSION);
        for ((row, task), bound) in pair.iter().zip(&declared.tasks).zip(scaled.bounds) {
            assert_eq!(row["task"], task.name());
            assert_eq!(number(row, "response_time_bound_ns"), bound.map(Duration::as_nanos));
            assert_eq!(row["admitted"] == "yes", scaled.admitted);
        }
        admitted += usize::from(scaled.admitted);
    }
    let factors = rows.len() / declared.tasks.len();
    assert!(admitted > 40 && admitted < factors, "{admitted} of {factors}");
}

#[test]
fn the_map_is_what_the_library_says() {
    for policy in ["rmdp", "edf"] {
        let contract = format!("[system]\npolicy = \"{policy}\"\n{TASKS}");
        let more = ["--what", "reservations", "--from", "1ms", "--to", "25ms", "--points", "13"];
        let files = Place::with(&contract).files("out", &more);
        let declared = parse(&contract);
        let order = order::by_priority(declared.policy, &declared.tasks);
        let tasks = order.iter().map(|&at| &declared.tasks[at]);
        let load = CpuLoad::new(tasks, [], Service::ZERO);
        let rows = rows(&files, "reservation-map.csv");
        let periods: Vec<u64> = rows.iter().filter_map(|row| number(row, "period_ns")).collect();
        let expected: Vec<u64> = (0..13).map(|at| (1 + 2 * at) * 1_000_000).collect();
        assert_eq!(periods, expected);
        for row in &rows {
            let period = Duration::from_nanos(number(row, "period_ns").expect("a period"));
            for (guarantee, key) in
                [(Guarantee::EveryWindow, "every_window"), (Guarantee::EveryPeriod, "every_period")]
            {
                let found = least_budget(declared.policy, &load, guarantee, period, 2_000_000);
                let budget = found.map(|found| found.reservation.budget().as_nanos());
                assert_eq!(number(row, &format!("{key}_budget_ns")), budget, "{policy} {period}");
                let is_least = found.is_some_and(|found| found.is_least);
                assert_eq!(row[&format!("{key}_is_least")] == "yes", is_least);
            }
        }
        let whole = |key| rows.iter().filter(|row| !row[key].is_empty()).count();
        assert!(whole("every_window_budget_ns") >= whole("every_period_budget_ns"));
        assert!(whole("every_period_budget_ns") > 3);
    }
}

/// The soft modem study, Figure 17: 1.84 ms every 12.5 ms, and the two edges of its model.
#[test]
fn figure_17_has_its_two_edges() {
    let modem = "[[task]]\nname = \"modem\"\nperiod = \"12.5ms\"\nwcet = \"1.84ms\"\n";
    let more = ["--what", "reservations", "--from", "13ms", "--to", "16ms", "--points", "4"];
    let rows = rows(&Place::with(modem).files("out", &more), "reservation-map.csv");
    let line = |key| rows.iter().filter_map(|row| number(row, key)).collect::<Vec<u64>>();
    assert_eq!(line("share_line_ns"), [1_913_600, 2_060_800, 2_208_000, 2_355_200]);
    assert_eq!(line("gap_line_ns"), [500_001, 1_500_001, 2_500_001, 3_500_001]);
}

/// Counts copies by adding one at a time.
fn copies(channel: &Channel, delays: impl Fn(&[Channel]) -> Vec<DelayBound>) -> usize {
    let fits = |count: usize| {
        let set = vec![channel.clone(); count];
        delays(&set).iter().all(|d| d.bound().is_some_and(|d| d <= channel.delay_bound()))
    };
    (1..).find(|&count| !fits(count)).expect("some number") - 1
}

#[test]
fn channels_are_what_the_library_says() {
    let files = Place::with(CHANNELS).files("out", &["--what", "channels"]);
    let declared = parse(CHANNELS);
    let spec = declared.sender.expect("declared");
    let base = spec.sender(None).expect("with costs");
    let order = deadline_monotonic(&declared.channels);
    let ranked: Vec<Channel> = order.iter().map(|&at| declared.channels[at].clone()).collect();
    let slacks = rows(&files, "channel-slack.csv");
    let counts = rows(&files, "channel-copies.csv");
    assert_eq!((slacks.len(), counts.len()), (42, 42));
    for (slack, count) in slacks.iter().zip(&counts) {
        let key = |row: &BTreeMap<String, String>| -> (u32, u32) {
            let number = |key| number(row, key).expect("a number");
            (number("packet_bytes"), number("packets_per_block"))
        };
        let (bytes, per_block) = key(slack);
        assert_eq!(key(count), (bytes, per_block));
        let packetisation = Packetisation::new(bytes, per_block).expect("valid");
        let sender = Sender { packetisation, ..base };
        let least = |delays: Vec<DelayBound>| -> Option<i64> {
            let signed = |time: Duration| time.as_nanos() as i64;
            let slack = |(delay, channel): (DelayBound, &Channel)| {
                Some(signed(channel.delay_bound()) - signed(delay.bound()?))
            };
            let slacks: Option<Vec<i64>> = delays.into_iter().zip(&ranked).map(slack).collect();
            slacks?.into_iter().min()
        };
        let spec = SenderSpec { packetisation, ..spec };
        let egress = Egress::of(&spec, sender.costs, Service::ZERO).expect("fast enough");
        let delays = |set: &[Channel]| {
            let (mut steps, mut for_bounds) = (Steps::default(), Steps::default());
            egress.delays(set, &[], &mut steps, &mut for_bounds)
        };
        let proven = least(delays(&ranked));
        assert_eq!(number(slack, "slack_ns"), proven);
        assert_eq!(slack["admitted"] == "yes", proven.is_some_and(|slack| slack >= 0));
        let estimate = least(paper::delays(&sender, &ranked, &mut Steps::default()));
        assert_eq!(number(slack, "slack_by_paper_ns"), estimate);
        let camera = &declared.channels[0];
        assert_eq!(number(count, "copies"), Some(copies(camera, delays)));
        let by_paper = copies(camera, |set| paper::delays(&sender, set, &mut Steps::default()));
        assert_eq!(number(count, "copies_by_paper"), Some(by_paper));
    }
}

/// Real-time channels, Figures 6b and 6a, for the sizes swept here.
#[test]
fn the_published_trends_are_in_the_files() {
    let files = Place::with(CHANNELS).files("out", &["--what", "channels"]);
    let rows = rows(&files, "channel-copies.csv");
    let series = |size: Option<u32>, block: Option<u32>| -> Vec<u32> {
        let is = |row: &BTreeMap<_, _>, key, wanted: Option<u32>| {
            wanted.is_none_or(|wanted| number(row, key) == Some(wanted))
        };
        rows.iter()
            .filter(|row| is(row, "packet_bytes", size) && is(row, "packets_per_block", block))
            .filter_map(|row| number(row, "copies_by_paper"))
            .collect()
    };
    assert_eq!(series(None, Some(1))[..6], [8, 16, 26, 35, 41, 45]);
    assert_eq!(series(Some(4096), None), [26, 31, 33, 34, 34, 36]);
}

#[test]
fn the_same_contract_gives_the_same_bytes() {
    let place = Place::with(&format!("{TASKS}{CHANNELS}"));
    let one = place.files("one", &["--threads", "1", "--points", "20"]);
    assert_eq!(one.len(), 8);
    assert_eq!(one, place.files("three", &["--threads", "3", "--points", "20"]));
    // The result does not depend on the contract's folder either.
    let other = Place::with(&format!("{TASKS}{CHANNELS}"));
    assert_eq!(one, other.files("one", &["--points", "20"]));
}

/// Checks that tags open and close in order, and returns the text between them.
fn text_of(page: &str) -> String {
    const VOID: [&str; 1] = ["meta"];
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
        } else if !(tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name)) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} not closed");
    text
}

#[test]
fn the_page_is_whole_alone_and_safe() {
    let place = Place::with(&format!("{TASKS}{CHANNELS}"));
    let files = place.files("out", &["--points", "20"]);
    let page = text(&files["index.html"]);
    let words = text_of(&page);
    for wanted in ["Breakdown utilisation", "Reservations that are enough", "contract.toml"] {
        assert!(words.contains(wanted), "{wanted}");
    }
    // There is one plot of factors, one of response times, two of reservations and four of
    // channels.
    assert_eq!(page.matches("<svg viewBox=\"0 0 760 380\" role=\"img\"").count(), 8);
    for n in 1..=8 {
        for id in [format!("id=\"plot-{n}-title\">"), format!("id=\"plot-{n}-text\">")] {
            let (_, after) = page.split_once(&id).expect("each plot has a title and a description");
            assert!(!after.starts_with('<'), "{id} is not empty");
        }
    }
    for name in files.keys().filter(|name| name.ends_with(".csv")) {
        assert!(page.contains(name), "the numbers of {name} are in the page");
    }
    for outside in ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(
        words.contains("&lt;script&gt;alert(1)&lt;/script&gt;, &quot;video&quot; &amp; 'more'")
    );
    assert!(page.contains("prefers-color-scheme:dark"));
}

/// A stream is explored as the upcall and the channel that it becomes.
#[test]
fn streams_are_explored_as_what_they_become() {
    let (sending, _) = CHANNELS.split_once("[[channel]]").expect("there");
    let stream = "[[stream]]\nname = \"camera\"\nclass = \"continuous-media\"\n\
                  frame_rate = \"25/s\"\nframe_size = \"24KiB\"\ndelay = \"100ms\"\n\
                  tolerated_loss = \"0%\"\ntime_per_pdu = \"50us\"\n";
    let contract = format!("{sending}{stream}");
    let files = Place::with(&contract).files("out", &["--points", "5"]);
    let (expanded, _) = mapping::expand(&parse(&contract), &HOST).expect("mapped");
    let names = |name: &str, key: &str| -> BTreeSet<String> {
        rows(&files, name).iter().map(|row| row[key].clone()).collect()
    };
    let upcall = expanded.tasks[0].name().to_owned();
    assert_eq!(names("response-times.csv", "task"), BTreeSet::from([upcall]));
    let channel = expanded.channels[0].name().to_owned();
    assert_eq!(names("channels.csv", "copies_of"), BTreeSet::from([channel]));
}

#[test]
fn a_long_table_is_cut_on_the_page_only() {
    let task = |at: usize| {
        format!("[[task]]\nname = \"t{at}\"\nperiod = \"{}ms\"\nwcet = \"50us\"\n", 10 + at)
    };
    let contract: String = (0..50).map(task).collect();
    let files = Place::with(&contract).files("out", &["--what", "breakdown"]);
    let all = rows(&files, "response-times.csv").len();
    assert!(all > 50 * 60, "{all}");
    let page = text(&files["index.html"]);
    assert!(page.contains(&format!("The first 2000 of {all} rows.")));
    assert_eq!(page.matches("<tr>").count(), 2 + 2_000 + rows(&files, "breakdown.csv").len());
}

#[test]
fn json_has_the_summaries_and_says_what_was_left_out() {
    let place = Place::with(TASKS);
    let output = place.explore("out", &["--json", "--points", "5"]);
    assert_eq!(output.status.code(), Some(0));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["contract"], "contract.toml");
    assert_eq!(answer["page"], "index.html");
    let rmdp = &answer["summaries"]["breakdown"][3];
    assert_eq!((&rmdp["policy"], &rmdp["test"]), (&"rmdp".into(), &"exact".into()));
    assert!(rmdp["factor_ppm"].as_u64().is_some_and(|ppm| ppm > 1_000_000), "{rmdp}");
    assert_eq!(answer["summaries"]["reservations"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["summaries"]["channels"], Value::Null);
    let why = "Not explored: channels, because the contract declares no channel.";
    assert_eq!(answer["notes"], serde_json::json!([why]));
    let files = answer["files"].as_array().expect("a list");
    assert!(files.iter().all(|file| {
        Path::new(&place.path("out")).join(file.as_str().expect("text")).is_file()
    }));
}

#[test]
fn existing_files_stay_unless_forced() {
    let place = Place::with(TASKS);
    let more = ["--what", "breakdown"];
    let first = place.files("out", &more);
    let mine = place.path("out/index.html");
    fs::write(&mine, "mine").expect("written");
    let output = place.explore("out", &more);
    assert_eq!(output.status.code(), Some(2));
    let why = text(&output.stderr);
    for wanted in ["index.html", "breakdown.csv", "--force", "--out"] {
        assert!(why.contains(wanted), "{wanted} in {why}");
    }
    // Each file is named once, however many sheets there would be.
    let why = text(&place.explore("out", &[]).stderr);
    assert_eq!(why.matches("index.html").count(), 1, "{why}");
    assert_eq!(fs::read(&mine).expect("still there"), b"mine");
    assert_eq!(place.files("out", &[more[0], more[1], "--force"]), first);

    fs::write(place.path("file"), "mine").expect("written");
    let output = place.explore("file", &["--force"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no folder"));
}

#[test]
fn an_inapplicable_sweep_is_refused_with_a_reason() {
    let reservation = "[[reservation]]\nname = \"modem\"\nbudget = \"2ms\"\nperiod = \"8ms\"\n";
    let (before, after) = CHANNELS.split_once("[sending.costs]").expect("there");
    let (_, channels) = after.split_once("\n\n").expect("there");
    let without_costs = format!("{before}{channels}");
    for (contract, more, wanted) in [
        (reservation, &["--what", "all"][..], "declares no task"),
        (reservation, &["--what", "breakdown"], "declares no task"),
        (TASKS, &["--what", "channels"], "declares no channel"),
        (&without_costs, &["--what", "channels"], "what sending costs"),
        (CHANNELS, &["--channel", "radio"], "no channel \"radio\""),
        (TASKS, &["--from", "3ms", "--to", "2ms"], "--from and --to"),
        (TASKS, &["--from", "3"], "has no unit"),
        (TASKS, &["--threads", "0"], "--threads"),
        ("[[task]", &[], "contract.toml:1:"),
    ] {
        let place = Place::with(contract);
        let output = place.explore("out", more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(text(&output.stderr).contains(wanted), "{wanted}: {}", text(&output.stderr));
        assert!(!Path::new(&place.path("out")).exists(), "nothing is written");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let output = punctual(&["explore", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    for wanted in ["punctual explore studio.toml", "--what", "--json", "Exit codes"] {
        assert!(text(&output.stdout).contains(wanted), "{wanted}");
    }
}
