//! One call: interrupts come, the driver serves its lines when it has the processor, and what the
//! card loses is counted.
//!
//! The driver is the study's: each interrupt signals its thread once, and for each signal it serves
//! all lines in order. A line's samples are taken when its turn begins; processor time is charged
//! by the sample, as [`punctual_modem::demo::replay`] does. [`drive`] is that driver over anything that can be
//! [`Lines`], [`run`] over lines that are only counted.

use punctual_model::{Duration, Instant, Service};
use punctual_sim::processor::Processor;

use super::device::{Card, Device};

/// A call to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When the card starts: its first interrupt comes a period later.
    pub start: Instant,
    /// So many interrupts.
    pub interrupts: u64,
    /// More lost samples than this, of a million, end it: it failed.
    pub give_up_ppm: u64,
    /// After so many interrupts the processor's service repeats itself, whatever the driver does;
    /// `None`: nobody knows. A call that comes back to a state it was in without a loss never
    /// loses anything, and ends there.
    pub repeats_after: Option<u64>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Samples lost, or answered too late, of all lines.
    pub lost: u64,
    /// Samples that came on all lines in the whole call.
    pub of: u64,
    /// Whether it was ended because too much was lost; `lost` is then what was lost until then.
    pub gave_up: bool,
}

impl Outcome {
    /// Nothing was lost.
    pub fn is_intact(&self) -> bool {
        self.lost == 0
    }

    /// The part lost, in millionths, rounded up.
    pub fn lost_ppm(&self) -> u64 {
        (u128::from(self.lost) * 1_000_000).div_ceil(u128::from(self.of.max(1))) as u64
    }
}

/// What a driver serves.
pub trait Lines {
    /// The driver turns to `line` at `now`; how many samples it takes. They are what its work is
    /// charged for.
    fn take(&mut self, line: usize, now: Instant) -> u64;

    /// The work for those samples is done: their answer is written.
    fn answer(&mut self, line: usize, samples: u64, now: Instant);

    /// Whether to stop before interrupt `pass` is served; `slept` if the driver had nothing left to
    /// do before it.
    fn is_over(&mut self, pass: u64, slept: bool, now: Instant) -> bool;
}

/// A thread on a processor in virtual time.
struct Thread<'a, P> {
    processor: &'a mut P,
    now: Instant,
    end: Instant,
}

impl<P: Processor> Thread<'_, P> {
    /// Sleeps until then, at least.
    fn sleep_until(&mut self, until: Instant) {
        // What wakes is told when it sleeps: a reservation may begin anew then.
        let _ = self.processor.at(self.now, false);
        self.now = self.now.max(until);
    }

    /// Waits for the processor; whether it has it before the end.
    fn wait(&mut self) -> bool {
        while self.now < self.end {
            let stretch = self.processor.at(self.now, true);
            if stretch.served {
                return true;
            }
            self.now = stretch.until;
        }
        false
    }

    /// Works; whether that was done before the end.
    fn work(&mut self, mut left: Service) -> bool {
        while !left.is_zero() && self.now < self.end {
            let stretch = self.processor.at(self.now, true);
            if stretch.served {
                let until = stretch.until.min(self.end);
                let ran = left.min(until.saturating_since(self.now).as_full_service());
                left = left.saturating_sub(ran);
                self.now = self.now.saturating_add(ran.at_full_speed());
            } else {
                self.now = stretch.until;
            }
        }
        left.is_zero()
    }
}

/// The books of a call.
struct Books<'a> {
    device: &'a Device,
    call: Call,
    /// Of each line, interrupts taken (latch) or samples read (ring).
    lines: Vec<u64>,
    lost: u64,
    /// More than this is too much.
    most: u64,
    /// It came round to a state it was in: nothing more can happen.
    round: bool,
    /// For each place in the processor's repetition, the lines as they were when the driver last
    /// woke there from sleep with nothing lost so far: what they had taken, less what had come.
    seen: Vec<Option<Vec<u64>>>,
}

impl Books<'_> {
    fn interrupts_by(&self, now: Instant) -> u64 {
        now.saturating_since(self.call.start) / self.device.period
    }

    fn samples_by(&self, now: Instant) -> u64 {
        self.device.position(now.saturating_since(self.call.start))
    }

    /// The driver turns to a line; the samples that it takes.
    fn take_samples(&mut self, line: usize, now: Instant) -> u64 {
        let batch = u64::from(self.device.batch);
        let taken = self.lines[line];
        match self.device.card {
            Card::Latch => {
                let come = self.interrupts_by(now);
                let missed = come.saturating_sub(taken);
                self.lines[line] = come;
                self.lost += missed.saturating_sub(1) * batch;
                missed.min(1) * batch
            }
            Card::Ring(capacity) => {
                let pending = self.samples_by(now) - taken;
                let shown = pending % u64::from(capacity);
                let piece = shown.min(u64::from(self.device.piece));
                self.lines[line] = taken + pending - shown + piece;
                self.lost += pending - shown;
                piece
            }
        }
    }

    /// The answer to `samples` of a line is written: it must not have been due before.
    fn answer_samples(&mut self, line: usize, samples: u64, now: Instant) {
        if let Card::Ring(capacity) = self.device.card {
            // Those are played in the slots that they came from, one ring later.
            let first = self.lines[line] - samples + u64::from(capacity);
            self.lost += self.samples_by(now).saturating_sub(first).min(samples);
        }
    }

    /// What nobody has taken by the end, and can never be.
    fn close(&mut self) {
        let end = self.call.start + self.device.period * self.call.interrupts;
        let (come, position) = (self.call.interrupts, self.samples_by(end));
        for &taken in &self.lines {
            self.lost += match self.device.card {
                Card::Latch => {
                    come.saturating_sub(taken).saturating_sub(1) * u64::from(self.device.batch)
                }
                Card::Ring(capacity) => {
                    let pending = position.saturating_sub(taken);
                    pending - pending % u64::from(capacity)
                }
            };
        }
    }

    /// Whether the driver, waking at interrupt `pass`, was here before in the same state.
    fn comes_round(&mut self, pass: u64, now: Instant) -> bool {
        let Some(repeats) = self.call.repeats_after.filter(|repeats| *repeats > 0) else {
            return false;
        };
        if self.lost > 0 {
            return false;
        }
        let come = match self.device.card {
            Card::Latch => self.interrupts_by(now),
            Card::Ring(_) => self.samples_by(now),
        };
        let state: Vec<u64> = self.lines.iter().map(|taken| come - taken).collect();
        let place = (pass % repeats) as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, None);
        }
        let before = self.seen[place].replace(state);
        self.round = before == self.seen[place];
        self.round
    }
}

impl Lines for Books<'_> {
    fn take(&mut self, line: usize, now: Instant) -> u64 {
        self.take_samples(line, now)
    }

    fn answer(&mut self, line: usize, samples: u64, now: Instant) {
        self.answer_samples(line, samples, now);
    }

    fn is_over(&mut self, pass: u64, slept: bool, now: Instant) -> bool {
        self.lost > self.most || (slept && self.comes_round(pass, now))
    }
}

/// Drives `lines` of `device`, whose card starts at `start`, on `processor` for so many interrupts.
/// A thread that slept is there `latency()` after its interrupt. Returns when it stopped, and
/// whether it served all interrupts.
pub fn drive<P: Processor>(
    device: &Device,
    processor: &mut P,
    (start, interrupts): (Instant, u64),
    mut latency: impl FnMut() -> Duration,
    lines: &mut impl Lines,
) -> (Instant, bool) {
    let end = start + device.period * interrupts;
    let mut thread = Thread { processor, now: start, end };
    let work = |samples: u64| -> Service {
        let nanos = u128::from(device.work.as_nanos()) * u128::from(samples);
        Service::from_nanos(nanos.div_ceil(u128::from(device.batch)) as u64)
    };
    for pass in 1..=interrupts {
        let signalled = start + device.period * pass;
        let sleeps = thread.now < signalled;
        if sleeps {
            thread.sleep_until(signalled);
            thread.now = thread.now.saturating_add(latency());
        }
        if lines.is_over(pass, sleeps, thread.now) {
            return (thread.now, false);
        }
        for line in 0..device.lines as usize {
            if !thread.wait() {
                return (end, false);
            }
            let samples = lines.take(line, thread.now);
            if !thread.work(work(samples)) {
                return (end, false);
            }
            lines.answer(line, samples, thread.now);
        }
    }
    (thread.now, true)
}

/// Simulates `call` of `device`, its driver on `processor`.
///
/// Cost: some tens of nanoseconds for each interrupt and line.
pub fn run<P: Processor>(device: &Device, processor: &mut P, call: Call) -> Outcome {
    let of = call.interrupts * u64::from(device.batch) * u64::from(device.lines);
    let most = (u128::from(of) * u128::from(call.give_up_ppm) / 1_000_000) as u64;
    let lines = vec![0; device.lines as usize];
    let mut books = Books { device, call, lines, lost: 0, most, round: false, seen: Vec::new() };
    let span = (call.start, call.interrupts);
    drive(device, processor, span, || Duration::ZERO, &mut books);
    if !books.round && books.lost <= most {
        books.close();
    }
    Outcome { lost: books.lost, of, gave_up: books.lost > most }
}

#[cfg(test)]
mod tests;
