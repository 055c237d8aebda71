//! Sets of upcalls that are drawn from a seed, admitted with the host's own calibration, run live,
//! and compared with the bounds that admission proved.

use punctual_analysis::{Steps, admit_within};
use punctual_linux::clock;
use punctual_model::{
    Contract, Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec,
};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::{Event, Kind, Sink as _, Summary};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Interrupts, Kept, rounds_per_microsecond, work};

/// How long the creation of the threads may take before the first release.
const START: Duration = Duration::from_secs(1);

/// A handler that takes a given time for each PDU, exact to the instruction.
struct Load {
    rounds_per_pdu: u64,
}

impl Handler for Load {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        work(self.rounds_per_pdu * u64::from(pdus));
        pdus
    }
}

/// Draws one to six upcalls that together take 30 to 90 % of a CPU.
fn draw(rng: &mut ChaCha8Rng) -> Vec<Upcall> {
    let count = rng.random_range(1..=6);
    let share = rng.random_range(0.3..0.9) / f64::from(count);
    (0..count)
        .map(|i| {
            let period_us = rng.random_range(4_000..40_000u64);
            let batch = rng.random_range(1..=8u32);
            let pdu_us = (share * period_us as f64 / f64::from(batch)) as u64;
            Upcall::new(UpcallSpec {
                name: format!("u{i}"),
                period: Duration::from_micros(period_us),
                batch,
                quantum: rng.random_range(1..=batch),
                time_per_pdu: Service::from_micros(pdu_us.max(1)),
            })
            .expect("drawn within the rules")
        })
        .collect()
}

/// Returns the events from a little before the release of the first job that took as long as
/// `worst` to its end.
fn history_of(worst: Duration, events: &[Event]) -> String {
    let is_worst =
        |event: &&Event| event.kind == Kind::Complete && event.at - event.release == worst;
    let Some(end) = events.iter().find(is_worst) else { return String::new() };
    let from = end.release - worst / 2;
    let near = events.iter().filter(|event| event.at >= from && event.at <= end.at);
    near.map(|Event { at, job, release, kind }| {
        format!("\n  {} {job:?} released {}: {kind:?}", *at - from, release.saturating_since(from))
    })
    .collect()
}

/// Draws the set of `seed`, and if it is admitted runs it for `length`. Returns `None` if it is
/// refused.
///
/// A declared time is the longest that a batch takes on this host, with the `interrupts` that fall
/// into it: the handlers work for less by that much (docs/CAVEATS.md).
///
/// # Errors
/// Fails with a sentence if a job was late or exceeded its bound, or the run could not be judged.
pub fn hold(
    seed: u64,
    length: Duration,
    host: HostProfile,
    interrupts: Interrupts,
) -> Result<Option<Kept>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let drawn = draw(&mut rng);
    let contract = Contract::of_upcalls(drawn.clone());
    let Ok(grant) = admit_within(&contract, &host, &mut Steps::new(4_000_000)) else {
        return Ok(None);
    };
    let speed = rounds_per_microsecond();
    // Containment reserves a grace of its own for each iteration, which `admit_within` does not
    // know.
    let upcalls = Upcalls::new(Placement::Upcalls, host).without_containment();
    let mut upcalls = upcalls.with_event_room(1 << 18);
    for upcall in drawn {
        let batch = u64::from(upcall.batch().get());
        let work = interrupts.work_in(upcall.time_per_pdu() * batch);
        let rounds_per_pdu = work.as_nanos() / batch * speed / 1_000;
        upcalls.create(upcall, Load { rounds_per_pdu }).map_err(|error| error.to_string())?;
    }
    let start = clock::now() + START;
    let running = upcalls.run(start).map_err(|error| error.to_string())?;
    clock::sleep_until(start + length);
    let stopped = running.stop().map_err(|error| error.to_string())?;
    if stopped.events_lost > 0 {
        return Err(format!("seed {seed}: {} events were lost", stopped.events_lost));
    }
    let mut summary = Summary::new(&contract.tasks);
    stopped.events.iter().for_each(|event| summary.record(*event));
    let mut worst_permille = 0;
    for (task, seen) in grant.tasks.iter().zip(summary.tasks()) {
        let Some(worst) = seen.response_time.max() else {
            return Err(format!("seed {seed}: {} never ran", task.name));
        };
        let bound = task.response_time_bound;
        if worst > bound {
            let history = history_of(worst, &stopped.events);
            return Err(format!(
                "seed {seed}: {} took {worst}, its bound is {bound}{history}",
                task.name
            ));
        }
        worst_permille = worst_permille.max(worst.as_nanos() * 1_000 / bound.as_nanos());
    }
    match summary.late() {
        0 => Ok(Some(Kept { jobs: summary.jobs(), worst_permille })),
        late => Err(format!("seed {seed}: {late} of {} jobs were late", summary.jobs())),
    }
}
