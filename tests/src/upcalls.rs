//! Upcalls on the live scheduler, `policy::rmdp`, compared with the bounds of the analysis in
//! virtual time. It shares no line with the analysis, nor with the simulated scheduler of
//! [`crate::promise`].

use punctual_analysis::{Steps, admit_within};
use punctual_model::{
    Contract, Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec,
};
use punctual_sim::cpu::{Cpu, Supply};
use punctual_sim::upcalls;
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A handler that takes a given time for each PDU.
struct Load {
    time_per_pdu: Service,
}

impl Handler for Load {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        pdus
    }
}

fn draw(rng: &mut ChaCha8Rng) -> Vec<Upcall> {
    let count = rng.random_range(1..=8);
    let share = rng.random_range(0.3..1.1) / f64::from(count);
    (0..count)
        .map(|i| {
            let period_us = rng.random_range(2_000..40_000u64);
            let batch = rng.random_range(1..=10u32);
            let pdu_us = share * rng.random_range(0.2..1.8) * period_us as f64 / f64::from(batch);
            Upcall::new(UpcallSpec {
                name: format!("u{i}"),
                period: Duration::from_micros(period_us),
                batch,
                quantum: rng.random_range(1..=batch),
                time_per_pdu: Service::from_micros(
                    (pdu_us as u64).clamp(1, period_us / u64::from(batch)),
                ),
            })
            .expect("drawn within the rules")
        })
        .collect()
}

/// Draws the upcalls of `seed`, and if they are admitted runs them at drawn phases. Returns how
/// many jobs there were, or `None` if they are not admitted.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn holds(seed: u64) -> Result<Option<u64>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let upcalls = draw(&mut rng);
    let contract = Contract::of_upcalls(upcalls.clone());
    let mut steps = Steps::new(4_000_000);
    let Ok(grant) = admit_within(&contract, &HostProfile::ideal(1), &mut steps) else {
        return Ok(None);
    };
    let phases: Vec<Duration> = upcalls
        .iter()
        .map(|u| Duration::from_nanos(rng.random_range(0..u.period().as_nanos())))
        .collect();
    let mut handlers: Vec<Load> =
        upcalls.iter().map(|u| Load { time_per_pdu: u.time_per_pdu() }).collect();
    let service = |load: &Load, pdus: u32| load.time_per_pdu * u64::from(pdus);
    let mut summary = Summary::new(&contract.tasks);
    let mut cpu = Cpu::new(Supply::Whole, Instant::ZERO);
    let until = Instant::ZERO + Duration::from_millis(300);
    upcalls::run(&upcalls, &phases, &mut handlers, service, &mut cpu, until, &mut summary)
        .into_iter()
        .for_each(|backlog| summary.end(until, backlog));
    if summary.late() > 0 {
        return Err(format!("seed {seed}: a job is late: {upcalls:#?}"));
    }
    for (task, seen) in grant.tasks.iter().zip(summary.tasks()) {
        let (worst, bound) = (seen.response_time.max(), task.response_time_bound);
        if worst > Some(bound) {
            let name = &task.name;
            return Err(format!("seed {seed}: {name} took {worst:?}, its bound is {bound}"));
        }
    }
    Ok(Some(summary.jobs()))
}
