//! Drawn contracts: what is admitted is not late in any layer.

use clap::Parser;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use punctual_model::Service;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }
}

/// Tasks with quanta, and above them reservations of the kernel or of commands.
fn drawn(draw: &mut Draw) -> String {
    let policy = ["rmdp", "rm", "fp", "edf", "fifo"][draw.of(0, 4) as usize];
    let cpus = draw.of(1, 2);
    let mut text = format!("[system]\npolicy = '{policy}'\ncpus = {cpus}\n");
    for at in 0..draw.of(1, 4) {
        let period = draw.of(2_000, 60_000);
        let wcet = draw.of(period / 100, period / 5);
        text += &format!("[[task]]\nname = 't{at}'\nperiod = '{period}us'\nwcet = '{wcet}us'\n");
        if policy != "fifo" && draw.of(0, 2) > 0 {
            text += &format!("quantum = '{}us'\n", draw.of(1, wcet));
        }
    }
    // None, all, or some.
    let of_commands = draw.of(0, 2);
    for at in 0..draw.of(1, 4) {
        let period = draw.of(2_000, 40_000);
        let budget = draw.of(period / 50, period / 4);
        text += &format!(
            "[[reservation]]\nname = 'r{at}'\nbudget = '{budget}us'\nperiod = '{period}us'\n"
        );
        if of_commands == 1 || of_commands == 2 && draw.of(0, 1) == 1 {
            text += &format!("[[command]]\nname = 'c{at}'\nrun = ['x']\nreservation = 'r{at}'\n");
        }
    }
    text
}

/// How many of so many drawn contracts were admitted, and those that were broken all the same.
fn broken(count: u64) -> (u64, Vec<String>) {
    let (mut admitted, mut broken) = (0, Vec::new());
    let stamp = Line::parse_from(["simulate", "x"]).args.profile.choose().expect("a profile").stamp;
    for seed in 0..count {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
        let text = drawn(draw);
        let contract = Contract::parse("drawn", text.as_bytes()).expect(&text);
        let switch = draw.of(0, 1) * draw.of(0, 50);
        let host = HostProfile {
            slot_allowance: Service::from_micros(draw.of(0, 2) * 50),
            context_switch: Service::from_micros(switch),
            reservable_ppm: 950_000,
            ..HostProfile::ideal(2)
        };
        let answer = admit(&contract, &host);
        if answer.is_err() {
            continue;
        }
        admitted += 1;
        let held: Vec<&str> = answer
            .iter()
            .flat_map(|grant| &grant.timetables)
            .flat_map(|table| &table.holds)
            .map(|&at| &contract.reservations[at].name[..])
            .collect();
        // Beside a timetable one that nobody in the contract holds is bandwidth alone (docs/CAVEATS.md).
        let spare = held.len() < contract.reservations.len();
        let excused = |name: &str| spare && held.contains(&name);
        for pattern in ["periodic", "sporadic", "bursty", "adversarial"] {
            let line = format!(
                "simulate x --until 500ms --seed {seed} --arrivals {pattern} --overheads {switch}us"
            );
            let args = Line::parse_from(line.split(' ')).args;
            let mut report = Report::new(&args, true, stamp.clone(), Vec::new());
            let mut traces = Traces::of(&args, "").expect("none");
            run_placed(&args, &contract, &host, &answer, None, &mut traces, &mut report)
                .expect("placed");
            let ran = report.entries().filter(|entry| entry.jobs > 0).count();
            let all = contract.tasks.len() + contract.reservations.len();
            let kept = report
                .entries()
                .all(|entry| (entry.late == 0 || excused(&entry.name)) && !entry.exceeds_bound);
            if !kept || ran < all {
                broken.push(format!("{pattern}, {host:?}\n{text}{}", text::page(&report, None)));
            }
        }
    }
    (admitted, broken)
}

/// More of them: `PUNCTUAL_DRAWS=10000 cargo test …`.
#[test]
fn what_is_admitted_is_late_in_no_layer() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(300);
    let (admitted, broken) = broken(count);
    println!("{admitted} of {count} admitted");
    assert!(broken.is_empty(), "{} broken, the first: {}", broken.len(), broken[0]);
    assert!(admitted > count / 4, "{admitted}");
}
