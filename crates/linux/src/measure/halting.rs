//! Whether a CPU that had nothing to do is back in time for its next timer.

use std::thread::scope;

use punctual_model::time::{Duration, Instant};

use super::MeasureError;
use super::seat::{Seat, joined, spawn};
use crate::awake::Awake;
use crate::sched::Class;
use crate::{clock, host};

/// For how long the CPUs may halt, and may not, in turn: what else happens on the host meets both.
const TURN: Duration = Duration::from_millis(100);

/// Between two timers: long enough for a host to give the CPU to somebody else.
const SHORTEST: u64 = 2_000_000;
const SPREAD: u64 = 2_000_000;

/// Steps through the spread by its golden section: evenly, whatever the number of samples.
const STEP: u64 = 1_236_068;

/// How late timers were, on CPUs that do nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// From the instant for which each was set until its thread ran, of all CPUs together.
    pub late: Vec<Duration>,
    /// Processor time that the hypervisor took meanwhile, of all CPUs together, to 10 ms; none where
    /// /proc/stat cannot be read.
    pub stolen: Option<Duration>,
}

/// The same timers on CPUs that halt when they idle, and on CPUs that are kept from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Halting {
    /// As the host is.
    pub free: Timers,
    /// With an [`Awake`] on each CPU.
    pub awake: Timers,
}

/// How late absolute sleeps (clock_nanosleep(2)) of 2 to 4 ms end, one thread of `class` on each of
/// `cpus` at once. CPUs that may halt and CPUs that may not take turns of 100 ms, for `length` in all, and
/// one turn of each at least.
///
/// A thread of SCHED_OTHER has its timer slack (prctl(2), 50 µs by default) in it.
///
/// # Errors
/// A thread cannot be made, or not be put where it belongs; or there is no CPU.
///
/// ```
/// use punctual_linux::measure::halting;
/// use punctual_linux::sched::Class;
/// use punctual_linux::thread;
/// use punctual_model::time::Duration;
///
/// let class = Class::Other { nice: 0 };
/// let measured = halting(&thread::affinity(), class, Duration::from_millis(200))?;
/// println!("worst: {:?}, {:?} awake", measured.free.late.iter().max(), measured.awake.late.iter().max());
/// # Ok::<(), punctual_linux::measure::MeasureError>(())
/// ```
pub fn halting(cpus: &[usize], class: Class, length: Duration) -> Result<Halting, MeasureError> {
    let mut halting = Halting::default();
    let pairs = (length.as_nanos() / (2 * TURN.as_nanos())).max(1);
    for pair in 0..pairs {
        turn(&mut halting.free, cpus, class, pair)?;
        let _awake = Awake::start(cpus).map_err(MeasureError::Awake)?;
        turn(&mut halting.awake, cpus, class, pair)?;
    }
    Ok(halting)
}

fn turn(
    timers: &mut Timers,
    cpus: &[usize],
    class: Class,
    number: u64,
) -> Result<(), MeasureError> {
    let before = host::stolen();
    let until = clock::now().saturating_add(TURN);
    let late = scope(|scope| {
        let start = |(at, &cpu): (usize, &usize)| {
            // No two CPUs wake at one instant, and no two turns are alike.
            let phase = (at as u64 * 7 + number * 3) * STEP % SPREAD;
            let seat = Seat { cpu: Some(cpu), class };
            spawn(scope, move || seat.take().map(|()| sleeps(until, phase)))
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.and_then(joined)).collect::<Result<Vec<_>, _>>()
    })?;
    timers.late.extend(late.into_iter().flatten());
    let taken = before.zip(host::stolen()).map(|(before, after)| after.saturating_sub(before));
    // Unknown once is unknown for good.
    let so_far = if number == 0 { Some(Duration::ZERO) } else { timers.stolen };
    timers.stolen = so_far.zip(taken).map(|(sum, more)| sum.saturating_add(more));
    Ok(())
}

fn sleeps(until: Instant, mut phase: u64) -> Vec<Duration> {
    let mut late = Vec::with_capacity((TURN.as_nanos() / SHORTEST) as usize + 1);
    // One in any case: on a busy CPU a turn may be over before it begins.
    while late.is_empty() || clock::now() < until {
        let at = clock::now() + Duration::from_nanos(SHORTEST + phase);
        phase = (phase + STEP) % SPREAD;
        clock::sleep_until(at);
        late.push(clock::now() - at);
    }
    late
}
