//! The library's modems, the files that they carry, and the number of times each modem's work is
//! repeated, so that an interrupt costs what the study's did.

use std::sync::Arc;

use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, Service};
use punctual_modem::PERIOD;
use punctual_modem::demo::live::Competitors;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::super::Error;
use super::report::ModemSize;
use super::{PATIENCE, calls, echoes};
use crate::call::{Call, Job};
use crate::virtual_time::driver::{Card, RING};

/// The number of modems.
pub const COUNT: usize = 4;

/// All modems. V.22bis has error control. The slow ones do not: there lost data stays lost, and a
/// call connects in 3 to 6 s.
pub const MODEMS: [Modem; COUNT] = [
    Modem { name: "V.22bis", modulation: "V22B,0", bytes: 600 },
    Modem { name: "V.23", modulation: "V23C,0;+ES=1,0,1", bytes: 300 },
    Modem { name: "V.21", modulation: "V21,0;+ES=1,0,1", bytes: 75 },
    Modem { name: "Bell 103", modulation: "B103,0;+ES=1,0,1", bytes: 75 },
];

/// The target for all lines at each interrupt, once connected: the study's 1.84 ms (§6.6).
const TARGET: Service = Service::from_micros(1_840);

/// The first number of echoes measured. The number that follows from it is measured again, with
/// colder caches.
const FEW: u32 = 16;

/// The largest number of modems that repeat one line's work.
const MOST: u64 = 4_000;

/// Services of one measurement; the median counts.
const SERVICES: usize = 120;

/// A modem of the library.
#[derive(Clone, Copy, Debug)]
pub struct Modem {
    /// Its name in tables.
    pub name: &'static str,
    /// Its name in `AT+MS`, and further settings.
    pub modulation: &'static str,
    /// Bytes of its file: two to three seconds.
    pub bytes: usize,
}

impl Modem {
    /// Returns its transfer: the file and the noise of the line follow from the seed.
    pub fn job(&self, seed: u64) -> Job {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut file = vec![0; self.bytes];
        rng.fill_bytes(&mut file);
        Job {
            modulation: self.modulation,
            card: Card::Ring(RING),
            file: Arc::from(file),
            seed: rng.next_u64(),
        }
    }
}

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
    use punctual_model::{Duration, Instant};
    use punctual_modem::PERIOD;

    use super::*;
    use crate::call::Call;
    use crate::live::library::PATIENCE;

    /// Served in time, each transfer completes well before a live call gives up.
    #[test]
    fn in_time_every_file_arrives_in_seconds() {
        let start = Instant::from_nanos(1_000);
        for modem in MODEMS {
            for seed in 0..3 {
                let mut call = Call::new(&modem.job(seed), start, Vec::new());
                let mut now = start;
                while !call.is_over() && now < start + PATIENCE {
                    now += PERIOD;
                    let _ = call.take(now);
                    call.answer(now);
                }
                let found = call.result();
                let took = found.took.unwrap_or_else(|| panic!("{}: {found:?}", modem.name));
                assert!(now + Duration::from_secs(3) < start + PATIENCE, "{}: {now}", modem.name);
                assert!(took < Duration::from_secs(4), "{}: {took}", modem.name);
            }
        }
    }

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
