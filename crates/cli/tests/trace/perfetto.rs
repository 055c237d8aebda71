//! Reads the exported trace events by the rules of Perfetto's importer of this format. Events are
//! sorted by time, and keep the order of the file at equal instants. A slice stays on its track
//! until an event of that track at its end or later. A flow has a number, and attaches to the slice
//! that is open on its track.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{LATE, export, traced, why};

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"))
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_else(|| panic!("no {key}: {event}"))
}

/// A track: process and thread.
type Track = (u64, u64);

fn track(event: &Value) -> Track {
    let id = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("no {key}: {event}"));
    assert!(id("pid") <= u64::from(u32::MAX) && id("tid") <= u64::from(u32::MAX), "{event}");
    (id("pid"), id("tid"))
}

/// The state of the importer.
#[derive(Default)]
struct Imported {
    /// The open slices of each track, with their ends and jobs.
    open: BTreeMap<Track, Vec<(f64, u64)>>,
    /// For each flow the jobs of the slices that it binds, in order, with the phases of its events.
    flows: BTreeMap<u64, Vec<(u64, char)>>,
    /// The open slices of each late job, by name.
    late: BTreeMap<String, Vec<String>>,
    /// The number of late jobs.
    late_jobs: u64,
    causes: u64,
    /// The total length of causes, and that of late jobs.
    lengths: [f64; 2],
}

impl Imported {
    fn take(&mut self, event: &Value) {
        match text(event, "ph") {
            "X" => self.slice(event, number(event, "dur")),
            "i" => {
                assert_eq!(event["s"], "t", "{event}");
                self.slice(event, 0.0);
            }
            phase @ ("s" | "t" | "f") => self.flow(event, phase),
            "b" => {
                let of = self.late.entry(text(event, "id").to_owned()).or_default();
                let is_whole = of.is_empty();
                of.push(text(event, "name").to_owned());
                let length =
                    number(&event["args"], if is_whole { "tardiness_us" } else { "share_us" });
                self.lengths[usize::from(is_whole)] += length;
                *(if is_whole { &mut self.late_jobs } else { &mut self.causes }) += 1;
            }
            "e" => {
                let of = self.late.get_mut(text(event, "id")).expect("begun");
                assert_eq!(of.pop().as_deref(), event["name"].as_str(), "the innermost: {event}");
            }
            "C" => {
                assert!(event["args"].as_object().is_some_and(|args| !args.is_empty()), "{event}")
            }
            "M" => assert!(!text(&event["args"], "name").is_empty(), "{event}"),
            other => panic!("a phase of which nothing is known: {other}"),
        }
    }

    fn slice(&mut self, event: &Value, length: f64) {
        let (begin, job) = (number(event, "ts"), event["args"]["job"].as_u64());
        let open = self.open.entry(track(event)).or_default();
        open.retain(|(end, _)| *end > begin);
        let end = begin + length;
        // Slices of a track are nested or disjoint.
        assert!(open.iter().all(|(outer, _)| *outer >= end), "{event} in {open:?}");
        open.push((end, job.expect("a job")));
    }

    fn flow(&mut self, event: &Value, phase: &str) {
        let id = u64::from_str_radix(text(event, "id"), 16).expect("a number");
        assert_eq!((&event["name"], &event["cat"]), (&"job".into(), &"flow".into()));
        assert!(phase != "f" || event["bp"] == "e", "to the slice that is open: {event}");
        let (_, job) = self.open.get(&track(event)).and_then(|open| open.last()).expect("a slice");
        let of = self.flows.entry(id).or_default();
        assert_eq!(of.is_empty(), phase == "s", "{event}");
        of.push((*job, phase.chars().next().expect("a letter")));
    }
}

#[test]
fn perfetto_finds_a_slice_for_each_flow_and_causes_within_late_jobs() {
    let (_folder, path) = traced(LATE, "200ms");
    let events: Vec<Value> = export(&path, "json")
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("event").cloned())
        .collect();
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count() as u64;
    let page: Value = serde_json::from_str(&export(&path, "perfetto")).expect("JSON");
    let mut shown: Vec<&Value> = page["traceEvents"].as_array().expect("a list").iter().collect();
    let of = |ph: &str, cat: &str| {
        shown.iter().filter(|event| event["ph"] == ph && event["cat"] == cat).count() as u64
    };
    assert_eq!(of("X", "job"), count("give-way") + count("complete"));
    assert_eq!(of("i", "deadline"), count("start"));
    assert_eq!(of("f", "flow"), count("complete"));
    shown.sort_by(|a, b| {
        let at = |event: &Value| event["ts"].as_f64().unwrap_or(0.0);
        at(a).total_cmp(&at(b))
    });
    let mut imported = Imported::default();
    shown.iter().for_each(|event| imported.take(event));

    // Each flow leads from a release over stretches to a completion, all of the same job.
    let mut complete = 0;
    for flow in imported.flows.values() {
        let phases: String = flow.iter().map(|(_, phase)| *phase).collect();
        assert!(phases.starts_with('s') && phases.len() > 1, "{phases}");
        assert!(!phases[..phases.len() - 1].contains('f'), "{phases}");
        complete += u64::from(phases.ends_with('f'));
        assert!(flow.iter().all(|(job, _)| *job == flow[0].0), "{flow:?}");
    }
    assert_eq!(complete, count("complete"));
    assert!(imported.flows.values().any(|flow| flow.len() > 2), "one was preempted");

    let late = why(&path).1.iter().filter(|line| line["late"].is_object()).count() as u64;
    assert_eq!(imported.late_jobs, late);
    assert!(late > 0 && imported.causes >= late, "{} causes of {late}", imported.causes);
    assert!(imported.late.values().all(Vec::is_empty), "every slice ends");
    let [causes, whole] = imported.lengths;
    assert!((causes - whole).abs() < 1e-3 * whole, "{causes} of {whole}");
    let named =
        shown.iter().any(|event| event["ph"] == "b" && event["name"] == "first ran instead");
    assert!(named, "who ran instead is a slice");
}
