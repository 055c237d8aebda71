//! The emulated card: two rings of [`RING`] samples that only the clock advances.
//!
//! At sample `p` the card plays `tx[p mod 512]` onto the line and stores the sample from the line
//! in `rx[p mod 512]`, whether or not the driver came (Rialto/NT, §3.1: the DMA goes round its
//! buffers by itself). The position is `⌊(now − start)·rate·(1 + ppm·10⁻⁶)⌋`, never a count of
//! wake-ups, so lateness costs samples exactly as it would on the wire. The line is computed
//! lazily, up to that position, when the driver next touches the card.
//!
//! # The driver's side
//! The driver reads the pending samples and writes as many, into the slots just read, which will be
//! played one ring later. With `r` the read cursor (samples taken) and `w` the write cursor
//! (samples given, beginning with a ring of silence):
//!
//! > **Invariant.** `w = r + 512` between a write and the next read; `w = r + 512 − owed` between
//! > a read of `owed` samples and its write.
//!
//! The card tells the driver only its position modulo 512, so 512 pending samples look like none:
//! reaching 512 "wraps around to zero" and data is lost.
//!
//! | position − r at a read | read | lost | why |
//! |---|---|---|---|
//! | 0 … 511 | all | 0 | slot `r + 512` is not yet played: sending is in time too, if written by then |
//! | 512·k + m, k ≥ 1, m < 512 | the last m | 512·k | the count wrapped k times |
//!
//! A transmitted sample is *stale* if the line receives the content that its slot had one ring
//! earlier. Stale are the samples that a wrap skips, those that were read for but never written,
//! and those written after their play time. They are counted when the driver next reads or writes.

use punctual_model::{Duration, Instant};

/// Samples a second: the only rate of SpanDSP.
pub const SAMPLE_RATE: u32 = 8_000;

/// The period of the driver of a connected modem (Rialto/NT, §3: 12.5 ms).
pub const PERIOD: Duration = Duration::from_micros(12_500);

/// Samples that a card plays, and records, in one [`PERIOD`].
pub const SAMPLES_PER_PERIOD: usize = 100;

/// Samples in each of the two rings (Rialto/NT, §3.1): 64 ms.
pub const RING: usize = 512;
const RING_LEN: u64 = RING as u64;

/// The line that a card is plugged into.
pub trait Wire {
    /// Passes one sample each way: takes the sample that the card plays and returns the sample that
    /// it records.
    fn exchange(&mut self, played: i16) -> i16;
}

/// The damage that lateness did to a card since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CardStats {
    /// Recorded samples that no driver will ever read.
    pub samples_lost: u64,
    /// Reads at which the pending count had wrapped.
    pub overruns: u64,
    /// Samples for which the line received, or will receive, the ring's old content.
    pub stale_samples: u64,
    /// The largest number of samples that were really pending when the driver came.
    pub most_pending: u64,
}

impl CardStats {
    /// Combines the statistics of two cards: adds the counts and takes the larger `most_pending`.
    pub fn merged(self, other: Self) -> Self {
        Self {
            samples_lost: self.samples_lost + other.samples_lost,
            overruns: self.overruns + other.overruns,
            stale_samples: self.stale_samples + other.stale_samples,
            most_pending: self.most_pending.max(other.most_pending),
        }
    }
}

/// The clock that decides at what time a card takes each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleClock {
    start: Instant,
    ppm: i16,
}

impl SampleClock {
    /// Creates a clock whose sample 0 begins at `start` and which runs fast by `ppm` parts per
    /// million.
    pub fn new(start: Instant, ppm: i16) -> Self {
        Self { start, ppm }
    }

    /// Returns the number of samples completed at `now`: `⌊(now − start)·rate·(1 + ppm·10⁻⁶)⌋`, or
    /// zero before `start`.
    pub fn position(&self, now: Instant) -> u64 {
        const MILLION: i32 = 1_000_000;
        let elapsed = u128::from(now.saturating_since(self.start).as_nanos());
        // At most 2⁶⁴ · 2¹³ · 2²⁰ < 2¹²⁸; and ppm > −10⁶ keeps the factor positive.
        let factor = u128::from((MILLION + i32::from(self.ppm)).unsigned_abs());
        let second = u128::from(Duration::from_secs(1).as_nanos());
        let position = elapsed * u128::from(SAMPLE_RATE) * factor / (second * MILLION as u128);
        u64::try_from(position).expect("584 years of nanoseconds hold fewer than 2^64 samples")
    }
}

/// A card and its rings, plugged into the line `W`.
pub struct Card<W> {
    clock: SampleClock,
    wire: W,
    tx: [i16; RING],
    rx: [i16; RING],
    /// Samples exchanged with the line.
    played: u64,
    read: u64,
    written: u64,
    stats: CardStats,
}

impl<W: Wire> Card<W> {
    /// Creates a card with both rings silent, plugged into `wire`.
    pub fn new(clock: SampleClock, wire: W) -> Self {
        Self {
            clock,
            wire,
            tx: [0; RING],
            rx: [0; RING],
            played: 0,
            read: 0,
            written: RING_LEN,
            stats: CardStats::default(),
        }
    }

    /// Reads the samples that the pending count shows at `now` into the front of `into` and returns
    /// their number. The result is 0 both if no sample and if exactly one or several rings are
    /// pending.
    pub fn read(&mut self, now: Instant, into: &mut [i16; RING]) -> usize {
        self.play_to(now);
        self.skip_unwritten(self.owed());
        let pending = self.played - self.read;
        self.stats.most_pending = self.stats.most_pending.max(pending);
        let shown = pending % RING_LEN;
        let wrapped = pending - shown;
        if wrapped > 0 {
            self.stats.overruns += 1;
            self.stats.samples_lost += wrapped;
            self.read += wrapped;
            self.skip_unwritten(wrapped);
        }
        for (slot, sample) in into.iter_mut().zip(self.read..self.played) {
            *slot = self.rx[ring_slot(sample)];
        }
        self.read = self.played;
        shown as usize
    }

    /// Writes the answer to the last read at `now`: as many samples as that read returned. Samples
    /// whose play time has passed are discarded and counted as stale.
    ///
    /// # Panics
    /// Panics if there are more samples than the last read returned.
    pub fn write(&mut self, now: Instant, samples: &[i16]) {
        assert!(samples.len() as u64 <= self.owed(), "more samples written than were read");
        self.play_to(now);
        for &sample in samples {
            if self.written < self.played {
                self.stats.stale_samples += 1;
            } else {
                self.tx[ring_slot(self.written)] = sample;
            }
            self.written += 1;
        }
    }

    /// Returns the number of samples that really wait to be read at `now`; the hardware shows this
    /// modulo [`RING`].
    pub fn pending(&self, now: Instant) -> u64 {
        self.clock.position(now).max(self.played) - self.read
    }

    /// Returns the number of samples taken or lost since the start: the line time that the driver
    /// has seen.
    pub fn position_read(&self) -> u64 {
        self.read
    }

    /// Returns the damage that lateness did so far.
    pub fn stats(&self) -> CardStats {
        self.stats
    }

    /// Returns the line that the card is plugged into.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// Lets the card and the line run up to `now`. An earlier `now` changes nothing.
    fn play_to(&mut self, now: Instant) {
        let position = self.clock.position(now);
        while self.played < position {
            let slot = ring_slot(self.played);
            self.rx[slot] = self.wire.exchange(self.tx[slot]);
            self.played += 1;
        }
    }

    /// Returns the number of samples that were read and have no answer yet.
    fn owed(&self) -> u64 {
        self.read + RING_LEN - self.written
    }

    /// Skips the next `samples`, which the driver will never write: their slots keep their old
    /// content.
    fn skip_unwritten(&mut self, samples: u64) {
        self.stats.stale_samples += samples;
        self.written += samples;
    }
}

/// Returns the slot of a sample in a ring.
fn ring_slot(sample: u64) -> usize {
    (sample % RING_LEN) as usize
}
