//! Interval credits.

use punctual_model::channel::{AtmContract, BitRate, Sensitivity};
use punctual_model::{Duration, Instant};

use super::bucket::Scale;
use super::verdict::{Breach, Policer, Verdict};

/// Polices by credits (L4ATM, §2.5): at the beginning of each control interval a connection gets
/// new credit, and a PDU conforms while enough is left for it. Unused credit is lost.
///
/// An interval is as long as its PDUs take at the rate. If that is not a whole number of
/// nanoseconds, the k-th interval begins at the first instant not before `origin + k` times the
/// exact length, so that the rate holds over any time. The intervals are fixed: a sender can
/// neither move them nor save credit.
///
/// At the border of two intervals the credits of both may be used at once: a burst has up to twice
/// the PDUs of an interval. Admission describes bursts by the `B_max` of linear bounded arrivals,
/// and `Policing::covering` of the model returns the arrivals that cover all traffic that passes
/// here.
///
/// A PDU exactly as large as the remaining credit conforms, and the instant at which an interval
/// begins belongs to it.
#[derive(Clone, Debug)]
pub struct IntervalCredits {
    /// The bytes left in this interval.
    left: u64,
    /// The beginning of the next interval, at most [`Instant::MAX`].
    end: Instant,
    /// The bytes of an interval.
    credit: u64,
    max_sdu: u32,
    /// The number of the interval. At 1 Tbit/s an interval of two bytes lasts less than a
    /// nanosecond, so 64 bits do not suffice for all time.
    index: u128,
    /// The number of ticks by which `end` is after the exact border.
    late: u64,
    length: Length,
    origin: Instant,
}

/// The exact length of an interval.
#[derive(Clone, Copy, Debug)]
struct Length {
    scale: Scale,
    ticks: u128,
    /// The same as whole nanoseconds (saturated at the longest time) and the remaining ticks.
    nanos: Duration,
    rest: u64,
}

impl IntervalCredits {
    /// Makes credits for PDUs of at most `max_sdu` bytes (1 if it is zero) at `rate`. The first
    /// interval begins at `origin`; earlier PDUs belong to it.
    pub fn new(rate: BitRate, max_sdu: u32, sensitivity: Sensitivity, origin: Instant) -> Self {
        Self::with_scale(Scale::new(rate), max_sdu.max(1), sensitivity, origin)
    }

    /// Makes credits for messages of any size with an average distance of `spacing` (1 ns if it is
    /// zero). The caller passes each as a PDU of one byte, so that credits bound the number of
    /// messages, as admission does.
    ///
    /// ```
    /// use punctual_model::channel::Sensitivity;
    /// use punctual_model::{Duration, Instant};
    /// use punctual_policy::police::{IntervalCredits, Policer, Verdict};
    ///
    /// let (ms, sensitive) = (Duration::from_millis(1), Sensitivity::Sensitive);
    /// let mut credits = IntervalCredits::of_messages(ms, sensitive, Instant::ZERO);
    /// assert_eq!(credits.interval(), ms * 2);
    /// let passed = (0..10).filter(|_| credits.police(Instant::ZERO, 1) == Verdict::Conforming);
    /// assert_eq!(passed.count(), 2);
    /// ```
    pub fn of_messages(spacing: Duration, sensitivity: Sensitivity, origin: Instant) -> Self {
        // A tick is a nanosecond, and a byte stands for a message.
        let scale = Scale { per_nano: 1, per_byte: spacing.as_nanos().max(1) };
        Self::with_scale(scale, 1, sensitivity, origin)
    }

    fn with_scale(scale: Scale, max_sdu: u32, sensitivity: Sensitivity, origin: Instant) -> Self {
        // Below 2³⁸ bytes, so below 2⁷¹ ticks; for messages, 50 spacings.
        let credit = u64::from(max_sdu) * u64::from(sensitivity.pdus());
        let ticks = u128::from(credit) * u128::from(scale.per_byte);
        let per_nano = u128::from(scale.per_nano);
        let nanos = u64::try_from(ticks / per_nano).unwrap_or(u64::MAX);
        // Below `per_nano`, which has 64 bits.
        let rest = (ticks % per_nano) as u64;
        let length = Length { scale, ticks, nanos: Duration::from_nanos(nanos), rest };
        let mut credits = Self {
            left: credit,
            end: Instant::MAX,
            credit,
            max_sdu,
            index: 0,
            late: 0,
            length,
            origin,
        };
        credits.begin(0);
        credits
    }

    /// Makes credits for the sustained rate of a contract.
    pub fn of(contract: AtmContract, sensitivity: Sensitivity, origin: Instant) -> Self {
        let spec = contract.spec();
        Self::new(spec.sustained_rate, spec.max_sdu, sensitivity, origin)
    }

    /// Returns the bytes of an interval.
    pub fn credit(&self) -> u64 {
        self.credit
    }

    /// Returns the length of an interval, rounded down.
    pub fn interval(&self) -> Duration {
        self.length.nanos
    }

    /// Finds the interval of `now`, which is not before `end`.
    #[cold]
    fn refill(&mut self, now: Instant) {
        let Length { scale, ticks, nanos, rest } = self.length;
        // Nearly always the next interval, found without a division.
        let per_nano = scale.per_nano;
        let (late, shorter) = if self.late >= rest {
            (self.late - rest, 0)
        } else {
            (self.late + (per_nano - rest), 1)
        };
        let next = self
            .end
            .as_nanos()
            .checked_add(nanos.as_nanos())
            .and_then(|next| next.checked_add(shorter));
        if let Some(next) = next.filter(|&next| next > now.as_nanos() && next < u64::MAX) {
            (self.end, self.late) = (Instant::from_nanos(next), late);
            self.index += 1;
            self.left = self.credit;
            return;
        }
        let elapsed = scale.ticks(now.saturating_since(self.origin).as_nanos());
        let index = elapsed / ticks;
        // At the end of time the border after `now` is not representable: the interval is not new.
        if index != self.index {
            self.begin(index);
        }
    }

    fn begin(&mut self, index: u128) {
        let Length { scale, ticks, .. } = self.length;
        self.index = index;
        self.left = self.credit;
        let border = (index + 1) * ticks;
        let after = scale.instant_at_or_after(border);
        self.end = self.origin.saturating_add(Duration::from_nanos(after.as_nanos()));
        // Unused once the border is not representable.
        let late = scale.ticks(after.as_nanos()).saturating_sub(border);
        self.late = u64::try_from(late).unwrap_or(0);
    }

    #[cold]
    fn exhausted(&self) -> Verdict {
        Verdict::NonConforming(Breach::TooEarly { conforms_at: self.end })
    }
}

impl Policer for IntervalCredits {
    #[inline]
    fn police(&mut self, now: Instant, bytes: u32) -> Verdict {
        if bytes > self.max_sdu {
            return Verdict::NonConforming(Breach::TooLarge { bytes, max_sdu: self.max_sdu });
        }
        if now >= self.end {
            self.refill(now);
        }
        match self.left.checked_sub(u64::from(bytes)) {
            Some(left) => {
                self.left = left;
                Verdict::Conforming
            }
            None => self.exhausted(),
        }
    }
}
