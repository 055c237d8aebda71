//! One call: interrupts come, the driver serves its lines when it has the processor, and the card's
//! losses are counted.
//!
//! The driver is the study's: each interrupt signals its thread once, and for each signal it serves
//! all lines in order. A line's samples are taken when its service begins; processor time is
//! charged by the sample, as [`punctual_modem::demo::replay`] does. [`drive`] is that driver over
//! any [`Lines`], [`run`] over lines that are only counted.

#[cfg(test)]
mod tests;

use punctual_analysis::supply::PeriodicDemand;
use punctual_model::{Duration, Instant, Service};
use punctual_sim::processor::Processor;

/// Slots in each ring of the study's card (§3.1).
pub const RING: u32 = 512;

/// A device, and the work that its driver must do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The time from one interrupt to the next.
    pub period: Duration,
    /// Samples of one line that come in a period, evenly.
    pub batch: u32,
    /// Processor time for one line's batch.
    pub work: Service,
    /// The largest number of samples taken from a ring for one interrupt. The study's driver called
    /// its code once for each interrupt, so a batch; [`punctual_modem::Bank`] takes all pending
    /// samples.
    pub piece: u32,
    /// Lines, served one after the other.
    pub lines: u32,
    /// The card's treatment of samples that wait.
    pub card: Card,
}

/// A card's treatment of samples that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// They wait in a ring of this size, and the next service finds all of them. When a ring's
    /// length is pending, the count wraps to zero and they are lost (soft modem study, §3.1). The
    /// answer to them must be written before its slots are played, a ring later.
    Ring(u32),
    /// A batch not begun before the next interrupt is lost, as by the study's driver ("the code
    /// appears to sometimes not successfully process an old interrupt's work once a new one has
    /// occurred", §6.6).
    Latch,
}

impl Device {
    /// Returns the study's modem: 1.84 ms every 12.5 ms (§6.6), 90 samples at 7.2 kHz.
    pub fn of_the_study(card: Card) -> Self {
        Self {
            period: Duration::from_micros(12_500),
            batch: 90,
            work: Service::from_micros(1_840),
            piece: 90,
            lines: 1,
            card,
        }
    }

    /// Returns the processor time for all lines in each period.
    pub fn work_a_period(&self) -> Service {
        self.work * u64::from(self.lines)
    }

    /// Returns the demand of the device for the analysis, or `None` if it needs more than a whole
    /// CPU, or if its ring holds no more than a batch.
    ///
    /// A ring requires each batch to be done before the ring is full, which is enough if each is
    /// answered before the next is taken. A driver that takes all waiting samples at once answers
    /// the oldest of them later. A latch with one line requires gaps shorter than the period. With
    /// more lines, the last one is begun only after the work of all others, so each period's work
    /// is required within the period: this is sufficient, and exceeds the need by one line's work.
    pub fn demand(&self) -> Option<PeriodicDemand> {
        let demand = PeriodicDemand::new(self.work_a_period(), self.period).ok()?;
        match self.card {
            Card::Ring(capacity) => {
                // Samples a second, rounded up: the ring fills no faster than that.
                let second = Duration::from_secs(1).as_nanos();
                let rate = (u64::from(self.batch) * second).div_ceil(self.period.as_nanos());
                demand.in_ring(self.batch, capacity, u32::try_from(rate).ok()?)
            }
            Card::Latch if self.lines == 1 => Some(demand.latched()),
            Card::Latch => Some(demand.due_within(self.period)),
        }
    }

    /// Returns the number of samples of a line that have come `since` after the card started.
    fn position(&self, since: Duration) -> u64 {
        let samples = u128::from(since.as_nanos()) * u128::from(self.batch);
        // No more samples than nanoseconds, unless a batch has more samples than its period has
        // nanoseconds.
        (samples / u128::from(self.period.as_nanos())) as u64
    }
}

/// A call to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The start of the card; its first interrupt comes a period later.
    pub start: Instant,
    /// The number of interrupts.
    pub interrupts: u64,
    /// The number of lost samples in a million above which the call fails and ends.
    pub give_up_ppm: u64,
    /// The number of interrupts after which the processor's service repeats, whatever the driver
    /// does; `None` if unknown. A call that returns to an earlier state without a loss never loses
    /// a sample, and ends there.
    pub repeats_after: Option<u64>,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Samples lost, or answered too late, of all lines.
    pub lost: u64,
    /// Samples that came on all lines in the whole call.
    pub of: u64,
    /// True if the call was ended because too much was lost; `lost` is then the loss until that
    /// time.
    pub gave_up: bool,
}

impl Outcome {
    /// Returns true if no sample was lost.
    pub fn is_intact(&self) -> bool {
        self.lost == 0
    }

    /// Returns the part lost, in millionths, rounded up.
    pub fn lost_ppm(&self) -> u64 {
        (u128::from(self.lost) * 1_000_000).div_ceil(u128::from(self.of.max(1))) as u64
    }
}

/// The lines that a driver serves.
pub trait Lines {
    /// Starts the service of `line` at `now` and returns the number of samples taken, which is what
    /// its work is charged for.
    fn take(&mut self, line: usize, now: Instant) -> u64;

    /// Completes the work for those samples: their answer is written.
    fn answer(&mut self, line: usize, samples: u64, now: Instant);

    /// Returns true to stop before interrupt `pass` is served; `slept` is true if the driver had no
    /// work left before it.
    fn is_over(&mut self, pass: u64, slept: bool, now: Instant) -> bool;
}

/// A thread on a processor in virtual time.
struct Thread<'a, P> {
    processor: &'a mut P,
    now: Instant,
    end: Instant,
}

impl<P: Processor> Thread<'_, P> {
    /// Sleeps until `until`, at least.
    fn sleep_until(&mut self, until: Instant) {
        // The processor must know of the sleep: a reservation may begin anew at the wake-up.
        let _ = self.processor.at(self.now, false);
        self.now = self.now.max(until);
    }

    /// Waits for the processor. Returns true if it comes before the end.
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

    /// Works. Returns true if that was done before the end.
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

/// The counters of a call.
struct Counters<'a> {
    device: &'a Device,
    call: Call,
    /// For each line, the interrupts taken (latch) or the samples read (ring).
    lines: Vec<u64>,
    lost: u64,
    /// The largest loss before the call ends.
    most: u64,
    /// True if the call returned to an earlier state: its result is known.
    round: bool,
    /// For each place in the processor's repetition, the backlog of each line when the driver last
    /// woke there from sleep without a loss so far.
    seen: Vec<Option<Vec<u64>>>,
}

impl Counters<'_> {
    fn interrupts_by(&self, now: Instant) -> u64 {
        now.saturating_since(self.call.start) / self.device.period
    }

    fn samples_by(&self, now: Instant) -> u64 {
        self.device.position(now.saturating_since(self.call.start))
    }

    /// Starts the service of a line and returns the number of samples taken.
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

    /// Writes the answer to `samples` of a line, and counts the samples for which it is too late.
    fn answer_samples(&mut self, line: usize, samples: u64, now: Instant) {
        if let Card::Ring(capacity) = self.device.card {
            // They are played in the slots they came from, one ring later.
            let first = self.lines[line] - samples + u64::from(capacity);
            self.lost += self.samples_by(now).saturating_sub(first).min(samples);
        }
    }

    /// Counts the samples not taken by the end that are lost by then.
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

    /// Returns true if the driver, waking at interrupt `pass`, was here before in the same state.
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

impl Lines for Counters<'_> {
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

/// Drives `lines` of `device`, whose card starts at `start`, on `processor` for a number of
/// interrupts. A thread that slept starts `latency()` after its interrupt. Returns the time at
/// which it stopped, and whether it served all interrupts.
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

/// Simulates `call` of `device`, with its driver on `processor`.
///
/// Cost: some tens of nanoseconds for each interrupt and line.
pub fn run<P: Processor>(device: &Device, processor: &mut P, call: Call) -> Outcome {
    let of = call.interrupts * u64::from(device.batch) * u64::from(device.lines);
    let most = (u128::from(of) * u128::from(call.give_up_ppm) / 1_000_000) as u64;
    let lines = vec![0; device.lines as usize];
    let mut counters =
        Counters { device, call, lines, lost: 0, most, round: false, seen: Vec::new() };
    let span = (call.start, call.interrupts);
    drive(device, processor, span, || Duration::ZERO, &mut counters);
    if !counters.round && counters.lost <= most {
        counters.close();
    }
    Outcome { lost: counters.lost, of, gave_up: counters.lost > most }
}
