//! Plays random threads event by event as rt-app does, alone or disturbed, and compares the work
//! that they did with the work that their contract allows in every window.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::parse;

/// A generator of our own, so that the meaning of a seed never changes (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

#[derive(Clone, Copy)]
enum Event {
    Run(u64),
    Sleep(u64),
    Timer(u64),
}

struct Drawn {
    thread_loops: bool,
    phases: Vec<(u64, Vec<Event>)>,
}

/// Draws one to three phases of one to four events; all timers share one name.
fn draw(random: &mut Random, timed: bool) -> Drawn {
    let mut phases = Vec::new();
    for _ in 0..1 + random.below(3) {
        let mut events = Vec::new();
        for _ in 0..1 + random.below(4) {
            events.push(match random.below(3) {
                0 => Event::Run(1 + random.below(30)),
                1 => Event::Sleep(random.below(60)),
                _ if timed => Event::Timer(60 + 40 * random.below(3)),
                _ => Event::Run(1 + random.below(30)),
            });
        }
        phases.push((1 + random.below(4), events));
    }
    Drawn { phases, thread_loops: random.below(3) > 0 }
}

fn written(drawn: &Drawn) -> String {
    let phases = drawn.phases.iter().enumerate().map(|(at, (times, events))| {
        let events = events.iter().map(|event| match event {
            Event::Run(run) => format!("\"run\":{run}"),
            Event::Sleep(sleep) => format!("\"sleep\":{sleep}"),
            Event::Timer(period) => {
                format!("\"timer\":{{\"ref\":\"unique\",\"period\":{period}}}")
            }
        });
        format!("\"p{at}\":{{\"loop\":{times},{}}}", events.collect::<Vec<_>>().join(","))
    });
    let phases = phases.collect::<Vec<_>>().join(",");
    let times = if drawn.thread_loops { -1 } else { 1 };
    format!("{{\"tasks\":{{\"a\":{{\"loop\":{times},\"phases\":{{{phases}}}}}}}}}")
}

/// A job that was played: its release, its execution time, and the event that ended it.
struct Job {
    release: u64,
    ran: u64,
    /// The period of the timer that ended it; `None` for a sleep.
    ended_by: Option<u64>,
}

/// Plays a thread as `rt-app.c` does: a sleep begins when it is reached; a timer fires one period
/// after it last fired, or at once if that time has passed, and then counts from now. Runs may be
/// shorter than stated, and other threads may delay them.
fn play(drawn: &Drawn, timed: bool, random: &mut Random, events: usize) -> Vec<Job> {
    let (mut now, mut next, mut jobs) = (0u64, 0u64, Vec::new());
    let mut job = Job { release: 0, ran: 0, ended_by: None };
    let (exact, disturbed) = (random.below(2) == 0, random.below(2) == 0);
    let mut done = 0;
    let once = drawn
        .phases
        .iter()
        .flat_map(|(times, events)| (0..*times).flat_map(move |_| events.iter().copied()));
    let rounds = if drawn.thread_loops { usize::MAX } else { 1 };
    for event in (0..rounds).flat_map(|_| once.clone()) {
        done += 1;
        if done > events {
            break;
        }
        match event {
            Event::Run(run) => {
                let ran = if exact { run } else { random.below(run + 1) };
                job.ran += ran;
                now += ran + if disturbed && random.below(3) == 0 { random.below(90) } else { 0 };
            }
            Event::Sleep(sleep) => {
                now += sleep;
                if !timed && sleep > 0 && job.ran > 0 {
                    jobs.push(core::mem::replace(
                        &mut job,
                        Job { release: now, ran: 0, ended_by: None },
                    ));
                } else if !timed && job.ran == 0 {
                    job.release = now;
                }
            }
            Event::Timer(period) => {
                next += period;
                // If it is late, it counts from now on.
                next = next.max(now);
                now = next;
                job.ended_by = Some(period);
                jobs.push(core::mem::replace(
                    &mut job,
                    Job { release: now, ran: 0, ended_by: None },
                ));
            }
        }
    }
    if !timed && job.ran > 0 {
        jobs.push(job);
    }
    jobs
}

#[test]
fn in_no_window_does_a_thread_do_more_than_its_contract_says() {
    let mut random = Random(11);
    let (mut checked, mut with_several, mut good) = (0, 0, 0);
    for _ in 0..4000 {
        let timed = random.below(2) == 0;
        let drawn = draw(&mut random, timed);
        let text = written(&drawn);
        let Ok(imported) = parse("w.json", text.as_bytes()) else { continue };
        let has_timer = drawn
            .phases
            .iter()
            .flat_map(|(_, events)| events)
            .any(|e| matches!(e, Event::Timer(_)));
        let tasks = &imported.contract.tasks;
        good += 1;
        with_several += usize::from(tasks.len() > 1);
        let jobs = play(&drawn, has_timer, &mut random, 300);
        for task in tasks {
            let micros = |nanos: u64| nanos / 1000;
            let period = micros(task.min_inter_arrival().as_nanos());
            let (wcet, jitter) =
                (micros(task.wcet().as_nanos()), micros(task.release_jitter().as_nanos()));
            let ours: Vec<&Job> = jobs
                .iter()
                .filter(|job| job.ran > 0 && job.ended_by.is_none_or(|by| by == period))
                .collect();
            for first in 0..ours.len() {
                let mut done = 0;
                for job in &ours[first..] {
                    done += job.ran;
                    // The shortest half-open window that includes this release.
                    let window = job.release - ours[first].release + 1;
                    let allowed = (window + jitter).div_ceil(period) * wcet;
                    assert!(done <= allowed, "{text}\n{task:?}\n{done} in {window}");
                    checked += 1;
                }
            }
        }
        let periods: BTreeMap<String, u64> = tasks
            .iter()
            .map(|task| (task.name().to_string(), task.min_inter_arrival().as_nanos() / 1000))
            .collect();
        for job in jobs.iter().filter(|job| job.ran > 0) {
            let known = job.ended_by.is_none_or(|by| periods.values().any(|&period| period == by));
            assert!(known, "{text}: a job of a period that the contract does not have");
        }
    }
    assert!(checked > 1_000_000 && good > 2000, "{checked} windows of {good} threads");
    assert!(with_several > 200, "{with_several} threads with several periods");
}
