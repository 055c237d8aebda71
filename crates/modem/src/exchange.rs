//! A telephone exchange: modems on one host call each other.
//!
//! With two lines, any number dialled on one rings the other. With more, a number dialled is that
//! of a line, counted from 0, and any other number gives no dial tone. A called line rings every
//! [`RING_CYCLE`], [`MOST_RINGS`] times. Once it is answered, samples pass both ways, one block
//! late. Before that, and after either end hung up, both ends receive silence, as on any line: the
//! modems have to notice that the call ended.
//!
//! # Order of calls
//! Call [`Exchange::step`] every [`BLOCK`]; or, to serve lines one by one, call [`Exchange::begin`]
//! and then [`Exchange::serve`] once for each line. Serving a line allocates memory only when a
//! call begins.

use punctual_model::{Duration, Instant};

use crate::at::DialString;
use crate::station::{LineSignal, Signal, Station};

/// The time from one ring to the next.
pub const RING_CYCLE: Duration = Duration::from_secs(6);

/// Rings before the caller is told that there is no answer.
pub const MOST_RINGS: u32 = 10;

/// Samples in a block: 20 ms.
pub const BLOCK: usize = 160;

/// The path of samples between two lines, in each direction.
pub trait Medium {
    /// Passes a sample from the line `from` to the line it is connected to.
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

/// The state of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnHook,
    /// Off hook and not connected.
    OffHook,
    /// Off hook; the line `called` rings.
    Calling {
        called: usize,
    },
    /// On hook and called by the line `caller`. It has rung `rings` times and rings again at
    /// `next`.
    Ringing {
        caller: usize,
        rings: u32,
        next: Instant,
    },
    Through {
        peer: usize,
    },
}

struct Line {
    station: Station,
    state: State,
    /// The samples that the line sent in this block and in the previous one, alternating.
    sent: [[i16; BLOCK]; 2],
}

/// The exchange, its modems and the medium between them.
pub struct Exchange<M> {
    lines: Vec<Line>,
    /// The half of [`Line::sent`] that this block is written to.
    turn: usize,
    medium: M,
}

impl<M: Medium> Exchange<M> {
    /// Creates an exchange of two lines, both on hook.
    pub fn new(medium: M) -> Self {
        Self::with_lines(2, medium)
    }

    /// Creates an exchange of `lines` lines, all on hook.
    pub fn with_lines(lines: usize, medium: M) -> Self {
        let line =
            |_| Line { station: Station::new(), state: State::OnHook, sent: [[0; BLOCK]; 2] };
        Self { lines: (0..lines).map(line).collect(), turn: 0, medium }
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns one of the modems, counted from 0.
    ///
    /// # Panics
    /// Panics if there is no such modem.
    pub fn station(&mut self, which: usize) -> &mut Station {
        &mut self.lines[which].station
    }

    /// Returns the medium between the lines.
    pub fn medium(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Returns the number of lines that are connected to another line.
    pub fn connected(&self) -> usize {
        self.lines.iter().filter(|line| matches!(line.state, State::Through { .. })).count()
    }

    /// Runs 20 ms of all lines; call it every 20 ms.
    pub fn step(&mut self, now: Instant) {
        self.begin(now);
        for which in 0..self.lines.len() {
            self.serve(now, which);
        }
    }

    /// Begins the next block: its lines receive the samples sent in the last block.
    pub fn begin(&mut self, now: Instant) {
        self.turn = 1 - self.turn;
        for which in 0..self.lines.len() {
            self.ring(now, which);
        }
    }

    /// Runs 20 ms of one line.
    ///
    /// # Panics
    /// Panics if there is no such line.
    pub fn serve(&mut self, now: Instant, which: usize) {
        let mut received = [0; BLOCK];
        if let State::Through { peer } = self.lines[which].state {
            for (slot, &sample) in received.iter_mut().zip(&self.lines[peer].sent[1 - self.turn]) {
                *slot = self.medium.pass(peer, sample);
            }
        }
        let line = &mut self.lines[which];
        line.station.exchange(now, &received, &mut line.sent[self.turn]);
        while let Some(signal) = self.lines[which].station.next_signal() {
            self.signal(now, which, signal);
        }
    }

    fn signal(&mut self, now: Instant, which: usize, signal: Signal) {
        match (signal, self.lines[which].state) {
            // The line keeps ringing, but a modem that dialled meanwhile is told that the line is
            // busy.
            (Signal::Dial(_), State::Ringing { .. }) => {
                self.lines[which].station.line_signal(now, LineSignal::Busy);
            }
            (Signal::HangUp, State::Ringing { .. }) => {}
            (Signal::Dial(number), _) => {
                self.clear(which);
                self.lines[which].state = State::OffHook;
                let answer = match self.reached(which, &number) {
                    None => LineSignal::NoDialtone,
                    Some(called) if self.lines[called].state != State::OnHook => LineSignal::Busy,
                    Some(called) => {
                        self.lines[which].state = State::Calling { called };
                        let rings = State::Ringing { caller: which, rings: 0, next: now };
                        self.lines[called].state = rings;
                        return;
                    }
                };
                self.lines[which].station.line_signal(now, answer);
            }
            (Signal::Answer, State::Ringing { caller, .. }) => {
                self.lines[which].state = State::Through { peer: caller };
                self.lines[caller].state = State::Through { peer: which };
                self.lines[caller].station.line_signal(now, LineSignal::Answered);
            }
            (Signal::Answer, _) => {
                self.clear(which);
                self.lines[which].state = State::OffHook;
            }
            (Signal::HangUp, _) => {
                self.clear(which);
                self.lines[which].state = State::OnHook;
            }
        }
    }

    /// Returns the line that a number dialled on `which` reaches.
    fn reached(&self, which: usize, number: &DialString) -> Option<usize> {
        if self.lines.len() == 2 {
            return Some(1 - which);
        }
        let line = number.digits().collect::<String>().parse::<usize>().ok()?;
        (line < self.lines.len()).then_some(line)
    }

    /// Disconnects the line that was connected to `which` or that rang because of it.
    fn clear(&mut self, which: usize) {
        match self.lines[which].state {
            State::Calling { called } => self.lines[called].state = State::OnHook,
            State::Through { peer } => self.lines[peer].state = State::OffHook,
            State::OnHook | State::OffHook | State::Ringing { .. } => {}
        }
    }

    fn ring(&mut self, now: Instant, which: usize) {
        let State::Ringing { caller, rings, next } = self.lines[which].state else { return };
        if now < next {
            return;
        }
        if rings == MOST_RINGS {
            self.lines[which].state = State::OnHook;
            self.lines[caller].state = State::OffHook;
            self.lines[caller].station.line_signal(now, LineSignal::NoAnswer);
        } else {
            let next = next + RING_CYCLE;
            self.lines[which].state = State::Ringing { caller, rings: rings + 1, next };
            self.lines[which].station.line_signal(now, LineSignal::Ring);
        }
    }
}
