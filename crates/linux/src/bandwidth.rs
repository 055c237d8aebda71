//! The SCHED_DEADLINE bandwidth that is left, found by trying.
//!
//! The kernel shows its account only in debugfs, and the sysctls give the cap, not what is
//! reserved. So scratch threads take as much as the kernel grants and leave again. While they hold
//! it, and for the millisecond it lingers (well under 5 ms in all), another program's request may
//! get EBUSY; [`sched::set`] retries for longer than that.
//!
//! Each thread enters and leaves the class *itself*: see [`SchedError::MustLeaveItself`].

use std::fs;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};

use crate::host::{Throttling, cpus_online, throttling};
use crate::sched::{self, Class, LEAST_BUDGET, SchedError};
use crate::{clock, procfs, thread};

/// One CPU in the kernel's units: bandwidth is a fraction of 2^20 (`to_ratio()` in
/// kernel/sched/core.c, rounded down).
const WHOLE_CPU: u64 = 1 << 20;

/// The period of the probe. With it a budget of n ns is exactly n of the kernel's units. It is
/// short because the probe's bandwidth lingers for up to a period.
const PROBE_PERIOD: Duration = Duration::from_nanos(WHOLE_CPU);

/// The bandwidth left, and the kernel's own account if it can be read, in parts per million of one
/// CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// The bandwidth left for new reservations on all CPUs together, measured by trying, and at most
    /// the kernel's limit: the account of Linux 6.12 loses its fair servers, and then it grants more.
    pub left_ppm: u64,
    /// The largest single reservation that fits, measured by trying.
    pub largest_ppm: u64,
    /// The bandwidth allocated in the first CPU's root domain, by the kernel's own account; `None`
    /// if debugfs is not readable, as for any user but root.
    pub account_ppm: Option<u64>,
}

/// Measures the bandwidth left. Fails as [`sched::set`] would if the caller may not use
/// SCHED_DEADLINE.
pub fn left() -> Result<Bandwidth, SchedError> {
    // Read before the scratch threads change it.
    let account_ppm = account();
    // One thread can hold at most one CPU, so as many threads as CPUs take everything.
    let found = take_all(cpus_online())?;
    let ppm = |units: u64| units * 1_000_000 / WHOLE_CPU;
    let largest = found.iter().copied().max().unwrap_or(0);
    let limit_ppm = limit_ppm(throttling(), found.len());
    let left_ppm = ppm(found.iter().sum()).min(limit_ppm);
    Ok(Bandwidth { left_ppm, largest_ppm: ppm(largest).min(limit_ppm), account_ppm })
}

/// Returns the kernel's limit on all reservations together on so many CPUs.
fn limit_ppm(throttling: Option<Throttling>, cpus: usize) -> u64 {
    let of_one = match throttling {
        Some(Throttling::Capped { budget, period }) if !period.is_zero() => {
            let ppm = u128::from(budget.as_nanos()) * 1_000_000 / u128::from(period.as_nanos());
            u64::try_from(ppm).unwrap_or(u64::MAX)
        }
        _ => 1_000_000,
    };
    of_one.saturating_mul(cpus as u64)
}

/// Returns the largest budget that one more thread could reserve in every `period` now, found by
/// trying, in whole microseconds. It is zero if nothing fits that the kernel could enforce.
pub fn largest_budget(period: Duration) -> Result<Service, SchedError> {
    let units = take_all(1)?.first().copied().unwrap_or(0);
    let budget = budget_within(units, period);
    let whole = Service::from_micros(1) * (budget / Service::from_micros(1));
    Ok(if whole < LEAST_BUDGET { Service::ZERO } else { whole })
}

/// Returns the largest budget whose bandwidth, as the kernel rounds it, is at most `units`.
fn budget_within(units: u64, period: Duration) -> Service {
    let below = u128::from(units + 1) * u128::from(period.as_nanos());
    let budget = below.div_ceil(u128::from(WHOLE_CPU)) - 1;
    // At most a whole CPU, so it fits in 64 bits.
    Service::from_nanos(budget.min(u128::from(period.as_nanos())) as u64)
}

/// Makes `count` scratch threads, one after the other, each take as much as the kernel grants, and
/// hold it until the last has taken its part. Returns what each got, in the kernel's units.
fn take_all(count: usize) -> Result<Vec<u64>, SchedError> {
    let mut holders = Vec::new();
    let mut found = Vec::new();
    for _ in 0..count {
        let (holder, units) = Holder::start()?;
        holders.push(holder);
        found.push(units?);
    }
    drop(holders);
    // The next request, perhaps by this probe again, should not find this bandwidth lingering.
    clock::sleep(PROBE_PERIOD * 2);
    Ok(found)
}

/// A scratch thread that holds its bandwidth until this is dropped.
struct Holder {
    /// Dropped to end the thread.
    hold: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    fn start() -> Result<(Self, Result<u64, SchedError>), SchedError> {
        let (tell, told) = mpsc::channel();
        let (hold, held) = mpsc::channel();
        let body = move || {
            // The other end waits for this; if it is gone there is nothing to hold.
            let _ = tell.send(take_most());
            let _ = held.recv();
            // The thread leaves while it runs: see `SchedError::MustLeaveItself`. Needs no
            // privilege.
            let _ = sched::set(thread::current(), Class::Other { nice: 0 });
        };
        let thread = Builder::new().name("punctual-probe".to_owned()).spawn(body);
        let thread = Some(thread.map_err(|_| SchedError::CannotFork)?);
        let holder = Self { hold: Some(hold), thread };
        // Without a result the thread has panicked; it was started, so this is not the host's
        // fault.
        let units = told.recv().map_err(|_| SchedError::CannotFork)?;
        Ok((holder, units))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.hold.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts the calling thread under the largest reservation that the kernel grants, by bisection
/// between what it holds and what was refused; the reservation only ever grows. Returns it in the
/// kernel's units, or zero if not even [`LEAST_BUDGET`], 0.1 % of a CPU, was granted.
fn take_most() -> Result<u64, SchedError> {
    let (mut held, mut refused) = (LEAST_BUDGET.as_nanos() - 1, WHOLE_CPU + 1);
    while refused - held > 1 {
        let middle = held + (refused - held) / 2;
        // Always holds: 0 < budget ≤ 2^20 ns = period.
        let Ok(reservation) = Reservation::new(Service::from_nanos(middle), PROBE_PERIOD) else {
            break;
        };
        let class = Class::Deadline { reservation, reset_on_fork: true };
        match sched::set_without_retry(thread::current(), class) {
            Ok(()) => held = middle,
            Err(SchedError::NoBandwidth { .. }) => refused = middle,
            Err(other) => return Err(other),
        }
    }
    Ok(if held < LEAST_BUDGET.as_nanos() { 0 } else { held })
}

/// Reads the account of the first CPU's root domain from debugfs (or /proc before Linux 5.13).
fn account() -> Option<u64> {
    let text = procfs::trimmed("/sys/kernel/debug/sched/debug")
        .or_else(|| fs::read_to_string("/proc/sched_debug").ok())?;
    parse_account(&text)
}

/// Returns the first `.dl_bw->total_bw : N` of the scheduler's debug text, in parts per million; N
/// counts 2^20 a CPU.
pub fn parse_account(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.trim_start().starts_with(".dl_bw->total_bw"))?;
    let total: u64 = line.split_once(':')?.1.trim().parse().ok()?;
    Some(u64::try_from((u128::from(total) * 1_000_000) >> 20).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_all_cpus() {
        let (budget, period) = (Service::from_millis(950), Duration::from_secs(1));
        assert_eq!(limit_ppm(Some(Throttling::Capped { budget, period }), 2), 1_900_000);
        assert_eq!(limit_ppm(Some(Throttling::Off), 2), 2_000_000);
        assert_eq!(limit_ppm(None, 1), 1_000_000);
    }

    #[test]
    fn the_kernels_account_is_in_units_of_2_to_the_20() {
        let text = "dl_rq[0]:\n  .dl_nr_running  : 0\n  .dl_bw->bw      : 996147\n  \
                    .dl_bw->total_bw                : 104857\n";
        assert_eq!(parse_account(text), Some(99_999));
        for text in ["", ".dl_bw->total_bw", ".dl_bw->total_bw : x", ".dl_bw->total_bw : -1"] {
            assert_eq!(parse_account(text), None, "{text:?}");
        }
        assert!(parse_account(&format!(".dl_bw->total_bw : {}", u64::MAX)).is_some());
    }

    #[test]
    fn the_largest_budget_is_the_last_that_rounds_down_into_the_bandwidth() {
        // kernel/sched/core.c: to_ratio().
        let to_ratio =
            |budget: Service, period: Duration| (budget.as_nanos() << 20) / period.as_nanos();
        for period in
            [100_000, 1 << 20, 8_000_000, 1_000_003, 4_194_304_000].map(Duration::from_nanos)
        {
            for units in [0, 1, 1024, 52_428, 838_860, WHOLE_CPU - 1] {
                let budget = budget_within(units, period);
                assert!(to_ratio(budget, period) <= units, "{units} of {period}");
                assert!(to_ratio(budget + Service::from_nanos(1), period) > units);
            }
            assert_eq!(budget_within(WHOLE_CPU, period), period.as_full_service());
        }
    }
}
