//! Tasks, channels and reservations that were admitted together run together, and all is in time.
//!
//! The sending host runs first, with the reservations as hogs above it: nothing of it depends on the
//! tasks, which are below. What it leaves of the processor the tasks get. In this order best effort
//! cannot be simulated in general, for it waits for the tasks: so there is one block of it, which
//! begins before any task wants the processor, at the instants that are worst for the tasks. Not
//! covered: best effort that comes again where the tasks pause.

mod joint_draw;
mod joint_run;

use joint_run::System;
use punctual_model::{Duration, Instant, Task};
use punctual_sim::link::Exact;
use punctual_sim::link::sink::Occupant;
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What became of one system: of all tasks and channels, how much of its bound the worst one took.
struct Kept {
    tasks: Vec<f64>,
    channels: Vec<f64>,
}

fn holds(seed: u64) -> Result<Option<Kept>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Some(system) = System::admitted(&mut rng) else { return Ok(None) };
    let contract = &system.contract;
    let longest = contract.tasks.iter().map(Task::min_inter_arrival).max().unwrap_or_default();
    let mut summary = Summary::new(&contract.tasks);
    let mut worst = vec![Duration::ZERO; system.channels.len()];
    let broken = |what: String| {
        Err(format!("seed {seed}: {what}: {:#?} on {:?}", system.contract, system.host))
    };
    for round in 0..RUNS {
        let until = system.origin() + longest * 3;
        let above = match round % 2 {
            0 => system.send(until, Exact, &mut rng),
            _ => {
                let draws = ChaCha8Rng::seed_from_u64(rng.random());
                let least_percent = rng.random_range(0..=100);
                let costs = punctual_sim::link::Drawn { least_percent, rng: draws };
                system.send(until, costs, &mut rng)
            }
        };
        for (worst, seen) in worst.iter_mut().zip(&above.delays.channels) {
            *worst = seen.longest.max(*worst);
            if (seen.late, seen.refused, seen.not_conforming) != (0, 0, 0) {
                return broken(format!("a message is late: {seen:?}"));
            }
        }
        let taken = system.taken(&above.parts);
        // Best effort begins before any task is known.
        let begun = above.parts.iter().find(|part| part.0 == Occupant::BestEffort);
        let earliest = begun.map_or(Instant::ZERO, |part| part.1 + Duration::from_nanos(1));
        let candidates = above.parts.iter().map(|part| part.1).filter(|&at| at >= earliest);
        let candidates: Vec<Instant> = candidates.take(200).collect();
        for attempt in 0..4 {
            let critical = match attempt {
                0 => system.origin().max(earliest),
                1 => earliest.max(Instant::from_nanos(1)),
                _ if candidates.is_empty() => continue,
                _ => candidates[rng.random_range(0..candidates.len())],
            };
            let late = system.run_tasks(&taken, critical, &mut rng, &mut summary);
            if late + summary.late() > 0 {
                return broken("a job is late".into());
            }
        }
    }
    let ratio = |seen: Duration, bound: Duration| seen.as_nanos() as f64 / bound.as_nanos() as f64;
    let mut kept = Kept { tasks: Vec::new(), channels: Vec::new() };
    for (task, seen) in system.grant.tasks.iter().zip(summary.tasks()) {
        let (seen, bound) =
            (seen.response_time.max().unwrap_or_default(), task.response_time_bound);
        if seen > bound {
            return broken(format!("task {} took {seen}, its bound is {bound}", task.name));
        }
        kept.tasks.push(ratio(seen, bound));
    }
    for (&at, &seen) in system.ranked.iter().zip(&worst) {
        let channel = &system.grant.channels[at];
        let bound = channel.proven_delay;
        if seen > bound {
            return broken(format!("channel {} took {seen}, its bound is {bound}", channel.name));
        }
        kept.channels.push(ratio(seen, bound));
    }
    Ok(Some(kept))
}

const RUNS: usize = 4;

/// `JOINT_SYSTEMS` draws more of them.
fn systems() -> u64 {
    std::env::var("JOINT_SYSTEMS").ok().and_then(|count| count.parse().ok()).unwrap_or(6_000)
}

/// The seed in the message replays a failure.
#[test]
fn what_is_admitted_together_is_in_time_together() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let seeds = systems();
    let share = |first: u64| {
        let outcomes = (first..seeds).step_by(threads as usize).map(holds);
        outcomes.filter_map(Result::transpose).collect::<Result<Vec<Kept>, String>>()
    };
    let kept: Vec<Kept> = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let shares = shares.into_iter().map(|share| share.join().expect("no panic"));
        shares.flat_map(|share| share.unwrap_or_else(|broken| panic!("{broken}"))).collect()
    });
    let all = |of: fn(&Kept) -> &Vec<f64>| -> Vec<f64> {
        kept.iter().flat_map(|kept| of(kept).iter().copied()).collect()
    };
    for (what, seen) in [("tasks", all(|k| &k.tasks)), ("channels", all(|k| &k.channels))] {
        let (worst, sum) = seen.iter().fold((0.0f64, 0.0), |(w, s), r| (w.max(*r), s + r));
        println!("{} {what}: worst {worst:.4}, mean {:.3}", seen.len(), sum / seen.len() as f64);
        assert!(worst > 0.9, "the runs are hard enough to say something: {worst}");
    }
    println!("{} of {seeds} admitted", kept.len());
    assert!(kept.len() as u64 * 8 > seeds, "{} of {seeds} admitted", kept.len());
}

/// A reservation every millisecond interrupts handlers, whose changes cost almost as much as its
/// budget: charged at the price of its own switches, which are free, a task exceeds its bound.
#[test]
fn changes_back_to_an_interrupted_handler_are_charged() {
    holds(51_226).map(|_| ()).unwrap_or_else(|broken| panic!("{broken}"));
}
