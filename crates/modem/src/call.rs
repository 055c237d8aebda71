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
pub(crate) struct Call {
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

    /// Reads the samples that the card shows at `now`, demodulates them and prepares as many
    /// samples to send. Returns their number.
    pub(crate) fn serve(&mut self, now: Instant) -> usize {
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
    pub(crate) fn answer(&mut self, now: Instant) {
        self.card.write(now, &self.answer[..self.answered]);
        self.answered = 0;
    }

    /// Returns the number of samples that really wait at `now`.
    pub(crate) fn pending(&self, now: Instant) -> u64 {
        self.card.pending(now)
    }

    /// Returns the receiver at the driver's end.
    pub(crate) fn received(&self) -> &Receiver {
        self.near.received()
    }

    pub(crate) fn card_stats(&self) -> CardStats {
        self.card.stats()
    }

    /// Returns the statistics of this line at `now`. `file` is the file that the line should have
    /// delivered, or empty.
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
