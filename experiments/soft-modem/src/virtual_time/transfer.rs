//! A file over a whole call in virtual time: [`crate::call`], served by a driver in a context of
//! the study.

use std::sync::Arc;

use punctual_model::{Duration, Instant, Service};
use punctual_modem::{PERIOD, SAMPLES_PER_PERIOD};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::contexts::Context;
use super::driver::{Card, Device, Lines, drive};
use crate::call::{Call, Job, Transferred};

/// The parameters of a transfer.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The context of the driver.
    pub context: Context,
    /// The card's treatment of samples that wait.
    pub card: Card,
    /// The modulation, as `AT+MS` names it.
    pub modulation: &'static str,
    /// The bytes to transfer.
    pub file: Arc<[u8]>,
    /// The seed of noise, phases and latencies.
    pub seed: u64,
    /// The time from dialling within which the transfer must be done.
    pub patience: Duration,
}

/// Processor time for a batch: the study's modem (§6.6). Ours needs a few microseconds.
const WORK: Service = Service::from_micros(1_840);

/// Dials, connects, and transfers the file.
pub fn run(transfer: &Transfer) -> Transferred {
    let mut seeds = ChaCha8Rng::seed_from_u64(transfer.seed);
    // The phases of interrupts in the reservation's period and in the others' turns.
    let start = Instant::from_nanos(seeds.next_u64() % 1_000_000_000);
    let origin = Instant::from_nanos(seeds.next_u64() % 1_000_000_000);
    let device = Device {
        period: PERIOD,
        batch: SAMPLES_PER_PERIOD as u32,
        work: WORK,
        piece: u32::MAX,
        lines: 1,
        card: transfer.card,
    };
    let job = Job {
        modulation: transfer.modulation,
        card: transfer.card,
        file: Arc::clone(&transfer.file),
        seed: seeds.next_u64(),
    };
    // The work is charged instead of repeated by echoes.
    let mut call = Call::new(&job, start, Vec::new());
    let latency = transfer.context.latency(seeds.next_u64());
    let mut processor = transfer.context.processor(origin);
    let interrupts = transfer.patience / PERIOD;
    drive(&device, &mut processor, (start, interrupts), latency, &mut call);
    call.result()
}

impl Lines for Call {
    fn take(&mut self, _: usize, now: Instant) -> u64 {
        Self::take(self, now)
    }

    fn answer(&mut self, _: usize, _: u64, now: Instant) {
        Self::answer(self, now);
    }

    fn is_over(&mut self, _: u64, _: bool, _: Instant) -> bool {
        Self::is_over(self)
    }
}

#[cfg(test)]
mod tests;
