//! A telephone exchange with two lines: two modems on one host call each other.
//!
//! Whatever number the one dials, the other rings: every [`RING_CYCLE`], [`MOST_RINGS`] times.
//! Once it is answered, samples pass both ways, a block late; before that, and after either hung
//! up, both hear silence, as on any line: that a call ended is for the modems to notice.

use punctual_model::{Duration, Instant};

use crate::station::{Signal, Station, Told};

/// From one ring to the next.
pub const RING_CYCLE: Duration = Duration::from_secs(6);

/// Rings before the caller hears that nobody answers.
pub const MOST_RINGS: u32 = 10;

/// Samples in a block: 20 ms.
pub const BLOCK: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Idle,
    /// That end calls; the other has rung so often, and rings next at.
    Ringing {
        caller: usize,
        rings: u32,
        next: Instant,
    },
    Through,
}

/// What happens to samples between the two, in each direction.
pub trait Medium {
    /// Passes a sample from the end `from` (0 or 1) to the other.
    fn pass(&mut self, from: usize, sample: i16) -> i16;
}

/// A medium that changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Perfect;

impl Medium for Perfect {
    fn pass(&mut self, _from: usize, sample: i16) -> i16 {
        sample
    }
}

/// The exchange, its two modems and the medium between them.
pub struct Exchange<M> {
    stations: [Station; 2],
    off_hook: [bool; 2],
    line: Line,
    said: [[i16; BLOCK]; 2],
    medium: M,
}

impl<M: Medium> Exchange<M> {
    /// Both on hook.
    pub fn new(medium: M) -> Self {
        Self {
            stations: [Station::new(), Station::new()],
            off_hook: [false; 2],
            line: Line::Idle,
            said: [[0; BLOCK]; 2],
            medium,
        }
    }

    /// One of the two modems: 0 or 1.
    ///
    /// # Panics
    /// If there is no such modem.
    pub fn station(&mut self, which: usize) -> &mut Station {
        &mut self.stations[which]
    }

    /// What is between them.
    pub fn medium(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Passes 20 ms of everything; call it every 20 ms.
    pub fn step(&mut self, now: Instant) {
        self.ring(now);
        let through = self.line == Line::Through;
        let said = self.said;
        for end in 0..2 {
            let mut heard = [0; BLOCK];
            if through {
                for (slot, &sample) in heard.iter_mut().zip(&said[1 - end]) {
                    *slot = self.medium.pass(1 - end, sample);
                }
            }
            self.stations[end].exchange(now, &heard, &mut self.said[end]);
            while let Some(signal) = self.stations[end].next_signal() {
                self.signal(now, end, signal);
            }
        }
    }

    fn signal(&mut self, now: Instant, end: usize, signal: Signal) {
        match signal {
            Signal::Dial(_) => {
                self.off_hook[end] = true;
                if self.off_hook[1 - end] || self.line != Line::Idle {
                    self.stations[end].told(now, Told::Busy);
                } else {
                    self.line = Line::Ringing { caller: end, rings: 0, next: now };
                }
            }
            Signal::Answer => {
                self.off_hook[end] = true;
                if matches!(self.line, Line::Ringing { caller, .. } if caller != end) {
                    self.line = Line::Through;
                    self.stations[1 - end].told(now, Told::Answered);
                }
            }
            Signal::HangUp => {
                self.off_hook[end] = false;
                let rings_on = matches!(self.line, Line::Ringing { caller, .. } if caller != end);
                if !rings_on {
                    self.line = Line::Idle;
                }
            }
        }
    }

    fn ring(&mut self, now: Instant) {
        let Line::Ringing { caller, rings, next } = self.line else { return };
        if now < next {
            return;
        }
        if rings == MOST_RINGS {
            self.line = Line::Idle;
            self.stations[caller].told(now, Told::NoAnswer);
        } else {
            self.line = Line::Ringing { caller, rings: rings + 1, next: next + RING_CYCLE };
            self.stations[1 - caller].told(now, Told::Ring);
        }
    }
}
