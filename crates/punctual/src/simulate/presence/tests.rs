//! Draws contracts whose entries join and leave, and checks that every admitted entry is in time.

use std::path::Path;

use punctual_model::{Contract, Duration};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::super::{Options, Pattern, Report, Simulation, When};
use crate::{Failure, host};

/// Runs the contract `text` on an ideal host.
fn run(text: &str, options: Options) -> Result<Report, Failure> {
    let contract = Contract::parse("drawn", text.as_bytes()).expect(text);
    let ideal = host::choose(Some(Path::new("ideal")))?;
    Simulation::new(&contract, &ideal, options)?.run(&mut ())
}

fn when(name: &str, ms: u64) -> When {
    When { name: name.into(), at: Duration::from_millis(ms) }
}

const STUDIO: &str = "
    task = [
        { name = 'control', period = '10ms', wcet = '5ms' },
        { name = 'video', period = '20ms', wcet = '9ms' },
        { name = 'audio', period = '10ms', wcet = '5ms' },
    ]
    [system]
    policy = 'rm'
";

#[test]
fn a_join_is_refused_while_jobs_of_a_task_that_left_have_an_effect() {
    let run = |at| {
        let (join, leave) = (vec![when("audio", at)], vec![when("control", 5)]);
        let until = Duration::from_millis(200);
        run(STUDIO, Options { join, leave, until, ..Options::default() }).expect("it runs")
    };
    let refused = run(5);
    assert_eq!((refused.tasks.len(), refused.broken()), (2, 0));
    assert_eq!(refused.tasks[0].jobs, 1, "control has left");
    let why = refused.joined[0].refusal.as_deref().expect("it is refused");
    assert!(
        why.contains("response-time") && why.contains("what has left counts for up to"),
        "{why}"
    );
    let admitted = run(40);
    assert!(admitted.joined[0].admitted, "{:?}", admitted.joined);
    assert_eq!((admitted.tasks[2].jobs, admitted.broken()), (16, 0));
}

#[test]
fn impossible_joins_and_leaves_are_refused_by_name() {
    let mixed = STUDIO.replace("'rm'", "'edf-vd'");
    let of = |join: Vec<When>, leave: Vec<When>| Options { join, leave, ..Options::default() };
    for (text, options, why) in [
        (STUDIO, of(vec![when("x", 5)], vec![]), "\"x\" is no task and no reservation"),
        (STUDIO, of(vec![when("audio", 5), when("audio", 6)], vec![]), "named twice"),
        (
            STUDIO,
            of(vec![when("audio", 5)], vec![when("audio", 5)]),
            "is to leave at 5ms and joins at 5ms",
        ),
        (&mixed, of(vec![when("audio", 5)], vec![]), "virtual deadlines"),
        (STUDIO, of(vec![], vec![when("audio", 5)]), "response-time"),
    ] {
        let failure = run(text, options).expect_err(why).to_string();
        assert!(failure.contains(why), "{failure}");
    }
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    /// Draws join times for some of `names`, and leave times for some.
    fn times(&mut self, names: &[String]) -> (Vec<When>, Vec<When>) {
        let (mut join, mut leave) = (Vec::new(), Vec::new());
        for name in names {
            let from = self.of(0, 2).min(1) * self.of(1, 150);
            if from > 0 {
                join.push(when(name, from));
            }
            if self.of(0, 1) == 1 {
                leave.push(when(name, from + self.of(1, 100)));
            }
        }
        (join, leave)
    }
}

/// Draws up to 14 tasks, of which the later ones join after the earlier ones have left; in whole
/// milliseconds.
fn drawn(draw: &mut Draw, policy: &str, quanta: bool) -> (String, Vec<String>) {
    let cpus = if quanta { draw.of(1, 2) } else { 1 };
    let mut text = format!("[system]\npolicy = '{policy}'\ncpus = {cpus}\n");
    let mut names = Vec::new();
    for at in 0..draw.of(4, 14) {
        let period = draw.of(4, 60);
        let wcet = draw.of(1, (period / 2).max(1));
        let deadline =
            if draw.of(0, 2) == 0 { draw.of(wcet.max(period / 2), period) } else { period };
        text += &format!(
            "[[task]]\nname = 't{at}'\nperiod = '{period}ms'\nwcet = '{wcet}ms'\n\
             relative_deadline = '{deadline}ms'\n"
        );
        if quanta && draw.of(0, 1) == 1 {
            text += &format!("quantum = '{}us'\n", draw.of(1, 1_000 * wcet));
        }
        names.push(format!("t{at}"));
    }
    if quanta && cpus == 1 {
        for at in 0..draw.of(0, 2) {
            let period = draw.of(4, 40);
            let budget = draw.of(50, 250) * period;
            text += &format!(
                "[[reservation]]\nname = 'r{at}'\nbudget = '{budget}us'\nperiod = '{period}ms'\n"
            );
            names.push(format!("r{at}"));
        }
    }
    (text, names)
}

fn draws() -> u64 {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    count.unwrap_or(1_000)
}

const POLICIES: [&str; 5] = ["rmdp", "rm", "fp", "edf", "fifo"];
const PATTERNS: [Pattern; 4] =
    [Pattern::Periodic, Pattern::Sporadic, Pattern::Bursty, Pattern::Adversarial];

/// Draws more contracts with `PUNCTUAL_DRAWS=100000 cargo test …`.
#[test]
fn no_task_admitted_when_it_joins_is_late() {
    let (mut ran, mut admitted, mut refused, mut left) = (0, 0, 0, 0);
    for seed in 0..draws() {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
        let (text, names) = drawn(draw, POLICIES[seed as usize % 5], true);
        let (join, leave) = draw.times(&names);
        let arrivals = Some(PATTERNS[draw.of(0, 3) as usize]);
        let until = Duration::from_millis(400);
        let options =
            Options { arrivals, seed: Some(seed), until, join, leave, ..Options::default() };
        let report = match run(&text, options) {
            Ok(report) => report,
            // The entries of the beginning are refused together.
            Err(Failure::Refused(_)) => continue,
            Err(other) => panic!("seed {seed}: {other}\n{text}"),
        };
        assert_eq!(report.broken(), 0, "seed {seed}\n{text}{report:#?}");
        ran += 1;
        let accepted = report.joined.iter().filter(|one| one.admitted).count();
        (admitted, refused) = (admitted + accepted, refused + report.joined.len() - accepted);
        left += report.left.len();
    }
    println!("{ran} systems: {admitted} joined, {refused} were refused, {left} left");
    let least = draws() as usize / 2;
    assert!(ran > least && admitted > least && refused > least && left > least);
}

/// Returns the longest response time of each task and its number of jobs, by a simulation of the
/// most urgent job in each millisecond.
fn oracle(
    contract: &Contract,
    stays: &[Option<(u64, u64)>],
    until: u64,
    edf: bool,
) -> Vec<(u64, u64)> {
    let ms = |duration: Duration| duration.as_nanos() / 1_000_000;
    let tasks: Vec<(u64, u64, u64)> = contract
        .tasks
        .iter()
        .map(|task| {
            let wcet = ms(task.wcet().at_full_speed());
            (ms(task.min_inter_arrival()), wcet, ms(task.relative_deadline()))
        })
        .collect();
    let mut jobs: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks.len()];
    let mut seen = vec![(0, 0); tasks.len()];
    let mut running = None;
    for now in 0.. {
        for (at, &(period, wcet, _)) in tasks.iter().enumerate() {
            let Some((from, to)) = stays[at] else { continue };
            if now >= from && now < to.min(until) && (now - from) % period == 0 {
                jobs[at].push((now, wcet));
            }
        }
        let key = |at: usize| {
            let (period, _, deadline) = tasks[at];
            let due = if edf { jobs[at][0].0 + deadline } else { period };
            // At equal deadlines the running job goes on.
            (due, edf && running != Some((at, jobs[at][0].0)), at)
        };
        let next = (0..tasks.len()).filter(|&at| !jobs[at].is_empty()).min_by_key(|&at| key(at));
        let Some(at) = next else {
            if now > until {
                return seen;
            }
            continue;
        };
        running = Some((at, jobs[at][0].0));
        jobs[at][0].1 -= 1;
        if jobs[at][0].1 == 0 {
            let (release, _) = jobs[at].remove(0);
            seen[at] = (seen[at].0.max(now + 1 - release), seen[at].1 + 1);
        }
    }
    seen
}

#[test]
fn runs_with_joins_and_leaves_agree_with_the_millisecond_oracle() {
    let mut compared = 0;
    for seed in 0..draws() / 2 {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(1_000_000 + seed));
        let edf = seed % 2 == 0;
        let (text, names) = drawn(draw, if edf { "edf" } else { "rm" }, false);
        let (join, leave) = draw.times(&names);
        let until = 300;
        let options = Options {
            until: Duration::from_millis(until),
            join: join.clone(),
            leave: leave.clone(),
            ..Options::default()
        };
        let Ok(report) = run(&text, options) else { continue };
        let contract = Contract::parse("drawn", text.as_bytes()).expect("as before");
        let ms = |all: &[When], name: &str| {
            let found = all.iter().find(|when| when.name == name);
            found.map(|when| when.at.as_nanos() / 1_000_000)
        };
        let stay = |name: &String| {
            let is_refused = report.joined.iter().any(|one| one.name == *name && !one.admitted);
            let stay = (ms(&join, name).unwrap_or(0), ms(&leave, name).unwrap_or(u64::MAX));
            (!is_refused).then_some(stay)
        };
        let stays: Vec<Option<(u64, u64)>> = names.iter().map(stay).collect();
        let expected = oracle(&contract, &stays, until, edf);
        for task in &report.tasks {
            let at = names.iter().position(|name| *name == task.name).expect("it is declared");
            let seen = (task.max_response_time_ns.unwrap_or(0) / 1_000_000, task.jobs);
            assert_eq!(seen, expected[at], "seed {seed}, {}\n{text}{report:#?}", task.name);
            compared += 1;
        }
    }
    assert!(compared > draws() as usize, "{compared}");
}
