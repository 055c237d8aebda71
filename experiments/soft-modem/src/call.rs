//! A file over a whole call: two real modems with commands, training and error correction, one of
//! them behind an emulated card that a driver serves.
//!
//! The far modem is a device of its own and always in time. It sends the file; with V.42 below, a
//! short loss costs time, and a long one the call. The driver of the card passes in the instants:
//! [`crate::virtual_time::transfer`] and [`crate::live::library`] run the same code.
//!
//! # Order of calls
//! Every [`PERIOD`], call [`Call::take`], do the work, and call [`Call::answer`], until
//! [`Call::is_over`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use punctual_model::{Duration, Instant};
use punctual_modem::card::{Card as RealCard, CardStats, RING, SampleClock, Wire};
use punctual_modem::exchange::Medium;
use punctual_modem::impair::Quality;
use punctual_modem::station::{LineSignal, Signal, Station};
use punctual_modem::{PERIOD, SAMPLES_PER_PERIOD};

use crate::virtual_time::driver::Card;

/// The room for a modem's output other than the file: echoed commands, results.
const WORDS: usize = 1_024;

/// Samples that the far modem takes and gives at a time: 20 ms.
const BLOCK: usize = 160;

/// The text that a modem shows once data flows.
const CONNECT: &[u8] = b"CONNECT ";

/// The parameters of a transfer.
#[derive(Clone, Debug)]
pub struct Job {
    /// The modulation, as `AT+MS` names it.
    pub modulation: &'static str,
    /// The card's treatment of samples that wait.
    pub card: Card,
    /// The bytes to transfer.
    pub file: Arc<[u8]>,
    /// The seed of the line's noise.
    pub seed: u64,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// The time from CONNECT to the last byte, if all arrived correctly.
    pub took: Option<Duration>,
    /// True if the modems connected at all.
    pub connected: bool,
    /// Bytes that arrived, right or wrong.
    pub arrived: usize,
    /// Samples that the card lost or played too late.
    pub samples_lost: u64,
}

/// The near modem and its terminal.
pub struct End {
    station: Station,
    typing: Vec<u8>,
}

/// The signals that the near end gives to the line in one step.
#[derive(Default)]
struct Signals {
    dialled: bool,
    hung_up: bool,
}

impl End {
    /// Creates a modem that will dial.
    pub fn new(modulation: &str) -> Self {
        Self { station: Station::new(), typing: format!("ATE0+MS={modulation};D1\r").into() }
    }

    /// Runs terminal, modem and signalling for a block of samples. `answered` is true if the far
    /// end has answered and CONNECT has not been seen.
    fn turn(&mut self, now: Instant, heard: &[i16], said: &mut [i16], answered: bool) -> Signals {
        let taken = self.station.terminal(now, &self.typing);
        self.typing.drain(..taken);
        self.station.exchange(now, heard, said);
        let mut signals = Signals::default();
        while let Some(signal) = self.station.next_signal() {
            match signal {
                Signal::Dial(_) => signals.dialled = true,
                Signal::HangUp => signals.hung_up = true,
                Signal::Answer => {}
            }
        }
        if answered {
            // Repeated, it changes nothing.
            self.station.line_signal(now, LineSignal::Answered);
        }
        signals
    }
}

/// A call, seen from its driver.
pub struct Call {
    policy: Card,
    start: Instant,
    card: RealCard<Shared>,
    far: Rc<RefCell<Far>>,
    near: End,
    /// Modems that receive the near modem's samples and whose output goes nowhere.
    echoes: Vec<End>,
    file: Arc<[u8]>,
    /// The samples read, and later their answer.
    samples: [i16; RING],
    read: usize,
    /// Interrupts taken, and those among them whose batch was lost.
    taken: u64,
    missed: u64,
    shown: Vec<u8>,
    /// The position at which data begins in `shown`, and the time of that.
    data: Option<(usize, Instant)>,
    done: Option<Instant>,
    hung_up: bool,
}

impl Call {
    /// Creates a call whose card starts at `start`. Each of `echoes` repeats the near modem's work:
    /// a declared multiplier.
    pub fn new(job: &Job, start: Instant, echoes: Vec<End>) -> Self {
        let file = Arc::clone(&job.file);
        let far = Far::new(job.modulation, file, start, job.seed);
        let far = Rc::new(RefCell::new(far));
        Self {
            policy: job.card,
            start,
            card: RealCard::new(SampleClock::new(start, 0), Shared(Rc::clone(&far))),
            far,
            near: End::new(job.modulation),
            echoes,
            file: Arc::clone(&job.file),
            samples: [0; RING],
            read: 0,
            taken: 0,
            missed: 0,
            shown: Vec::with_capacity(job.file.len() + WORDS),
            data: None,
            done: None,
            hung_up: false,
        }
    }

    /// Takes the samples that the card shows at `now`, works on them, and returns their number.
    pub fn take(&mut self, now: Instant) -> u64 {
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

    /// Writes the answer to the samples taken.
    pub fn answer(&mut self, now: Instant) {
        self.card.write(now, &self.samples[..self.read]);
    }

    /// Returns true if the file has arrived or never will.
    pub fn is_over(&self) -> bool {
        self.done.is_some() || self.hung_up
    }

    /// Returns the time from the start of the card to the first data.
    pub fn connected_after(&self) -> Option<Duration> {
        self.data.map(|(_, at)| at.saturating_since(self.start))
    }

    /// Returns the damage that lateness did to the card.
    pub fn card_stats(&self) -> CardStats {
        self.card.stats()
    }

    /// Returns the result so far.
    pub fn result(&self) -> Transferred {
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

    /// Runs the near end over the samples that were not lost.
    fn turn(&mut self, now: Instant, from: usize, to: usize) {
        let heard = self.samples;
        let heard = &heard[from..to];
        let answered = self.far.borrow().answered && self.data.is_none();
        let said = &mut self.samples[from..to];
        let mut nobody = [0; 256];
        for echo in &mut self.echoes {
            let _ = echo.turn(now, heard, said, answered);
            while echo.station.take_output(&mut nobody) > 0 {}
        }
        let signals = self.near.turn(now, heard, said, answered);
        self.far.borrow_mut().dialled |= signals.dialled;
        self.hung_up |= signals.hung_up;
        read_all(&mut self.near.station, &mut self.shown);
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
}

/// The far modem, its terminal, and the line.
struct Far {
    station: Station,
    medium: Box<dyn Medium>,
    start: Instant,
    passed: u64,
    heard: [i16; BLOCK],
    said: [i16; BLOCK],
    typing: Vec<u8>,
    shown: Vec<u8>,
    file: Arc<[u8]>,
    sent: bool,
    /// True once the near end has dialled.
    dialled: bool,
    /// True once this end has answered.
    answered: bool,
}

impl Far {
    /// Creates a modem that will answer and send `file`, with its first sample at `start`. `seed`
    /// draws the noise.
    fn new(modulation: &str, file: Arc<[u8]>, start: Instant, seed: u64) -> Self {
        let quality = Quality {
            loss_db: 10.0,
            snr_db: 30.0,
            echo_db: None,
            ppm: 0,
            gaps_per_million: 0,
            seed,
        };
        Self {
            station: Station::new(),
            medium: Box::new(quality.medium()),
            start,
            passed: 0,
            heard: [0; BLOCK],
            said: [0; BLOCK],
            typing: format!("ATE0+MS={modulation};S0=1\r").into(),
            shown: Vec::new(),
            file,
            sent: false,
            dialled: false,
            answered: false,
        }
    }

    fn exchange(&mut self, played: i16) -> i16 {
        let at = (self.passed % BLOCK as u64) as usize;
        self.passed += 1;
        self.heard[at] = self.medium.pass(0, played);
        let to_card = self.medium.pass(1, self.said[at]);
        if at + 1 == BLOCK {
            self.block();
        }
        to_card
    }

    fn block(&mut self) {
        const SAMPLE: u64 = 1_000_000_000 / punctual_modem::SAMPLE_RATE as u64;
        let now = self.start + Duration::from_nanos(SAMPLE * self.passed);
        if std::mem::take(&mut self.dialled) {
            self.station.line_signal(now, LineSignal::Ring);
        }
        let taken = self.station.terminal(now, &self.typing);
        self.typing.drain(..taken);
        let heard = if self.answered { self.heard } else { [0; BLOCK] };
        self.station.exchange(now, &heard, &mut self.said);
        while let Some(signal) = self.station.next_signal() {
            self.answered |= signal == Signal::Answer;
        }
        read_all(&mut self.station, &mut self.shown);
        if !self.sent && contains(&self.shown, CONNECT) {
            self.sent = true;
            self.typing.extend_from_slice(&self.file);
        }
    }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// Moves all output of a modem to the end of `shown`.
fn read_all(station: &mut Station, shown: &mut Vec<u8>) {
    let mut room = [0; 256];
    loop {
        let count = station.take_output(&mut room);
        if count == 0 {
            return;
        }
        shown.extend_from_slice(&room[..count]);
    }
}

/// The card's side of the line. The rest of the call reads the far end between two samples.
#[derive(Clone)]
struct Shared(Rc<RefCell<Far>>);

impl Wire for Shared {
    fn exchange(&mut self, played: i16) -> i16 {
        self.0.borrow_mut().exchange(played)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(echoes: usize) -> Call {
        let job = Job {
            modulation: "V22B,0",
            card: Card::Ring(RING as u32),
            file: (0..200u8).collect(),
            seed: 3,
        };
        let echoes = (0..echoes).map(|_| End::new(job.modulation)).collect();
        let start = Instant::from_nanos(1_000);
        let mut call = Call::new(&job, start, echoes);
        let mut now = start;
        while !call.is_over() && now < start + Duration::from_secs(30) {
            now += PERIOD;
            let _ = call.take(now);
            call.answer(now);
        }
        call
    }

    /// Echoes repeat the near modem's work only if they are in the same state.
    #[test]
    fn an_echo_does_what_the_near_modem_does_and_changes_nothing() {
        let (alone, with_echoes) = (call(0), call(2));
        assert!(alone.result().took.is_some(), "{:?}", alone.result());
        assert_eq!(alone.result(), with_echoes.result());
        let near = with_echoes.near.station.link_stats();
        assert!(near.is_some_and(|stats| stats.frames_received > 0), "{near:?}");
        for echo in &with_echoes.echoes {
            assert_eq!(echo.station.link_stats(), near);
        }
    }
}
