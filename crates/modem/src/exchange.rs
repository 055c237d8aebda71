//! A telephone exchange: modems on one host call each other.
//!
//! Of two lines, whatever number the one dials, the other rings. Of more, a number dialled is that of
//! a line, counted from 0, and any other gives no dial tone. A line called rings every
//! [`RING_CYCLE`], [`MOST_RINGS`] times. Once it is answered, samples pass both ways, a block late;
//! before that, and after either hung up, both hear silence, as on any line: that a call ended is
//! for the modems to notice.
//!
//! # Order of calls
//! [`Exchange::step`] every [`BLOCK`]; or, to serve lines one by one, [`Exchange::begin`] and then
//! [`Exchange::serve`] once for each line. Serving a line allocates nothing but where a call begins.

use punctual_model::{Duration, Instant};

use crate::at::DialString;
use crate::station::{Signal, Station, Told};

/// From one ring to the next.
pub const RING_CYCLE: Duration = Duration::from_secs(6);

/// Rings before the caller hears that nobody answers.
pub const MOST_RINGS: u32 = 10;

/// Samples in a block: 20 ms.
pub const BLOCK: usize = 160;

/// What happens to samples between two lines, in each direction.
pub trait Medium {
    /// Passes a sample from the line `from` to the one it is connected to.
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

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnHook,
    /// Off hook, and connected to nobody.
    OffHook,
    /// That line has been called.
    Calling {
        called: usize,
    },
    /// On hook, called by that line; has rung so often, and rings next at.
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
    /// What it said in this block and in the one before, by turns.
    said: [[i16; BLOCK]; 2],
}

/// The exchange, its modems and the medium between them.
pub struct Exchange<M> {
    lines: Vec<Line>,
    /// Which half of [`Line::said`] this block is written to.
    turn: usize,
    medium: M,
}

impl<M: Medium> Exchange<M> {
    /// Two lines, both on hook.
    pub fn new(medium: M) -> Self {
        Self::with_lines(2, medium)
    }

    /// So many lines, all on hook.
    pub fn with_lines(lines: usize, medium: M) -> Self {
        let line =
            |_| Line { station: Station::new(), state: State::OnHook, said: [[0; BLOCK]; 2] };
        Self { lines: (0..lines).map(line).collect(), turn: 0, medium }
    }

    /// How many lines there are.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// One of the modems, from 0 on.
    ///
    /// # Panics
    /// If there is no such modem.
    pub fn station(&mut self, which: usize) -> &mut Station {
        &mut self.lines[which].station
    }

    /// What is between them.
    pub fn medium(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Lines that are connected to another.
    pub fn connected(&self) -> usize {
        self.lines.iter().filter(|line| matches!(line.state, State::Through { .. })).count()
    }

    /// Passes 20 ms of everything; call it every 20 ms.
    pub fn step(&mut self, now: Instant) {
        self.begin(now);
        for which in 0..self.lines.len() {
            self.serve(now, which);
        }
    }

    /// Begins the next block: what was said in the last is heard in it.
    pub fn begin(&mut self, now: Instant) {
        self.turn = 1 - self.turn;
        for which in 0..self.lines.len() {
            self.ring(now, which);
        }
    }

    /// Passes 20 ms of one line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn serve(&mut self, now: Instant, which: usize) {
        let mut heard = [0; BLOCK];
        if let State::Through { peer } = self.lines[which].state {
            for (slot, &sample) in heard.iter_mut().zip(&self.lines[peer].said[1 - self.turn]) {
                *slot = self.medium.pass(peer, sample);
            }
        }
        let line = &mut self.lines[which];
        line.station.exchange(now, &heard, &mut line.said[self.turn]);
        while let Some(signal) = self.lines[which].station.next_signal() {
            self.signal(now, which, signal);
        }
    }

    fn signal(&mut self, now: Instant, which: usize, signal: Signal) {
        match (signal, self.lines[which].state) {
            // It rings on, for who dialled meanwhile hears that the line is engaged.
            (Signal::Dial(_), State::Ringing { .. }) => {
                self.lines[which].station.told(now, Told::Busy);
            }
            (Signal::HangUp, State::Ringing { .. }) => {}
            (Signal::Dial(number), _) => {
                self.clear(which);
                self.lines[which].state = State::OffHook;
                let told = match self.reached(which, &number) {
                    None => Told::NoDialtone,
                    Some(called) if self.lines[called].state != State::OnHook => Told::Busy,
                    Some(called) => {
                        self.lines[which].state = State::Calling { called };
                        let rings = State::Ringing { caller: which, rings: 0, next: now };
                        self.lines[called].state = rings;
                        return;
                    }
                };
                self.lines[which].station.told(now, told);
            }
            (Signal::Answer, State::Ringing { caller, .. }) => {
                self.lines[which].state = State::Through { peer: caller };
                self.lines[caller].state = State::Through { peer: which };
                self.lines[caller].station.told(now, Told::Answered);
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

    /// The line that a number reaches from `which`.
    fn reached(&self, which: usize, number: &DialString) -> Option<usize> {
        if self.lines.len() == 2 {
            return Some(1 - which);
        }
        let line = number.digits().collect::<String>().parse::<usize>().ok()?;
        (line < self.lines.len()).then_some(line)
    }

    /// Whoever was connected to `which`, or rang because of it, no longer is.
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
            self.lines[caller].station.told(now, Told::NoAnswer);
        } else {
            let next = next + RING_CYCLE;
            self.lines[which].state = State::Ringing { caller, rings: rings + 1, next };
            self.lines[which].station.told(now, Told::Ring);
        }
    }
}
