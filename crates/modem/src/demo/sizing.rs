//! Finds the number of lines at which the driver needs a given part of a CPU.
//!
//! The driver is measured as it will run: as an upcall, once a period, beside the competitors, so
//! that the caches are as cold as they will be. (Served back to back, a line costs a fraction of
//! that.)

use punctual_linux::clock;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service};
use punctual_runtime::{Placement, Upcalls};

use super::competitors::Competitors;
use super::{Error, Options, SHARE_PPM, driver};
use crate::{Bank, BankConfig, PERIOD};

/// Line time before the measurement, so that the lines are connected and in full use.
const LEAD: Duration = Duration::from_secs(6);

/// The time allowed to compute the lead: a second of a line costs well below a millisecond.
const LEAD_TIME: Duration = Duration::from_millis(1_500);

/// The length of one measurement.
const MEASURE: Duration = Duration::from_millis(1_500);

/// The size of the first bank measured, unless this host is too slow for its lead.
const FIRST_GUESS: u32 = 64;

/// The largest bank: a line takes some 100 KiB.
const MOST: u32 = 4_000;

/// The size of a bank and the cost of one of its lines.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    /// Lines that together need [`SHARE_PPM`] of a CPU.
    pub lines: u32,
    /// The average processor time of one line's service.
    pub time_per_line: Service,
}

/// Finds the size of the bank. Measures a small bank first, then the bank that follows from the
/// result, because a larger bank has colder caches.
pub fn find(options: &Options) -> Result<Sizing, Error> {
    let (mut lines, mut time_per_line) = (FIRST_GUESS, measure(FIRST_GUESS, options));
    while matches!(time_per_line, Err(Error::TooSlow { .. })) && lines > 1 {
        lines /= 4;
        time_per_line = measure(lines, options);
    }
    let mut time_per_line = time_per_line?;
    for _ in 0..2 {
        lines = lines_for(time_per_line);
        time_per_line = measure(lines, options)?;
    }
    Ok(Sizing { lines: lines_for(time_per_line), time_per_line })
}

fn lines_for(time_per_line: Service) -> u32 {
    let share = PERIOD.as_nanos() * SHARE_PPM / 1_000_000;
    let lines = share / time_per_line.as_nanos().max(1);
    u32::try_from(lines).unwrap_or(MOST).clamp(1, MOST)
}

/// Measures the processor time of one line's service in a bank of `lines`.
fn measure(lines: u32, options: &Options) -> Result<Service, Error> {
    // The calls begin in the past, and their past is computed before the clock gets there and
    // before the competitors start: beside them this ordinary thread would never catch up. A host
    // that has just been booted has no such past yet.
    let live = (clock::now() + LEAD_TIME).max(Instant::ZERO + LEAD);
    let start = live - LEAD;
    let config = BankConfig::new(lines, options.file.clone(), options.seed, start);
    let mut bank = Bank::new(config)?;
    let mut now = start;
    while now < live {
        now += PERIOD;
        while bank.iterate(now, lines) > 0 {
            bank.commit(now);
        }
    }
    if clock::now() > live {
        return Err(Error::TooSlow { lines });
    }
    // Nothing is promised yet, so each line declares the largest valid time.
    let upcall = driver(lines, PERIOD.as_full_service() / u64::from(lines))?;
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    upcalls.create(upcall, bank)?;
    let _competitors = Competitors::start(options.competitors_per_cpu)?;
    let running = upcalls.run(now)?;
    clock::sleep_until(now + MEASURE);
    let stopped = running.stop()?;
    let jobs = stopped.events.iter().filter(|e| e.kind == punctual_trace::Kind::Complete).count();
    match jobs {
        0 => Err(Error::TooSlow { lines }),
        _ => Ok(stopped.exec_time / (jobs as u64 * u64::from(lines))),
    }
}
