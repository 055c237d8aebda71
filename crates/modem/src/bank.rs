//! The driver: a bank of lines served in turn; one line's service is one PDU.
//!
//! Every [`crate::PERIOD`] each line has some 100 samples pending. A job serves all lines in a
//! fixed order. Line [`FILE_LINE`] carries the file towards the driver's end; every other line is a
//! full call of its own (card, line, far modem, and the modem at the driver's end), carrying
//! pseudo-random frames both ways, so that the load is real.
//!
//! The order of calls is the [`Handler`]'s: `iterate` serves the next lines, `commit` writes their
//! answers to the cards. A driver that skips a commit loses those answers (they count as stale).

use std::ops::Range;
use std::sync::Arc;

use punctual_model::{Handler, Instant};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::SAMPLE_RATE;
use crate::card::{Card, CardStats, RING, SampleClock};
use crate::line::{Line, LineQuality};
use crate::modem::{Carrier, Modem, NoModem, Role};
use crate::transfer::{FileSender, RandomFrames, Receiver, Source};

/// The line that carries the file: the first to be served in each job.
pub const FILE_LINE: usize = 0;

/// A line still delivers if a good frame came within the last two seconds of line time: a full
/// line brings four a second.
const DELIVERING: u64 = 2 * SAMPLE_RATE as u64;

/// The parameters of a bank.
#[derive(Clone, Debug)]
pub struct BankConfig {
    /// The number of lines, which is also that of the PDUs in a batch. At least one.
    pub lines: u32,
    /// The file that the far end of [`FILE_LINE`] sends: at least one byte, fewer than 2³².
    pub file: Arc<[u8]>,
    /// The seed of the noise of all lines and of the traffic of all but [`FILE_LINE`].
    pub seed: u64,
    /// The time at which every card's sample 0 and all calls begin.
    pub start: Instant,
    /// The loss and noise of every line.
    pub quality: LineQuality,
    /// The deviation of the cards' sample clocks, in parts per million.
    pub ppm: i16,
}

impl BankConfig {
    /// Returns the parameters of a bank on ordinary lines with exact clocks.
    pub fn new(lines: u32, file: Arc<[u8]>, seed: u64, start: Instant) -> Self {
        Self { lines, file, seed, start, quality: LineQuality::default(), ppm: 0 }
    }
}

/// The reason why a bank cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BankError {
    /// There is no line to serve.
    #[error("the bank has no lines; it needs at least 1")]
    NoLines,
    /// There is no byte to transfer.
    #[error("the file is empty; it needs at least 1 byte")]
    EmptyFile,
    /// The file is longer than the 32-bit offsets of frames allow.
    #[error("the file has {len} bytes; a transfer takes at most 4294967295")]
    FileTooLong {
        /// Bytes in the file.
        len: usize,
    },
    /// The C library could not create another modem.
    #[error("line {line} of {lines}: out of memory for another modem")]
    NoModem {
        /// The line that could not be created.
        line: u32,
        /// The number of lines requested.
        lines: u32,
    },
}

/// The statistics of a bank since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankStats {
    /// Lines in the bank.
    pub lines: u32,
    /// Bytes in the file.
    pub file_bytes: usize,
    /// The statistics of the line with the file.
    pub file_line: LineStats,
    /// The damage that lateness did to all cards.
    pub cards: CardStats,
    /// Lines that still deliver good frames (see [`LineStats::delivering`]).
    pub lines_delivering: u32,
}

/// A bank of lines and its driver. Allocates when created and never while it serves.
pub struct Bank {
    calls: Vec<Call>,
    file: Arc<[u8]>,
    /// The line to serve next.
    next: usize,
    /// The lines served by the last `iterate`, whose answers `commit` writes.
    uncommitted: Range<usize>,
    /// Samples that the last `iterate` read on all its lines.
    samples_served: usize,
}

impl Bank {
    /// Creates the bank and places all calls. No sample moves before `config.start`.
    pub fn new(config: BankConfig) -> Result<Self, BankError> {
        let BankConfig { lines, file, seed, start, quality, ppm } = config;
        if lines == 0 {
            return Err(BankError::NoLines);
        }
        if file.is_empty() {
            return Err(BankError::EmptyFile);
        }
        if u32::try_from(file.len()).is_err() {
            return Err(BankError::FileTooLong { len: file.len() });
        }
        let clock = SampleClock::new(start, ppm);
        let mut seeds = ChaCha8Rng::seed_from_u64(seed);
        let call = |line: u32| {
            let noise_seed = seeds.next_u64();
            let (far_sends, near_sends, near_receives) = if line as usize == FILE_LINE {
                let far = Source::File(FileSender::new(Arc::clone(&file)));
                (far, Source::Flags, Receiver::of_file(file.len()))
            } else {
                let mut random = || Source::Random(Box::new(RandomFrames::new(seeds.next_u64())));
                (random(), random(), Receiver::counting())
            };
            Call::new(CallSpec { clock, quality, noise_seed, far_sends, near_sends, near_receives })
                .map_err(|NoModem| BankError::NoModem { line, lines })
        };
        let calls = (0..lines).map(call).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { calls, file, next: 0, uncommitted: 0..0, samples_served: 0 })
    }

    /// Returns the number of lines: the PDUs of a whole job.
    pub fn lines(&self) -> u32 {
        self.calls.len() as u32
    }

    /// Returns the number of samples that the last `iterate` read on all its lines. A cost model
    /// can charge processor time in proportion to it.
    pub fn samples_served(&self) -> usize {
        self.samples_served
    }

    /// Returns the number of bytes of the file delivered so far. Cheap enough for a progress line
    /// between two jobs.
    pub fn bytes_delivered(&self) -> usize {
        self.calls[FILE_LINE].received().delivered()
    }

    /// Returns the file as it arrived; missing parts are zeros.
    pub fn file_received(&self) -> &[u8] {
        self.calls[FILE_LINE].received().bytes()
    }

    /// Returns the statistics of one line at `now`, or `None` if there is no such line.
    pub fn line_stats(&self, line: usize, now: Instant) -> Option<LineStats> {
        let expected: &[u8] = if line == FILE_LINE { &self.file } else { &[] };
        self.calls.get(line).map(|call| call.stats(now, expected))
    }

    /// Returns the statistics of the bank at `now`. Reads the whole file, so it is not for a hot
    /// path.
    pub fn stats(&self, now: Instant) -> BankStats {
        let file_line = self.calls[FILE_LINE].stats(now, &self.file);
        let others = self.calls.iter().skip(FILE_LINE + 1);
        let delivering = others.filter(|call| call.stats(now, &[]).delivering).count() as u32;
        BankStats {
            lines: self.lines(),
            file_bytes: self.file.len(),
            file_line,
            cards: self
                .calls
                .iter()
                .map(Call::card_stats)
                .fold(CardStats::default(), CardStats::merged),
            lines_delivering: delivering + u32::from(file_line.delivering),
        }
    }
}

impl Handler for Bank {
    /// Serves the next lines, up to `pdus` of them and never past the last, where the job ends and
    /// the cursor returns to line 0. The next job continues one that was cut short.
    ///
    /// Returns zero if no sample waits on the next line: all lines have been served at this very
    /// instant.
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        let from = self.next;
        let to = self.calls.len().min(from.saturating_add(pdus as usize));
        let mut served = 0;
        self.samples_served = 0;
        for call in &mut self.calls[from..to] {
            if call.pending(now) == 0 {
                break;
            }
            self.samples_served += call.serve(now);
            served += 1;
        }
        self.uncommitted = from..from + served;
        self.next = (from + served) % self.calls.len();
        served as u32
    }

    fn commit(&mut self, now: Instant) {
        for call in &mut self.calls[std::mem::take(&mut self.uncommitted)] {
            call.answer(now);
        }
    }
}

/// The counters and the state of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStats {
    /// The last report of the modem at the driver's end. It stays `Connected` on garbage.
    pub carrier: Carrier,
    /// Bytes of the file that the far end has put on the line.
    pub bytes_sent: usize,
    /// Bytes of the file that have arrived; each position counts once.
    pub bytes_delivered: usize,
    /// Bytes that have arrived and equal the original.
    pub bytes_intact: usize,
    /// Frames received with a correct CRC.
    pub good_frames: u64,
    /// Frames received with a wrong CRC.
    pub bad_frames: u64,
    /// Frames with a correct CRC that the far end received.
    pub far_good_frames: u64,
    /// True if a good frame came in the last two seconds, or if the whole file has arrived.
    pub delivering: bool,
    /// The damage that lateness did to the card.
    pub card: CardStats,
}

/// A call in progress. The driver serves it, then writes its answer.
struct Call {
    card: Card<Line>,
    near: Modem,
    /// The answer to the samples last read: the first `answered` samples are valid.
    answer: [i16; RING],
    answered: usize,
    /// The number of good frames at the last service, and the sample at which the count last rose.
    good_frames: u64,
    last_good: Option<u64>,
}

/// The parts of a call.
struct CallSpec {
    clock: SampleClock,
    quality: LineQuality,
    noise_seed: u64,
    far_sends: Source,
    near_sends: Source,
    near_receives: Receiver,
}

impl Call {
    fn new(spec: CallSpec) -> Result<Self, NoModem> {
        let line = Line::new(spec.quality, spec.far_sends, spec.noise_seed)?;
        Ok(Self {
            card: Card::new(spec.clock, line),
            near: Modem::new(Role::Calling, spec.near_sends, spec.near_receives)?,
            answer: [0; RING],
            answered: 0,
            good_frames: 0,
            last_good: None,
        })
    }

    /// Reads the samples that the card shows at `now`, demodulates them and prepares as many
    /// samples to send. Returns their number.
    fn serve(&mut self, now: Instant) -> usize {
        // The buffer holds the received samples first and the answer afterwards.
        let count = self.card.read(now, &mut self.answer);
        self.near.receive_samples(&self.answer[..count]);
        self.near.transmit_samples(&mut self.answer[..count]);
        self.answered = count;
        let good_frames = self.near.received().good_frames();
        if good_frames > self.good_frames {
            self.good_frames = good_frames;
            self.last_good = Some(self.card.position_read());
        }
        count
    }

    /// Writes the answer to the last service, at `now`.
    fn answer(&mut self, now: Instant) {
        self.card.write(now, &self.answer[..self.answered]);
        self.answered = 0;
    }

    /// Returns the number of samples that really wait at `now`.
    fn pending(&self, now: Instant) -> u64 {
        self.card.pending(now)
    }

    /// Returns the receiver at the driver's end.
    fn received(&self) -> &Receiver {
        self.near.received()
    }

    fn card_stats(&self) -> CardStats {
        self.card.stats()
    }

    /// Returns the statistics of this line at `now`. `file` is the file that the line should have
    /// delivered, or empty.
    fn stats(&self, now: Instant, file: &[u8]) -> LineStats {
        let received = self.received();
        let far = self.card.wire().far();
        let position = self.card.position_read() + self.card.pending(now);
        let recent = self.last_good.is_some_and(|last| position - last <= DELIVERING);
        let whole_file_came = !file.is_empty() && received.delivered() == file.len();
        LineStats {
            carrier: self.near.carrier(),
            bytes_sent: far.source().file_bytes_sent(),
            bytes_delivered: received.delivered(),
            bytes_intact: received.intact(file),
            good_frames: received.good_frames(),
            bad_frames: self.near.bad_frames(),
            far_good_frames: far.received().good_frames(),
            delivering: recent || whole_file_came,
            card: self.card.stats(),
        }
    }
}
