//! A jitter buffer: samples go in when packets come and go out at the pace of the local clock.
//!
//! Its ring holds a sample for each of the next [`RING`] timestamps. The cursor is the timestamp of
//! the sample to be played next. Only playing a sample advances it, so a modem sees a constant
//! delay. The stream is set up so that its first packet plays after the `delay` given to
//! [`JitterBuffer::new`].
//!
//! | a packet's position | effect |
//! |---|---|
//! | within the ring | stored; a position already filled stays as it is |
//! | before the cursor | late: counted; when [`LATE_LIMIT`] in a row are late, the delay is set up again |
//! | beyond the ring | a jump: if the next packet follows it, the delay is set up again |
//!
//! Setting up the delay again is a *slip*: the modem behind the buffer sees a jump, so it is
//! counted. Two clocks that differ by 50 ppm, with 60 ms of delay, slip every 20 minutes.
//!
//! # Concealment
//! A missing sample is replaced by the one played a [`PATTERN`] before, fading to nothing over
//! [`FADE`] samples. No modem decodes that, but it disturbs the carrier detector and the gain
//! control less than sudden silence.

/// Samples that can wait: 256 ms.
pub const RING: usize = 2_048;

/// Consecutive late packets before the delay is set up again: a quarter of a second of 20 ms
/// packets.
pub const LATE_LIMIT: u32 = 12;

/// Samples that concealment repeats: 20 ms.
pub const PATTERN: usize = 160;

/// Samples of concealment before silence: 60 ms.
pub const FADE: u32 = 480;

/// The counters of a buffer, in samples and packets since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitterStats {
    /// Samples played as they were sent.
    pub real: u64,
    /// Samples played in place of samples that were lost or came too late.
    pub concealed: u64,
    /// Samples of silence before the stream began to play.
    pub waiting: u64,
    /// Packets of which every sample came too late.
    pub late: u64,
    /// Times that the delay was set up again.
    pub slips: u64,
    /// Samples that came twice.
    pub duplicates: u64,
}

/// The jitter buffer. Allocates nothing.
#[derive(Clone, Debug)]
pub struct JitterBuffer {
    samples: [i16; RING],
    filled: [bool; RING],
    delay: u32,
    /// The next sample to be played; its low 32 bits are the timestamp. `None` before the first
    /// packet.
    cursor: Option<u64>,
    /// Samples of silence to be played before the cursor moves.
    waiting: u32,
    late_in_a_row: u32,
    /// The timestamp that would follow a jump.
    confirms_jump: Option<u32>,
    history: [i16; PATTERN],
    at: usize,
    concealing: u32,
    stats: JitterStats,
}

impl JitterBuffer {
    /// Creates a buffer that plays a packet `delay` samples after it came, if it took as long on
    /// the way as the first. `delay` is limited to half of [`RING`].
    pub fn new(delay: u32) -> Self {
        Self {
            samples: [0; RING],
            filled: [false; RING],
            delay: delay.min(RING as u32 / 2),
            cursor: None,
            waiting: 0,
            late_in_a_row: 0,
            confirms_jump: None,
            history: [0; PATTERN],
            at: 0,
            concealing: FADE,
            stats: JitterStats::default(),
        }
    }

    /// Takes the samples of a packet; only the first [`RING`] / 2 count.
    pub fn put(&mut self, timestamp: u32, samples: impl ExactSizeIterator<Item = i16>) {
        let len = samples.len().min(RING / 2) as u32;
        if len == 0 {
            return;
        }
        let cursor = match self.cursor {
            Some(cursor) => cursor,
            None => self.anchor(timestamp),
        };
        let ahead = timestamp.wrapping_sub(cursor as u32) as i32;
        let end = ahead.saturating_add(len as i32);
        let (cursor, ahead) = if end > RING as i32 || ahead < -(RING as i32) * 16 {
            if self.confirms_jump != Some(timestamp) {
                self.confirms_jump = Some(timestamp.wrapping_add(len));
                return;
            }
            (self.slip(timestamp), 0)
        } else if end <= 0 {
            self.stats.late += 1;
            self.late_in_a_row += 1;
            if self.late_in_a_row < LATE_LIMIT {
                return;
            }
            (self.slip(timestamp), 0)
        } else {
            (cursor, ahead)
        };
        self.late_in_a_row = 0;
        self.confirms_jump = None;
        for (offset, sample) in (ahead..).zip(samples.take(len as usize)) {
            let Ok(offset) = u64::try_from(offset) else { continue };
            let place = ((cursor + offset) % RING as u64) as usize;
            if self.filled[place] {
                self.stats.duplicates += 1;
            } else {
                (self.filled[place], self.samples[place]) = (true, sample);
            }
        }
    }

    /// Fills `into` with the next samples.
    pub fn play(&mut self, into: &mut [i16]) {
        for slot in into {
            *slot = self.next_sample();
        }
    }

    /// Sets up the delay again at the next packet, as at the first: another stream begins.
    pub fn restart(&mut self) {
        if self.cursor.take().is_some() {
            self.stats.slips += 1;
        }
        self.filled = [false; RING];
    }

    /// Returns the counters.
    pub fn stats(&self) -> JitterStats {
        self.stats
    }

    /// Returns the number of samples from the cursor to the last one present.
    pub fn level(&self) -> usize {
        let Some(cursor) = self.cursor else { return 0 };
        let place = |offset: usize| ((cursor + offset as u64) % RING as u64) as usize;
        (0..RING).rev().find(|&offset| self.filled[place(offset)]).map_or(0, |offset| offset + 1)
    }

    fn next_sample(&mut self) -> i16 {
        let Some(cursor) = self.cursor.filter(|_| self.waiting == 0) else {
            self.waiting = self.waiting.saturating_sub(1);
            self.stats.waiting += 1;
            return 0;
        };
        self.cursor = Some(cursor + 1);
        let place = (cursor % RING as u64) as usize;
        let sample = if std::mem::take(&mut self.filled[place]) {
            self.concealing = 0;
            self.stats.real += 1;
            self.samples[place]
        } else {
            self.concealing = (self.concealing + 1).min(FADE);
            self.stats.concealed += 1;
            // The history keeps the samples that were sent, so that a long gap does not fade twice.
            let level = i32::from(self.history[self.at]) * (FADE - self.concealing) as i32;
            self.at = (self.at + 1) % PATTERN;
            return (level / FADE as i32) as i16;
        };
        self.history[self.at] = sample;
        self.at = (self.at + 1) % PATTERN;
        sample
    }

    fn anchor(&mut self, timestamp: u32) -> u64 {
        self.waiting = self.delay;
        self.late_in_a_row = 0;
        self.confirms_jump = None;
        let cursor = u64::from(timestamp);
        self.cursor = Some(cursor);
        cursor
    }

    fn slip(&mut self, timestamp: u32) -> u64 {
        self.restart();
        self.anchor(timestamp)
    }
}
