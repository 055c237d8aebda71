//! Tasks, channels and reservations that were admitted together run together, and all meet their
//! deadlines.
//!
//! The sending thread runs first, on the time that the reservations leave: it does not depend on
//! the tasks, which are below it. The tasks get the rest of the processor.

mod draw;
mod run;
mod streams;

use punctual_model::{Duration, HostProfile, Instant, Task, TaskSpec};
use punctual_sim::egress::Exact;
use punctual_sim::egress::traffic::Occupant;
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use run::System;
pub use streams::{KeptStreams, streams_hold};

/// The result for one system: for each task and channel, the largest share of its bound that was
/// used.
pub struct Kept {
    /// The number of simulated jobs.
    pub jobs: u64,
    /// The shares of all tasks.
    pub tasks: Vec<f64>,
    /// The shares of all channels.
    pub channels: Vec<f64>,
}

/// Draws the system of `seed`, and if it is admitted simulates it four times. Returns `None` if it
/// is not.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn holds(seed: u64) -> Result<Option<Kept>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Some(system) = System::admitted(draw::system(&mut rng)) else { return Ok(None) };
    kept(&system, seed, &mut rng).map(Some)
}

/// Does the same with a system for two CPUs, with twice the tasks. The sending thread runs once on
/// each, because nothing pins it.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn holds_wherever_it_sends(seed: u64) -> Result<Option<Kept>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut contract, host) = draw::system(&mut rng);
    let (others, _) = draw::system(&mut rng);
    let more = others.tasks.iter().map(|task| {
        let name = format!("other {}", task.name());
        Task::new(TaskSpec { name, ..task.spec().clone() }).expect("as valid")
    });
    contract.tasks.extend(more);
    contract.cpus = 2;
    let Some(system) = System::admitted((contract, HostProfile { cpus: 2, ..host })) else {
        return Ok(None);
    };
    let mut all = Kept { jobs: 0, tasks: Vec::new(), channels: Vec::new() };
    for cpu in 0..2 {
        let here = system.as_on(cpu);
        if here.contract.tasks.is_empty() {
            continue;
        }
        let kept = kept(&here, seed, &mut rng)?;
        all.jobs += kept.jobs;
        all.tasks.extend(kept.tasks);
        all.channels.extend(kept.channels);
    }
    Ok(Some(all))
}

fn kept(system: &System, seed: u64, rng: &mut ChaCha8Rng) -> Result<Kept, String> {
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
            0 => system.send(until, Exact, rng),
            _ => {
                let draws = ChaCha8Rng::seed_from_u64(rng.random());
                let least_percent = rng.random_range(0..=100);
                let costs = punctual_sim::egress::Drawn { least_percent, rng: draws };
                system.send(until, costs, rng)
            }
        };
        for (worst, seen) in worst.iter_mut().zip(&above.delays.channels) {
            *worst = seen.longest.max(*worst);
            if (seen.late, seen.refused, seen.not_conforming) != (0, 0, 0) {
                return broken(format!("a message is late: {seen:?}"));
            }
        }
        let taken = system.taken(&above.parts);
        // Best effort begins before any task is released.
        let begun = above.parts.iter().find(|part| part.0 == Some(Occupant::BestEffort));
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
            let when = (critical, system.for_four_jobs());
            let late = system.run_tasks(taken.clone(), when, rng, &mut summary);
            if late + summary.late() > 0 {
                return broken("a job is late".into());
            }
        }
    }
    let ratio = |seen: Duration, bound: Duration| seen.as_nanos() as f64 / bound.as_nanos() as f64;
    let mut kept = Kept { jobs: summary.jobs(), tasks: Vec::new(), channels: Vec::new() };
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
    Ok(kept)
}

const RUNS: usize = 4;
