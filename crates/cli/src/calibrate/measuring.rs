//! Burst after burst: what the hypervisor disturbed is thrown away and counted.

use indicatif::ProgressBar;
use punctual_linux::measure::WorkingSets;
use punctual_linux::{clock, host};
use punctual_model::host::{
    Absent, CacheRefill, Figure, Operation, Percentile, Spread, SwitchCharge,
};
use punctual_model::{Duration, Service};

use super::burst::{Bench, Why};
use super::plan::{Plan, What};

/// Short enough that nobody waits long, that little is lost to one theft, and that real-time
/// throttling (95 % of a second) is never met.
const BURST: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(4);

/// More samples say nothing more.
const ENOUGH: usize = 400_000;

/// What the plan came to.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    pub(super) cache_refill: Vec<CacheRefill>,
    pub(super) absent: Vec<Absent>,
    pub(super) switching: Option<SwitchCharge>,
}

/// All samples of one measurement.
struct Samples {
    /// Ascending; not empty.
    sorted: Vec<Duration>,
    spread: Spread,
    discarded: u32,
    stolen: Duration,
}

/// Measures what is in `plan`; `percentile` is what is charged.
pub(super) fn run(plan: &Plan, percentile: Percentile, bar: &ProgressBar) -> Measured {
    let bench = Bench::here();
    let (mut switch, mut refill, mut complete) = (None, None, false);
    let mut measured = Measured {
        figures: Vec::new(),
        cache_refill: Vec::new(),
        absent: Vec::new(),
        switching: None,
    };
    let mut done = Duration::ZERO;
    for &(what, length) in &plan.items {
        bar.set_message(what.name());
        let told = |spent: Duration| {
            bar.set_position((done + spent.min(length)).as_nanos() / 1_000_000);
        };
        let outcome = samples(&bench, what, length, &told);
        done += length;
        let Samples { sorted, spread, discarded, stolen } = match outcome {
            Ok(samples) => samples,
            Err(why) => {
                measured.absent.push(Absent { what: what.name(), why: one_line(&why) });
                continue;
            }
        };
        let charged = percentile.of(&sorted).map(Duration::as_full_service);
        let under = bench.under(what);
        match what {
            What::Operation(operation) => {
                measured.figures.push(Figure { operation, under, spread, discarded, stolen });
                switch = better(switch, operation, charged);
            }
            What::Refill(working_set) => {
                let entry = CacheRefill { working_set, under, spread, discarded, stolen };
                measured.cache_refill.push(entry);
                // A set that fits a cache can lose more than a larger one, which never was in it: the
                // dearest of all up to the one asked for.
                if working_set <= plan.working_set {
                    refill = refill.max(charged);
                }
                complete |= working_set == plan.working_set;
            }
        }
    }
    measured.switching =
        switch.zip(refill.filter(|_| complete)).map(|((by, switch), cache_refill)| SwitchCharge {
            switch,
            by,
            cache_refill,
            working_set: plan.working_set,
            percentile,
        });
    measured
}

/// What a switch is charged by: between processes if that could be measured, else by a hand-off, which
/// holds two system calls more.
fn better(
    so_far: Option<(Operation, Service)>,
    operation: Operation,
    charged: Option<Service>,
) -> Option<(Operation, Service)> {
    match (operation, so_far) {
        (Operation::ProcessSwitch, _) | (Operation::HandOffSameCpu, None) => {
            charged.map(|charged| (operation, charged)).or(so_far)
        }
        _ => so_far,
    }
}

/// Bursts of `what` for `length`, and for as long again if nothing of them could be kept.
fn samples(
    bench: &Bench,
    what: What,
    length: Duration,
    told: &impl Fn(Duration),
) -> Result<Samples, Why> {
    let mut sorted = Vec::new();
    let (mut discarded, mut stolen, mut bursts) = (0, Duration::ZERO, 0u64);
    let mut sets: Option<WorkingSets> = None;
    let started = clock::now();
    loop {
        let before = host::stolen();
        let burst = bench.burst(what, &mut sets, BURST)?;
        bursts += 1;
        let theft = before
            .zip(host::stolen())
            .map_or(Duration::ZERO, |(before, after)| after.saturating_sub(before));
        if theft.is_zero() {
            sorted.extend(burst);
        } else {
            stolen += theft;
            discarded += u32::try_from(burst.len()).unwrap_or(u32::MAX);
        }
        // For everything that could not run on this CPU meanwhile.
        clock::sleep(PAUSE);
        let spent = clock::now() - started;
        told(spent);
        let over = if sorted.is_empty() { length * 2 } else { length };
        if spent >= over || sorted.len() >= ENOUGH {
            break;
        }
    }
    sorted.sort_unstable();
    match Spread::of(&sorted) {
        Some(spread) => Ok(Samples { sorted, spread, discarded, stolen }),
        None if discarded > 0 => Err(format!(
            "the hypervisor took processor time ({stolen}) during each of {bursts} bursts; measure \
             again when the host is quieter"
        )),
        None => Err(format!("{bursts} bursts gave no sample: the threads never got to run")),
    }
}

/// Reasons go into a file that takes a line of at most 512 characters.
fn one_line(why: &str) -> String {
    why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_between_processes_is_charged_where_it_is_known() {
        let time = |micros| Some(Service::from_micros(micros));
        let (process, hand_off) = (Operation::ProcessSwitch, Operation::HandOffSameCpu);
        let first = better(None, process, time(2));
        assert_eq!(better(first, hand_off, time(5)), Some((process, Service::from_micros(2))));
        let without = better(None, Operation::ThreadSwitch, time(1));
        assert_eq!(without, None);
        assert_eq!(better(without, hand_off, time(5)), Some((hand_off, Service::from_micros(5))));
    }
}
