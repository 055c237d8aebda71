//! Follows time constraints of this program's threads into a trace file, and checks what each
//! reader says of them. Skips what the host does not permit, and prints the reason.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_linux::clock;
use punctual_model::{Duration, Service};
use punctual_runtime::recording::{Existing, Recorder, run_here};
use punctual_runtime::reservation::{
    Constraint, Drained, Refused, Reservations, Settings, StartError,
};
use punctual_trace::constraint::Answer;
use punctual_trace::{Kind, Subject, SubjectKind};
use serde_json::Value;

use super::common::{punctual, text};

/// The outcomes as the thread itself saw them.
#[derive(Debug, Default)]
struct Saw {
    ended: u64,
    late: u64,
    refused: u64,
}

/// Waits while another program has the CPUs. Returns `None`, and prints the reason, where the host
/// permits no reservations.
fn reservations() -> Option<Reservations> {
    let settings = Settings::default().with_event_room(1 << 12);
    let reservations = Reservations::with(settings).expect("forks");
    if let Err(why) = &reservations.facts().fifo {
        println!("skipped: {why}");
        return None;
    }
    for _ in 0..300 {
        let (start, estimate) = (clock::now(), Service::from_micros(100));
        match Constraint::begin(&reservations, start, estimate, start + Duration::from_secs(2)) {
            Ok(constraint) => {
                constraint.end();
                // The constraint of the attempt is not part of the test.
                reservations.drain_all(|_| {});
                return Some(reservations);
            }
            Err(Refused::Start(StartError::Taken { .. })) => {
                clock::sleep(Duration::from_millis(100));
            }
            Err(other) => panic!("{other}"),
        }
    }
    println!("skipped: another program follows timetables on all CPUs");
    None
}

fn work(length: Duration) {
    let until = clock::now() + length;
    while clock::now() < until {
        std::hint::spin_loop();
    }
}

/// Asks for four constraints that fit, one whose work exceeds its estimate, and one that is
/// impossible.
fn ask(reservations: &Reservations) -> Saw {
    let ms = Duration::from_millis;
    let mut saw = Saw::default();
    for (works, within) in [(1, 400), (1, 400), (1, 400), (1, 400), (60, 20)] {
        let (start, estimate) = (clock::now() + ms(3), Service::from_millis(2));
        let begun = Constraint::begin(reservations, start, estimate, start + ms(within));
        let constraint = begun.expect("nothing else is promised");
        work(ms(works));
        let used = constraint.end();
        saw.ended += 1;
        saw.late += u64::from(!used.in_time);
    }
    let start = clock::now();
    let begun = Constraint::begin(reservations, start, Service::from_millis(50), start + ms(10));
    let refused = begun.map(Constraint::end);
    assert!(matches!(refused, Err(Refused::NoRoom { .. })), "{refused:?}");
    saw.refused += 1;
    saw
}

/// Writes the collected events and requests to a trace file.
fn write(reservations: &Reservations, path: &Path) {
    let mut recorder = Recorder::create(path, &run_here(""), Existing::Keep).expect("a file");
    let mut known = BTreeMap::new();
    let mut events = Vec::new();
    reservations.drain_all(|told| match told {
        Drained::Event(event) => events.push(event),
        Drained::Request { thread, asked } => {
            let number = asked.job.task;
            known.entry(number).or_insert_with(|| {
                let mut subject = Subject::new(format!("thread {thread}"), SubjectKind::Constraint);
                subject.thread = u32::try_from(thread.as_raw()).ok();
                recorder.subject(number, &subject).expect("written");
            });
            recorder.request(&asked).expect("written");
            let is_refused = matches!(asked.answer, Answer::Refused { .. });
            assert_eq!(is_refused, asked.estimate == Service::from_millis(50), "{asked:?}");
        }
    });
    assert_eq!((known.len(), reservations.events_lost()), (1, 0));
    recorder.events(&events).expect("written");
    assert!(events.iter().any(|event| matches!(event.kind, Kind::Throttle { .. })), "{events:?}");
    recorder.end(clock::now()).expect("written");
}

fn lines(output: &[u8]) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn each_reader_reports_requested_granted_and_kept_constraints() {
    let Some(reservations) = reservations() else { return };
    let saw =
        std::thread::scope(|scope| scope.spawn(|| ask(&reservations)).join().expect("no panic"));
    assert!(saw.late >= 1, "it worked for longer than it had: {saw:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ptrace");
    write(&reservations, &path);
    let path = path.to_str().expect("UTF-8");

    let why = punctual(&["why", "--json", path]);
    assert_eq!(why.status.code(), Some(1), "{}", text(&why.stderr));
    let all = lines(&why.stdout);
    let end = all.last().expect("the end");
    let subject = &end["threads"][0];
    assert_eq!(subject["kind"], "constraint", "{end:#}");
    assert_eq!(subject["verdict"], "broken", "{end:#}");
    assert_eq!(subject["late"], saw.late, "{end:#}");
    assert_eq!(subject["complete"], saw.ended, "{end:#}");
    assert_eq!(subject["refused"], saw.refused, "{end:#}");
    assert!(text(&punctual(&["why", path]).stdout).contains("1 time constraint refused"));

    let report = punctual(&["report", path, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let row = &report["tables"]["constraints"][0];
    for (column, expected) in
        [("asked", saw.ended + saw.refused), ("refused", saw.refused), ("missed", saw.late)]
    {
        assert_eq!(row[column], expected, "{column} of {row:#}");
    }

    let exported = punctual(&["export", path, "--format", "json"]);
    let asked = lines(&exported.stdout).into_iter().filter(|line| !line["asked"].is_null());
    assert_eq!(asked.count() as u64, saw.ended + saw.refused);
    let perfetto = punctual(&["export", path, "--format", "perfetto"]);
    let perfetto: Value = serde_json::from_slice(&perfetto.stdout).expect("JSON");
    let events = perfetto["traceEvents"].as_array().expect("events");
    let deadlines = events.iter().filter(|event| event["cat"] == "deadline").count() as u64;
    assert_eq!(deadlines, saw.ended, "a deadline for each that was granted");
}
