//! Flips bits in a trace file and cuts off its end. Intact parts are read, altered ones are not,
//! and the exit code of each command reports the damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;

use super::common::{punctual, text};
use super::{LATE, STUDIO, traced, why};

/// The number of bit flips for each file. Three commands read each result.
const FLIPS: u64 = 40;

/// An event as exported, and the name of its subject. A file whose description of a subject is
/// damaged numbers its subjects anew, and calls that one "subject N" by its old number.
struct Exported {
    subject: String,
    number: u64,
    event: Value,
}

impl Exported {
    /// Returns whether `self`, from the intact file, is what `other` says.
    fn is(&self, other: &Self) -> bool {
        let is_its_subject =
            other.subject == self.subject || other.subject == format!("subject {}", self.number);
        is_its_subject && self.event == other.event
    }
}

fn events(path: &Path) -> (Option<i32>, Vec<Exported>) {
    let output = punctual(&["export", path.to_str().expect("UTF-8"), "--format", "json"]);
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let subjects: BTreeMap<u64, &str> = lines
        .iter()
        .filter_map(|line| line.get("subject"))
        .map(|one| (one["number"].as_u64().expect("a number"), one["name"].as_str().expect("text")))
        .collect();
    let events = lines.iter().filter_map(|line| line.get("event")).map(|event| {
        let mut event = event.clone();
        let number = event["subject"].as_u64().expect("a number");
        event.as_object_mut().expect("an object").remove("subject");
        Exported { subject: subjects[&number].to_owned(), number, event }
    });
    (output.status.code(), events.collect())
}

fn report(path: &Path) -> (Option<i32>, Value) {
    let output = punctual(&["report", "--json", path.to_str().expect("UTF-8")]);
    let value = serde_json::from_slice(&output.stdout);
    (output.status.code(), value.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

/// Returns the late jobs of each subject, by number and release.
fn late(lines: &[Value]) -> BTreeSet<String> {
    let late = lines.iter().map(|line| &line["late"]).filter(|late| late.is_object());
    late.map(|late| format!("{} {}", late["job"], late["end_ns"])).collect()
}

fn verdicts(lines: &[Value]) -> Vec<&str> {
    let threads = lines.last().and_then(|end| end["threads"].as_array()).expect("a list");
    threads.iter().map(|one| one["verdict"].as_str().expect("text")).collect()
}

/// The contents of the undamaged file.
struct Known {
    events: Vec<Exported>,
    late: BTreeSet<String>,
}

impl Known {
    fn of(whole: &Path) -> Self {
        Self { events: events(whole).1, late: late(&why(whole).1) }
    }

    /// Reads a damaged copy with each command. Returns the number of events left in it.
    fn is_detected_in(&self, damaged: &Path, what: &str) -> usize {
        let (code, left) = events(damaged);
        assert_eq!(code, Some(4), "{what}");
        let mut rest = self.events.iter();
        assert!(left.iter().all(|event| rest.any(|one| one.is(event))), "{what}: an altered event");
        let (code, lines) = why(damaged);
        let told = verdicts(&lines);
        let expected = if told.contains(&"broken") { 1 } else { 4 };
        assert_eq!(code, Some(expected), "{what}: {lines:?}");
        assert!(!told.contains(&"kept"), "{what}: {told:?}");
        assert!(late(&lines).is_subset(&self.late), "{what}: late only where it is damaged");
        let end = lines.last().expect("a line");
        assert_ne!(end["notes"], Value::Array(Vec::new()), "{what}: {end}");
        let (code, page) = report(damaged);
        assert_eq!(code, Some(4), "{what}");
        let is_kept = (&page["is_whole"], &page["promises_kept"]);
        assert_eq!(is_kept, (&false.into(), &0.into()), "{what}");
        assert_eq!(page["events"].as_u64(), Some(left.len() as u64), "{what}");
        for same in ["events_missing", "blocks_missing", "damaged_places", "damaged_bytes"] {
            assert_eq!(page[same], end[same], "{what}: {same}");
        }
        // The number is exact if a later block says how many events came before it.
        let missing = end["events_missing"].as_u64().expect("a number") as usize;
        let found = left.len() + missing;
        assert!(found <= self.events.len(), "{what}");
        assert!(end["has_end"] == false || found == self.events.len(), "{what}: {found}");
        left.len()
    }
}

#[test]
fn a_flipped_bit_costs_little_and_every_command_reports_it() {
    let studio = std::fs::read_to_string(STUDIO).expect("there");
    for contract in [&*studio, LATE] {
        let (folder, path) = traced(contract, "10s");
        let whole = std::fs::read(&path).expect("there");
        let known = Known::of(&path);
        let all = known.events.len();
        assert!(whole.len() > 20_000, "{} bytes, {all} events", whole.len());
        let damaged = folder.path().join("damaged");
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..FLIPS {
            let bit = rng.next_u64() as usize % (8 * whole.len());
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&damaged, &bytes).expect("written");
            let left = known.is_detected_in(&damaged, &format!("bit {bit}"));
            assert!(left * 10 >= all * 9, "bit {bit}: {left} of {all} events");
        }
    }
}

#[test]
fn a_trace_that_was_cut_short_keeps_no_promise() {
    let studio = std::fs::read_to_string(STUDIO).expect("there");
    let (folder, path) = traced(&studio, "10s");
    let (whole, known) = (std::fs::read(&path).expect("there"), Known::of(&path));
    let cut = folder.path().join("cut");
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let lengths = (0..FLIPS).map(|_| 16 + rng.next_u64() as usize % (whole.len() - 16));
    for length in lengths.chain([16, 17, whole.len() - 1]) {
        std::fs::write(&cut, &whole[..length]).expect("written");
        known.is_detected_in(&cut, &format!("{length} bytes"));
    }
}
