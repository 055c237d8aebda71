//! The far end of a transfer, on the other side of the card: a device of its own, always in time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use punctual_model::{Duration, Instant};
use punctual_modem::card::Wire;
use punctual_modem::exchange::Medium;
use punctual_modem::impair::Quality;
use punctual_modem::station::{LineSignal, Signal, Station};

/// Samples that the far modem takes and gives at a time: 20 ms.
const BLOCK: usize = 160;

/// The far modem, its terminal, and the line.
pub(super) struct Far {
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
    pub(super) dialled: bool,
    /// True once this end has answered.
    pub(super) answered: bool,
}

impl Far {
    /// Creates a modem that will answer and send `file`, with its first sample at `start`. `seed`
    /// draws the noise.
    pub(super) fn new(modulation: &str, file: Arc<[u8]>, start: Instant, seed: u64) -> Self {
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

/// The text that a modem shows once data flows.
pub(super) const CONNECT: &[u8] = b"CONNECT ";

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// Moves all output of a modem to the end of `shown`.
pub(super) fn read_all(station: &mut Station, shown: &mut Vec<u8>) {
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
pub(super) struct Shared(pub(super) Rc<RefCell<Far>>);

impl Wire for Shared {
    fn exchange(&mut self, played: i16) -> i16 {
        self.0.borrow_mut().exchange(played)
    }
}
