//! Tests the page as text: its contents, its safety, its length.

use std::time::Instant as Clock;

use punctual_model::{Duration, Instant, JobId, Service};
use punctual_trace::file::{Lost, Writer};
use punctual_trace::{Event, Kind};

use crate::made::{self, HOSTILE};

#[test]
fn the_page_runs_nothing_from_a_name() {
    let page = made::report(&made::trace(60)).to_html(HOSTILE);
    // The two scripts are ours: the data, and the script whose hash the policy names.
    assert_eq!(page.matches("<script").count(), 2, "an element of a name");
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<img"), "an element of a name");
    for hidden in ['\u{202e}', '\u{0}', '\u{1b}', '\u{7}'] {
        assert!(!page.contains(hidden), "{hidden:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "the name is shown");
    assert!(page.contains("default-src 'none'"));
    let addresses = page.match_indices("http").filter(|(at, _)| {
        let rest = &page[*at..];
        !rest.starts_with("http-equiv") && !rest.starts_with("http://www.w3.org/2000/svg")
    });
    assert_eq!(addresses.count(), 0, "something to fetch");
}

#[test]
fn every_section_is_there_and_every_plot_has_words() {
    let page = made::report(&made::eventful()).to_html("a.ptrace");
    for id in ["promises", "timeline", "late", "times", "budgets", "contract", "host", "missing"] {
        assert!(page.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    let pictures = page.matches("<svg").count();
    let worded =
        page.matches("role=\"img\"").count() + page.matches("aria-hidden=\"true\"><path").count();
    assert_eq!(pictures, worded, "a picture without words");
    for words in [
        "12 events were lost",
        "The trace has no end",
        "page faults",
        "the host ran something else on this CPU",
        "not judgeable",
        "capture ran instead",
        "its own work, beyond what was declared",
        "not known",
        "admitted under rmdp on 1 CPU",
        "2024-12-31 23:59:59 UTC",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_tables_as_json_say_what_the_page_says() {
    let report = made::report(&made::eventful());
    let json = report.to_json("a.ptrace");
    assert_eq!(json["events_lost"], 12);
    assert_eq!(json["has_end"], false);
    assert_eq!(json["late_jobs_explained_by_kernel"], 1);
    assert_eq!(json["admission"]["admitted"], true);
    let promises = json["tables"]["promises"].as_array().expect("rows");
    assert_eq!(promises.len(), 5);
    assert!(promises.iter().any(|row| row["verdict"] == "broken"), "{promises:?}");
    let hog = promises.iter().find(|row| row["subject"] == "hog").expect("hog");
    assert_eq!((&hog["complete"], &hog["skipped"]), (&200.into(), &4.into()));
    let budgets = json["tables"]["budgets"].as_array().expect("rows");
    let hog = budgets.iter().find(|row| row["subject"] == "hog").expect("hog");
    assert_eq!((&hog["budget_ns"], &hog["used_max_ns"]), (&2_000_000.into(), &3_000_000.into()));
    assert_eq!((&hog["throttles"], &hog["throttled_ns"]), (&200.into(), &1_200_000_000u64.into()));
    let tally = ["promises_kept", "promises_broken", "promises_not_judgeable"];
    let tally: u64 = tally.iter().map(|key| json[*key].as_u64().expect("a number")).sum();
    assert_eq!(tally, 5);
}

#[test]
fn a_damaged_file_is_shown_as_far_as_it_is_whole() {
    let whole = made::trace(60);
    let complete = |bytes: &[u8]| {
        let json = made::report(bytes).to_json("a");
        let rows = json["tables"]["promises"].as_array().cloned().unwrap_or_default();
        let complete: u64 = rows.iter().filter_map(|row| row["complete"].as_u64()).sum();
        (complete, json["warnings"].as_array().map_or(0, Vec::len), json["promises_kept"].clone())
    };
    let (all, warnings, _) = complete(&whole);
    assert!(all > 500 && warnings == 0, "{all} {warnings}");
    for cut in (16..whole.len()).step_by(whole.len() / 23) {
        let (some, warnings, kept) = complete(&whole[..cut]);
        assert!(some <= all && warnings > 0, "{cut}");
        assert_eq!(kept, 0, "nothing is kept that was not seen to its end");
        let mut damaged = whole.clone();
        damaged[cut] ^= 0x40;
        let page = made::report(&damaged).to_html("a");
        assert!(page.contains("damaged in 1 place"), "{cut}");
    }
}

#[test]
fn a_million_events_make_a_page_that_a_browser_can_bear() {
    let begun = Clock::now();
    let events = made::events(55_000);
    assert!(events.len() >= 1_000_000, "{}", events.len());
    let trace = made::trace(55_000);
    let page = made::report(&trace).to_html("a.ptrace");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("Too many jobs to draw each of them"));
    println!(
        "{} events, {} bytes of trace, {} of page, {:?}",
        events.len(),
        trace.len(),
        page.len(),
        begun.elapsed()
    );
}

/// Draws numbers that no run has. None may stop the report, or make the page endless.
#[test]
fn any_numbers_in_a_trace_give_a_page() {
    let mut state = 7u64;
    let mut draw = move || {
        // Knuth's constants; the upper half is good enough here.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    for _ in 0..150 {
        let mut number = || match draw() % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => draw() % 100,
            3 => draw() << 32,
            4 => u64::MAX - draw(),
            _ => draw() % 1_000_000_000,
        };
        let mut writer = Writer::new(&made::run());
        for task in 0..4 {
            let mut subject = made::subject(task);
            subject.promise.period = Some(Duration::from_nanos(number()));
            subject.promise.relative_deadline = Some(Duration::from_nanos(number()));
            subject.promise.wcet = Some(Service::from_nanos(number()));
            let name = [0, u32::MAX, 5, number() as u32][task];
            writer.subject(name, &subject);
        }
        let events: Vec<Event> = (0..60)
            .map(|_| {
                let kind = match number() % 11 {
                    0 | 1 => Kind::Start,
                    2 => Kind::GiveWay,
                    3 => Kind::Resume,
                    4 | 5 => Kind::Complete,
                    6 => Kind::Skip { jobs: number() },
                    7 => Kind::Overrun { jobs: number() },
                    8 => Kind::Throttle { left: Service::from_nanos(number()) },
                    9 => Kind::Replenish { budget: Service::from_nanos(number()) },
                    _ => Kind::Unthrottle,
                };
                let task = [0, u32::MAX, 5, 77][number() as usize % 4];
                let job = JobId { task, index: number() };
                let (at, release) = (Instant::from_nanos(number()), Instant::from_nanos(number()));
                Event { at, job, release, kind }
            })
            .collect();
        writer.events(&events);
        writer.lost(Lost::new(Instant::from_nanos(number()), number()));
        writer.events(&events[..20]);
        writer.lost(Lost::new(Instant::from_nanos(number()), number()));
        writer.end(Instant::from_nanos(number()));
        let report = made::report(&writer.take());
        assert!(report.to_html("a").len() < 5_000_000);
        assert!(report.to_json("a")["tables"].is_object());
    }
}
