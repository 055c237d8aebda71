//! The lateness of timers on CPUs that may halt, and on CPUs that may not.

use std::thread::scope;

use punctual_model::time::{Duration, Instant};

use super::seat::{MeasureError, Seat, joined, spawn};
use crate::awake::Awake;
use crate::sched::Class;
use crate::{clock, host};

/// The length of the alternating turns in which the CPUs may halt, or may not, so that both see the
/// same load of the host.
const TURN: Duration = Duration::from_millis(100);

/// The shortest time between two timers: long enough for a host to give the CPU to another guest.
const SHORTEST: u64 = 2_000_000;
const SPREAD: u64 = 2_000_000;

/// The step through the spread, its golden section: covers it evenly for any number of samples.
const STEP: u64 = 1_236_068;

/// The lateness of timers on CPUs that do nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The time from each timer's instant until its thread ran, of all CPUs together.
    pub late: Vec<Duration>,
    /// The processor time that the hypervisor stole meanwhile, of all CPUs together, to 10 ms;
    /// `None` if /proc/stat cannot be read.
    pub stolen: Option<Duration>,
}

/// The same timers on CPUs that halt when idle, and on CPUs that are kept from halting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Halting {
    /// With the host as it is.
    pub free: Timers,
    /// With an [`Awake`] on each CPU.
    pub awake: Timers,
}

/// Measures how late absolute sleeps (clock_nanosleep(2)) of 2 to 4 ms end, with one thread of
/// `class` on each of `cpus` at once. Turns of 100 ms alternate between CPUs that may halt and CPUs
/// that may not, for `length` in all and at least one turn of each.
///
/// The lateness of a SCHED_OTHER thread includes its timer slack (prctl(2), 50 µs by default).
///
/// # Errors
/// If a thread cannot be made, or not be put on its CPU or into its class, or there is no CPU.
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
            // No two CPUs wake at the same instant, and no two turns are alike.
            let phase = (at as u64 * 7 + number * 3) * STEP % SPREAD;
            let seat = Seat { cpu: Some(cpu), class };
            spawn(scope, move || seat.take().map(|()| sleeps(until, phase)))
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.and_then(joined)).collect::<Result<Vec<_>, _>>()
    })?;
    timers.late.extend(late.into_iter().flatten());
    let taken = before.zip(host::stolen()).map(|(before, after)| after.saturating_sub(before));
    // One failed reading makes the sum unknown for good.
    let so_far = if number == 0 { Some(Duration::ZERO) } else { timers.stolen };
    timers.stolen = so_far.zip(taken).map(|(sum, more)| sum.saturating_add(more));
    Ok(())
}

fn sleeps(until: Instant, mut phase: u64) -> Vec<Duration> {
    let mut late = Vec::with_capacity((TURN.as_nanos() / SHORTEST) as usize + 1);
    // At least one sample: on a busy CPU a turn may be over before it begins.
    while late.is_empty() || clock::now() < until {
        let at = clock::now() + Duration::from_nanos(SHORTEST + phase);
        phase = (phase + STEP) % SPREAD;
        clock::sleep_until(at);
        late.push(clock::now() - at);
    }
    late
}
