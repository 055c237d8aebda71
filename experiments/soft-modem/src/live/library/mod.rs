//! The library's modems in threads: one driver serves a line of each, and each carries a file over
//! a whole call, from dialling on.
//!
//! - [`modems`]: the modems, their files, and the number of times each line's work is repeated.
//! - [`report`]: the results.

pub mod modems;
pub mod report;

use punctual_linux::{clock, host};
use punctual_model::{Duration, Instant};
use punctual_modem::PERIOD;
use punctual_modem::card::CardStats;
use punctual_modem::demo::live::Competitors;

use super::context::{Context, Place};
use super::record::Service;
use super::threads::Follower;
use super::traced::Traced;
use super::wakeups::Wakeups;
use super::{Args, Error, threads, wakeups};
use crate::call::{Call, End, Transferred};
use modems::{COUNT, MODEMS, Sizing};
use report::{ContextReport, Report};

/// The time from dialling in which all must be done; calls served in time need ten seconds.
pub const PATIENCE: Duration = Duration::from_secs(14);

/// The time from the go-ahead to sample 0.
const LEAD_IN: Duration = Duration::from_millis(20);

/// Makes the calls in every context that is a thread. The report gives the reason for each context
/// that cannot be run.
///
/// # Errors
/// Fails if nothing can be measured here at all, or if the trace cannot be written.
pub fn run(
    args: &Args,
    follower: &Follower,
    traced: &mut Traced,
    tell: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    tell("measuring what the library's modems cost");
    let competitors = usize::from(args.competitors);
    let sizing = Sizing::measure(follower.cpu, competitors, args.seed)?;
    let mut contexts = Vec::new();
    for context in Context::ALL {
        let Some(place) = context.place() else { continue };
        tell(&format!("{}, the library's modems", context.name()));
        let stolen_before = host::stolen();
        let row = match call(place, follower.cpu, competitors, &sizing, args.seed) {
            Ok((seen, served)) => {
                let name = format!("{}: the library's modems", context.name());
                traced.library(name, place, follower.cpu, &served)?;
                let stolen =
                    host::stolen().zip(stolen_before).map(|(after, before)| after - before);
                ContextReport {
                    stolen_ms: stolen.map(|stolen| stolen.as_nanos() / 1_000_000),
                    ..ContextReport::of(context.name(), place, &served, &seen)
                }
            }
            Err(why) => ContextReport::absent(context.name(), place, why.to_string()),
        };
        contexts.push(row);
    }
    Ok(Report {
        host: follower.machine(),
        cpu: follower.cpu,
        competitors_per_cpu: competitors,
        seed: args.seed,
        modems: sizing.report(),
        contexts,
    })
}

/// The result of one line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The result of its transfer.
    pub transferred: Transferred,
    /// The time from the start to CONNECT.
    pub connected_after: Option<Duration>,
    /// The damage that lateness did to its card.
    pub card: CardStats,
}

/// The record of the services and their results.
#[derive(Clone, Debug)]
pub struct Served {
    /// The service of all lines at each interrupt.
    pub services: Vec<Service>,
    /// The elapsed time of each line in each service, in ns.
    pub parts: Vec<[u64; COUNT]>,
    /// Interrupts that came while an earlier one was being served or waited.
    pub missed: u64,
    /// The processor time of the thread.
    pub cpu: Duration,
    /// The time from sample 0 to the end.
    pub length: Duration,
    /// The results in the order of [`MODEMS`].
    pub lines: [Line; COUNT],
}

/// Creates the calls of one driver, in the order of [`MODEMS`].
fn calls(seed: u64, start: Instant, echoes: [Vec<End>; COUNT]) -> [Call; COUNT] {
    let mut at = 0;
    echoes.map(|echoes| {
        let job = MODEMS[at].job(seed * COUNT as u64 + at as u64);
        at += 1;
        Call::new(&job, start, echoes)
    })
}

/// Creates the modems that repeat each line's work.
fn echoes(counts: [u32; COUNT]) -> [Vec<End>; COUNT] {
    std::array::from_fn(|at| (0..counts[at]).map(|_| End::new(MODEMS[at].modulation)).collect())
}

/// Dials with each modem and transfers its file, with the driver in `place` and `competitors`
/// spinning threads on each CPU.
pub fn call(
    place: Place,
    cpu: usize,
    competitors: usize,
    sizing: &Sizing,
    seed: u64,
) -> Result<(wakeups::Seen, Served), Error> {
    let counts = sizing.echoes;
    // Created before the competitors: beside them an ordinary thread would take seconds for it.
    let ready = threads::ready(
        place,
        cpu,
        move || echoes(counts),
        move |echoes, start| drive(calls(seed, start, echoes), start),
    )?;
    let _competitors = Competitors::start(competitors)?;
    let callback = Wakeups::start(ready.cpu.unwrap_or(cpu), PATIENCE)?;
    let served = ready.run(clock::now() + LEAD_IN);
    Ok((callback.stop(), served))
}

/// Serves every line at every interrupt, until all are done or the time is over.
fn drive(mut calls: [Call; COUNT], start: Instant) -> Served {
    let end = start + PATIENCE;
    let room = (PATIENCE / PERIOD) as usize;
    let (mut services, mut parts) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut missed = 0;
    let before = clock::thread_cpu_time();
    let mut lost = 0;
    let mut due = start + PERIOD;
    while due < end && !calls.iter().all(Call::is_over) {
        clock::sleep_until(due);
        let begin = clock::now();
        let mut done = begin;
        let part = calls.each_mut().map(|call| {
            let from = done;
            let _ = call.take(from);
            done = clock::now();
            call.answer(done);
            done.saturating_since(from).as_nanos()
        });
        let lost_before = lost;
        lost = calls.iter().map(|call| call.card_stats().samples_lost).sum();
        let samples_lost = lost - lost_before;
        services.push(Service { due: Some(due), begin, end: done, samples_lost });
        parts.push(part);
        due += PERIOD;
        while due < done {
            due += PERIOD;
            missed += 1;
        }
    }
    let cpu = clock::thread_cpu_time().saturating_sub(before);
    Served {
        length: clock::now().saturating_since(start),
        services,
        parts,
        missed,
        cpu: Duration::from_nanos(cpu.as_nanos()),
        lines: calls.each_ref().map(|call| Line {
            transferred: call.result(),
            connected_after: call.connected_after(),
            card: call.card_stats(),
        }),
    }
}
