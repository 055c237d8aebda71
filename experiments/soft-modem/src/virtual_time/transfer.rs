//! A file over a whole call in virtual time: two real modems with commands, training and error
//! correction, one of them served by a driver in a context of the study.
//!
//! The far modem is a device of its own and always in time. It sends the file; with V.42 below, a
//! short loss costs time, and a long one the call. The near modem hangs on the emulated card.

mod far;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use punctual_model::{Duration, Instant, Service};
use punctual_softmodem::card::{Card as RealCard, RING, SampleClock};
use punctual_softmodem::station::{Signal, Station, Told};
use punctual_softmodem::{PERIOD, SAMPLES_PER_PERIOD};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::contexts::Context;
use super::device::{Card, Device};
use super::driver::{Lines, drive};
use far::{CONNECT, Far, Shared, read_all};

/// A transfer to be tried.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// What the driver runs as.
    pub context: Context,
    /// What the card does with samples that wait.
    pub card: Card,
    /// The modulation, as `AT+MS` names it.
    pub modulation: &'static str,
    /// The bytes.
    pub file: Arc<[u8]>,
    /// Draws noise, phases and latencies.
    pub seed: u64,
    /// Counted from dialling, the whole must be done in this time.
    pub patience: Duration,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// From CONNECT to the last byte, if all arrived and are right.
    pub took: Option<Duration>,
    /// Whether the modems connected at all.
    pub connected: bool,
    /// Bytes that arrived, right or wrong.
    pub arrived: usize,
    /// Samples that the card lost or played too late.
    pub samples_lost: u64,
}

/// Processor time for a batch: the study's modem (§6.6). Ours needs a few microseconds.
const WORK: Service = Service::from_micros(1_840);

/// Dials, connects, and carries the file.
pub fn run(transfer: &Transfer) -> Transferred {
    let mut seeds = ChaCha8Rng::seed_from_u64(transfer.seed);
    // Where in the reservation's period, and among others' turns, interrupts come.
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
    let mut call = Call::new(transfer, start, seeds.next_u64());
    let latency = transfer.context.latency(seeds.next_u64());
    let mut processor = transfer.context.processor(origin);
    let interrupts = transfer.patience / PERIOD;
    drive(&device, &mut processor, (start, interrupts), latency, &mut call);
    call.result()
}

/// The near end and its driver's books.
struct Call {
    policy: Card,
    start: Instant,
    card: RealCard<Shared>,
    far: Rc<RefCell<Far>>,
    near: Station,
    file: Arc<[u8]>,
    /// Samples read, and their answer.
    samples: [i16; RING],
    read: usize,
    /// Interrupts taken, and those of which the batch was lost.
    taken: u64,
    missed: u64,
    typing: Vec<u8>,
    shown: Vec<u8>,
    /// Where data begins in what was shown, and when that was.
    data: Option<(usize, Instant)>,
    done: Option<Instant>,
    hung_up: bool,
}

impl Call {
    fn new(transfer: &Transfer, start: Instant, seed: u64) -> Self {
        let file = Arc::clone(&transfer.file);
        let far = Far::new(transfer.modulation, file, start, seed);
        let far = Rc::new(RefCell::new(far));
        Self {
            policy: transfer.card,
            start,
            card: RealCard::new(SampleClock::new(start, 0), Shared(Rc::clone(&far))),
            far,
            near: Station::new(),
            file: Arc::clone(&transfer.file),
            samples: [0; RING],
            read: 0,
            taken: 0,
            missed: 0,
            typing: format!("ATE0+MS={};D1\r", transfer.modulation).into(),
            shown: Vec::new(),
            data: None,
            done: None,
            hung_up: false,
        }
    }

    /// Terminal, modem and signalling at the near end, over samples that were not lost.
    fn turn(&mut self, now: Instant, from: usize, to: usize) {
        let taken = self.near.terminal(now, &self.typing);
        self.typing.drain(..taken);
        let heard = self.samples;
        self.near.exchange(now, &heard[from..to], &mut self.samples[from..to]);
        while let Some(signal) = self.near.next_signal() {
            match signal {
                Signal::Dial(_) => self.far.borrow_mut().dialled = true,
                Signal::HangUp => self.hung_up = true,
                Signal::Answer => {}
            }
        }
        if self.far.borrow().answered && self.data.is_none() {
            // Said again it changes nothing.
            self.near.told(now, Told::Answered);
        }
        read_all(&mut self.near, &mut self.shown);
        if self.data.is_none()
            && let Some(at) = self.shown.windows(CONNECT.len()).position(|seen| seen == CONNECT)
            && let Some(line) = self.shown[at..].iter().position(|byte| *byte == b'\n')
        {
            self.data = Some((at + line + 1, now));
        }
        if self.done.is_none()
            && let Some((from, _)) = self.data
            && self.shown.len() - from >= self.file.len()
        {
            self.done = Some(now);
        }
    }

    fn result(self) -> Transferred {
        let arrived = self.data.map_or(0, |(from, _)| self.shown.len() - from);
        let is_right = |from: usize| self.shown.get(from..from + self.file.len());
        let took = self.data.zip(self.done).and_then(|((from, connected), done)| {
            (is_right(from) == Some(&*self.file)).then(|| done.saturating_since(connected))
        });
        let batch = SAMPLES_PER_PERIOD as u64;
        Transferred {
            took,
            connected: self.data.is_some(),
            arrived,
            samples_lost: match self.policy {
                Card::Latch => self.missed * batch,
                Card::Ring(_) => self.card.stats().stale_samples,
            },
        }
    }
}

impl Lines for Call {
    fn take(&mut self, _: usize, now: Instant) -> u64 {
        let come = now.saturating_since(self.start) / PERIOD;
        let since = come.saturating_sub(self.taken);
        self.taken = come;
        let mut from = 0;
        if self.policy == Card::Latch {
            self.read = 0;
            if since == 0 {
                return 0;
            }
            from = (since as usize - 1) * SAMPLES_PER_PERIOD;
            self.missed += since - 1;
        }
        self.read = self.card.read(now, &mut self.samples);
        // The oldest are the lost ones; they are answered with silence.
        let from = from.min(self.read);
        self.samples[..from].fill(0);
        self.turn(now, from, self.read);
        (self.read - from) as u64
    }

    fn answer(&mut self, _: usize, _: u64, now: Instant) {
        self.card.write(now, &self.samples[..self.read]);
    }

    fn is_over(&mut self, _: u64, _: bool, _: Instant) -> bool {
        self.done.is_some() || self.hung_up
    }
}

#[cfg(test)]
mod tests;
