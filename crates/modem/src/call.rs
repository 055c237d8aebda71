//! One call of a bank: card, line, far modem, and the modem at the driver's end.

use punctual_model::Instant;

use crate::SAMPLE_RATE;
use crate::card::{Card, CardStats, RING, SampleClock};
use crate::line::{Line, LineQuality};
use crate::modem::{Carrier, Modem, NoModem, Role};
use crate::transfer::{Receiver, Source};

/// A line still delivers if a good frame came within the last two seconds of line time: a full
/// line brings four a second.
const DELIVERING: u64 = 2 * SAMPLE_RATE as u64;

/// What became of one line, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStats {
    /// What the modem at the driver's end last reported. It stays `Connected` on garbage.
    pub carrier: Carrier,
    /// Bytes of the file that the far end gave to the line.
    pub bytes_sent: usize,
    /// Bytes of the file that arrived, each place once.
    pub bytes_delivered: usize,
    /// Bytes that arrived and equal the original's.
    pub bytes_intact: usize,
    /// Frames that arrived with a right CRC.
    pub good_frames: u64,
    /// Frames that arrived with a wrong CRC.
    pub bad_frames: u64,
    /// Good frames that the far end had from the driver's end.
    pub far_good_frames: u64,
    /// Whether good frames still come (one in the last two seconds), or the whole file came.
    pub delivering: bool,
    /// What lateness did to the card.
    pub card: CardStats,
}

/// A call in progress; the driver serves it and then writes its answer.
pub(crate) struct Call {
    card: Card<Line>,
    near: Modem,
    /// The answer to the samples last read: the first `answered` of these.
    answer: [i16; RING],
    answered: usize,
    /// Good frames seen by the last service, and the sample at which one last came.
    good_frames: u64,
    last_good: Option<u64>,
}

/// What a call is made of.
pub(crate) struct CallSpec {
    pub(crate) clock: SampleClock,
    pub(crate) quality: LineQuality,
    pub(crate) noise_seed: u64,
    pub(crate) far_sends: Source,
    pub(crate) near_sends: Source,
    pub(crate) near_receives: Receiver,
}

impl Call {
    pub(crate) fn new(spec: CallSpec) -> Result<Self, NoModem> {
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

    /// Reads what the card shows at `now`, demodulates it, and prepares as many samples to send; how
    /// many they were.
    pub(crate) fn serve(&mut self, now: Instant) -> usize {
        // The buffer that holds the answer afterwards holds the question first.
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

    /// Writes the answer to the last service at `now`.
    pub(crate) fn answer(&mut self, now: Instant) {
        self.card.write(now, &self.answer[..self.answered]);
        self.answered = 0;
    }

    /// Samples really waiting at `now`.
    pub(crate) fn pending(&self, now: Instant) -> u64 {
        self.card.pending(now)
    }

    /// What arrived at the driver's end.
    pub(crate) fn received(&self) -> &Receiver {
        self.near.received()
    }

    pub(crate) fn card_stats(&self) -> CardStats {
        self.card.stats()
    }

    /// The books of this line at `now`; `file` is what it should have brought, or empty.
    pub(crate) fn stats(&self, now: Instant, file: &[u8]) -> LineStats {
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
