//! Estimates the length of a simulation before it begins, so that every run comes to an end.

use punctual_model::{Contract, Duration};

use super::channels::Sending;
use super::options::Options;
use super::receiving::Receiving;
use crate::{Failure, Remedy};

/// The most jobs, messages, packets and thefts of a run, all together. They take some minutes.
const MOST: u128 = 500_000_000;

/// A number of steps, with its cause and a way to have fewer.
struct Part {
    steps: u128,
    /// A clause with the number and its cause.
    why: String,
    instead: &'static str,
    is_stolen: bool,
}

/// Refuses a run that would take too long.
pub(super) fn bounded(
    options: &Options,
    contract: &Contract,
    sender: Option<&Sending>,
    received: &Receiving,
) -> Result<(), Failure> {
    let parts = parts(options, contract, sender, received);
    let all: u128 = parts.iter().map(|part| part.steps).sum();
    let Some(most) = parts.iter().max_by_key(|part| part.steps).filter(|_| all > MOST) else {
        return Ok(());
    };
    let shorter = leading_digit(u128::from(options.until.as_nanos()) * MOST / all);
    let shorter = Duration::from_nanos(shorter);
    Err(Failure::bad_input(format!(
        "{}; simulating {} would take some {all} steps, and {MOST} are the most: {}, or simulate \
         {shorter}",
        most.why, options.until, most.instead,
    ))
    .with(if most.is_stolen {
        Remedy::StolenOrUntil(shorter)
    } else {
        Remedy::Until(shorter)
    }))
}

fn parts(
    options: &Options,
    contract: &Contract,
    sender: Option<&Sending>,
    received: &Receiving,
) -> Vec<Part> {
    let times = |length: Duration, apart: Duration| {
        u128::from(length.as_nanos()) / u128::from(apart.as_nanos().max(1)) + 1
    };
    let until = options.until;
    let released = if options.extra_releases.is_some() { 2 } else { 1 };
    let mut parts = Vec::new();
    let mut work = u128::from(until.as_nanos());
    for task in &contract.tasks {
        let (name, period) = (task.name(), task.min_inter_arrival());
        let jobs = times(until, period) * released;
        let percent = options.overrun.map_or(100, |overrun| u128::from(overrun.percent));
        work += jobs * u128::from(task.wcet().as_nanos()) * percent / 100;
        parts.push(Part {
            steps: jobs,
            why: format!("[[task]] \"{name}\": a job every {period}"),
            instead: "give it a longer period",
            is_stolen: false,
        });
    }
    for named in &contract.reservations {
        let (name, period) = (&named.name, named.reservation.period());
        work += times(until, period) * u128::from(named.reservation.budget().as_nanos());
        parts.push(Part {
            steps: times(until, period) * if sender.is_some() { 4 } else { 1 },
            why: format!("[[reservation]] \"{name}\": a budget every {period}"),
            instead: "give it a longer period",
            is_stolen: false,
        });
    }
    for (name, apart) in received.spacings() {
        parts.push(Part {
            steps: 2 * times(until, apart),
            why: format!("[[channel]] \"{name}\": a message every {apart}"),
            instead: "give it a lower rate",
            is_stolen: false,
        });
    }
    if let Some(sender) = sender {
        of_sender(options, contract, sender, times, &mut parts);
    }
    if let Some(stolen) = options.stolen {
        let (taken, period) = (stolen.budget().at_full_speed(), stolen.period());
        // Work takes longer on what is left of the CPU.
        let left = u128::from((period - taken).as_nanos().max(1));
        parts.push(Part {
            steps: work / left + 1,
            why: format!("{stolen} stolen: the CPU is taken away every {period}"),
            instead: "take it away less often",
            is_stolen: true,
        });
    }
    parts
}

/// Channels are simulated for up to twice the length of the run.
fn of_sender(
    options: &Options,
    contract: &Contract,
    sender: &Sending,
    times: impl Fn(Duration, Duration) -> u128,
    parts: &mut Vec<Part>,
) {
    let until = options.until;
    let (cut, link) = (sender.egress.cut(), sender.egress.link());
    for channel in &contract.channels {
        let name = channel.name();
        let arrivals = options.flooded(name, channel.arrivals());
        let (apart, packets) =
            (arrivals.min_inter_arrival(), cut.packets_of(arrivals.max_message()));
        parts.push(Part {
            steps: times(until, apart) * (2 + u128::from(packets)),
            why: format!("[[channel]] \"{name}\": a message of {packets} packets every {apart}"),
            instead: "give it a lower rate or larger packets",
            is_stolen: false,
        });
    }
    if let Some(bytes) = sender.best_effort.most() {
        let packet = link.transmission_time(bytes.min(cut.packet_bytes()));
        let packet = packet.max(sender.egress.per_packet().at_full_speed());
        parts.push(Part {
            steps: 2 * times(until, packet),
            why: format!("[sending]: a packet of best effort every {packet}"),
            instead: "write larger packets or no best_effort",
            is_stolen: false,
        });
    }
}

/// Rounds down to one digit for legibility: `1900000` becomes `1000000`.
fn leading_digit(nanos: u128) -> u64 {
    let unit = 10_u128.pow(nanos.checked_ilog10().unwrap_or(0));
    u64::try_from(nanos / unit * unit).unwrap_or(u64::MAX).max(1)
}
