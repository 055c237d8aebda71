//! The number of times each modem's work is repeated, so that an interrupt costs what the study's
//! did.

use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, Service};
use punctual_modem::PERIOD;
use punctual_modem::demo::live::Competitors;

use super::super::Error;
use super::modems::{COUNT, MODEMS};
use super::report::ModemSize;
use super::serve::{PATIENCE, calls, echoes};
use crate::call::Call;

/// The target for all lines at each interrupt, once connected: the study's 1.84 ms (§6.6).
const TARGET: Service = Service::from_micros(1_840);

/// The first number of echoes measured. The number that follows from it is measured again, with
/// colder caches.
const FEW: u32 = 16;

/// The largest number of modems that repeat one line's work.
const MOST: u64 = 4_000;

/// Services of one measurement; the median counts.
const SERVICES: usize = 120;

/// The work of a driver of all modems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// The number of further modems for each line that receive its samples: the declared multiplier
    /// of its work.
    pub echoes: [u32; COUNT],
    /// Processor time of one modem's 100 samples each way, in ns.
    pub modem_ns: [u64; COUNT],
    /// The same of a line without echoes: the modem, and the far end that is computed beside it.
    pub line_ns: [u64; COUNT],
}

impl Sizing {
    /// Measures it on `cpu`, with `competitors` spinning threads on each CPU.
    pub fn measure(cpu: usize, competitors: usize, seed: u64) -> Result<Self, Error> {
        let before = thread::affinity();
        let _competitors = Competitors::start(competitors)?;
        thread::pin_to(cpu)?;
        let line_ns = times(seed, [0; COUNT]);
        let mut sizing = Self { echoes: [FEW; COUNT], modem_ns: [0; COUNT], line_ns };
        for _ in 0..2 {
            sizing = sizing.refined(times(seed, sizing.echoes));
        }
        thread::set_affinity(&before)?;
        Ok(sizing)
    }

    /// Computes the echoes anew from the time that each line took with the present ones.
    fn refined(self, took: [u64; COUNT]) -> Self {
        let share = TARGET.as_nanos() / COUNT as u64;
        let modem_ns: [u64; COUNT] = std::array::from_fn(|at| {
            let echoes = u64::from(self.echoes[at]).max(1);
            (took[at].saturating_sub(self.line_ns[at]) / echoes).max(1)
        });
        let echoes = std::array::from_fn(|at| {
            let left = share.saturating_sub(self.line_ns[at]);
            u32::try_from((left / modem_ns[at]).min(MOST)).expect("at most MOST")
        });
        Self { echoes, modem_ns, ..self }
    }

    /// Returns the sizes for a report.
    pub fn report(&self) -> Vec<ModemSize> {
        let size = |at: usize| ModemSize {
            modem: MODEMS[at].name.to_owned(),
            bytes: MODEMS[at].bytes,
            echoes: self.echoes[at],
            modem_ns: self.modem_ns[at],
            line_ns: self.line_ns[at],
        };
        (0..COUNT).map(size).collect()
    }
}

/// Measures the processor time of each line at an interrupt once all are connected. Line time
/// passes as fast as it can be computed.
fn times(seed: u64, counts: [u32; COUNT]) -> [u64; COUNT] {
    let start = Instant::from_nanos(1);
    let mut calls = calls(seed, start, echoes(counts));
    let mut now = start;
    let mut service = |calls: &mut [Call; COUNT]| {
        now += PERIOD;
        calls.each_mut().map(|call| {
            let before = clock::thread_cpu_time();
            let _ = call.take(now);
            call.answer(now);
            clock::thread_cpu_time().saturating_sub(before).as_nanos()
        })
    };
    let mut passed = Duration::ZERO;
    while passed < PATIENCE && calls.iter().any(|call| call.connected_after().is_none()) {
        let _ = service(&mut calls);
        passed += PERIOD;
    }
    let found: Vec<[u64; COUNT]> = (0..SERVICES).map(|_| service(&mut calls)).collect();
    std::array::from_fn(|at| {
        let mut own: Vec<u64> = found.iter().map(|one| one[at]).collect();
        own.sort_unstable();
        own[own.len() / 2]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_fill_the_share_that_the_line_leaves() {
        let sizing =
            Sizing { echoes: [10; COUNT], modem_ns: [0; COUNT], line_ns: [10_000, 0, 460_000, 5] };
        let refined = sizing.refined([60_000, 20_000, 500_000, 5]);
        assert_eq!(refined.modem_ns, [5_000, 2_000, 4_000, 1]);
        // 460 µs a line: the rest of it, divided by a modem's time.
        assert_eq!(refined.echoes, [90, 230, 0, 4_000]);
    }
}
