//! The library's modems in threads: one driver serves a line of each, and each carries a file over
//! a whole call, from dialling on.
//!
//! - [`modems`]: the modems and their files.
//! - [`sizing`]: the number of times each line's work is repeated.
//! - [`serve`]: one call of all of them.
//! - [`report`], [`tables`]: the results.

pub mod modems;
pub mod report;
pub mod serve;
pub mod sizing;
pub mod tables;

use punctual_linux::host;

use super::context::Context;
use super::follower::Follower;
use super::traced::Traced;
use super::{Args, Error};
use report::{ContextReport, Report};
use sizing::Sizing;

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
        let row = match serve::call(place, follower.cpu, competitors, &sizing, args.seed) {
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
