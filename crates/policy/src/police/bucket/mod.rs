//! The theoretical arrival time of a sender, in the cheapest form that is exact: in ticks at any
//! rate, in whole nanoseconds a byte, and in 128 bits for numbers that 64 bits do not hold. Time
//! counts in fractions of a nanosecond in which every PDU's time is whole.

#[cfg(test)]
mod tests;

use core::hint::select_unpredictable;

use punctual_model::Instant;
use punctual_model::channel::BitRate;

/// Bits in a byte times nanoseconds in a second.
const BIT_NANOS_PER_BYTE: u64 = 8_000_000_000;

/// The largest number in 64 bits that leaves room for a sign and for one sum.
const MOST: u64 = 1 << 62;

/// The unit of time of a rate. At `rate` a byte takes `8·10⁹ / rate` ns: in lowest terms,
/// `per_byte / per_nano`. A tick is `1 / per_nano` ns, so that bytes and nanoseconds are both whole
/// ticks.
///
/// Rates are at most 10¹² < 2⁴⁰ bit/s: any instant is below 2¹⁰⁴ ticks, and any PDU below 2⁶⁵.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Ticks of a nanosecond, at least 1.
    pub(super) per_nano: u64,
    /// Ticks of a byte, at least 1.
    pub(super) per_byte: u64,
}

impl Scale {
    pub(super) fn new(rate: BitRate) -> Self {
        let rate = rate.bits_per_second();
        let common = gcd(BIT_NANOS_PER_BYTE, rate);
        Self { per_nano: rate / common, per_byte: BIT_NANOS_PER_BYTE / common }
    }

    /// Returns nanoseconds as ticks.
    #[inline]
    pub(super) fn ticks(self, nanos: u64) -> u128 {
        u128::from(nanos) * u128::from(self.per_nano)
    }

    /// Returns the first instant that is not before `ticks`, or the last instant if it is beyond.
    pub(super) fn instant_at_or_after(self, ticks: u128) -> Instant {
        let nanos = ticks.div_ceil(u128::from(self.per_nano));
        u64::try_from(nanos).map_or(Instant::MAX, Instant::from_nanos)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A form of TAT, the theoretical arrival time.
trait Bucket {
    /// Returns true if `TAT − τ ≤ now`.
    fn may_come(&self, now: Instant) -> bool;
    /// Charges a conforming PDU: `TAT = max(TAT, now) + T`.
    fn charge(&mut self, now: Instant, bytes: u32);
    /// Returns TAT in ticks since time zero.
    fn tat(&self) -> u128;
}

/// The parameters of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) scale: Scale,
    /// The tolerance τ.
    pub(super) tolerance: u128,
    /// The cost of a PDU: `per_byte` for each byte plus `per_pdu`.
    pub(super) per_byte: u64,
    pub(super) per_pdu: u128,
    pub(super) max_sdu: u32,
}

impl Measures {
    /// Returns how far ahead of the time TAT can be: a conforming PDU finds at most the tolerance.
    fn most(&self) -> u128 {
        self.tolerance + u128::from(self.max_sdu) * u128::from(self.per_byte) + self.per_pdu
    }

    /// Returns the first instant at which a PDU conforms.
    fn conforms_at(&self, tat: u128) -> Instant {
        self.scale.instant_at_or_after(tat.saturating_sub(self.tolerance))
    }
}

/// A TAT from time zero on, at any rate.
///
/// The cheaper form is inlined into the caller, and one comparison decides whether it applies; the
/// other form is a call.
#[derive(Clone, Debug)]
struct Fractions {
    narrow: Narrow,
    /// Used where `narrow` does not apply.
    wide: Wide,
    measures: Measures,
}

impl Fractions {
    fn new(measures: Measures) -> Self {
        Self::from(measures, 0, Instant::ZERO)
    }

    fn from(measures: Measures, tat: u128, now: Instant) -> Self {
        let narrow = Narrow::new(measures, tat, now);
        Self { narrow, wide: Wide::new(measures, tat), measures }
    }

    /// Returns true if `TAT − τ ≤ now`, and then charges a PDU of `bytes`:
    /// `TAT = max(TAT, now) + T`.
    #[inline]
    fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        if !self.narrow.reaches(now) {
            return self.takes_out_of_line(now, bytes);
        }
        let may = self.narrow.may_come(now);
        if may {
            self.narrow.charge(now, bytes);
        }
        may
    }

    #[inline(never)]
    fn takes_out_of_line(&mut self, now: Instant, bytes: u32) -> bool {
        let may = self.may_come(now);
        if may {
            self.charge(now, bytes);
        }
        may
    }

    /// Restarts a narrow form that does not reach `now` there, if possible.
    fn may_come(&mut self, now: Instant) -> bool {
        if self.narrow.in_use() && !self.narrow.reaches(now) {
            *self = Self::from(self.measures, self.tat(), now);
        }
        if self.narrow.in_use() { self.narrow.may_come(now) } else { self.wide.may_come(now) }
    }

    fn charge(&mut self, now: Instant, bytes: u32) {
        if self.narrow.in_use() {
            self.narrow.charge(now, bytes);
        } else {
            self.wide.charge(now, bytes);
        }
    }

    fn tat(&self) -> u128 {
        if self.narrow.in_use() { self.narrow.tat() } else { self.wide.tat() }
    }
}

/// A TAT from time zero on. It is cheaper still if a byte takes whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Tat {
    whole: Whole,
    /// Used for instants that `whole` does not reach.
    fractions: Fractions,
}

impl Tat {
    pub(super) fn new(measures: Measures) -> Self {
        Self { whole: Whole::new(measures), fractions: Fractions::new(measures) }
    }

    /// Returns true if `TAT − τ ≤ now`, and then charges a PDU of `bytes`:
    /// `TAT = max(TAT, now) + T`.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        if self.whole.reaches(now) {
            let may = self.whole.may_come(now);
            if may {
                self.whole.charge(now, bytes);
            }
            return may;
        }
        if self.whole.in_use() {
            self.go_on_from(now);
        }
        self.fractions.takes(now, bytes)
    }

    /// Returns the first instant at which a PDU conforms.
    #[cold]
    pub(super) fn conforms_at(&self) -> Instant {
        self.fractions.measures.conforms_at(self.tat())
    }

    fn tat(&self) -> u128 {
        if self.whole.in_use() { self.whole.tat() } else { self.fractions.tat() }
    }

    #[cold]
    fn go_on_from(&mut self, now: Instant) {
        self.fractions = Fractions::from(self.fractions.measures, self.whole.tat(), now);
        self.whole.put_aside();
    }
}

/// TAT in ticks since `epoch`.
///
/// It judges instants less than 2⁶² ticks after `epoch`; for a later one it restarts with a new
/// epoch. As with whole nanoseconds, TAT is below 2⁶³, and nothing wraps.
#[derive(Clone, Debug)]
struct Narrow {
    tat: u64,
    epoch: u64,
    /// The number of nanoseconds from `epoch` on that it judges; 0: none.
    span: u64,
    tolerance: i64,
    per_byte: u64,
    per_pdu: u64,
    scale: Scale,
}

impl Narrow {
    /// Makes a form from `now` on. It reaches no instant if 64 bits do not suffice.
    fn new(measures: Measures, tat: u128, now: Instant) -> Self {
        let most = measures.most();
        let Measures { scale, tolerance, per_byte, per_pdu, .. } = measures;
        let ahead = tat.saturating_sub(scale.ticks(now.as_nanos()));
        let fits = most <= u128::from(MOST) && ahead < 2 * u128::from(MOST);
        let span = if fits { MOST / scale.per_nano } else { 0 };
        // Below 2⁶³, or unused.
        let (tat, tolerance, per_pdu) = (ahead as u64, tolerance as i64, per_pdu as u64);
        Self { tat, epoch: now.as_nanos(), span, tolerance, per_byte, per_pdu, scale }
    }

    /// Returns true if it can judge a PDU at `now`; otherwise it must restart there.
    #[inline]
    fn reaches(&self, now: Instant) -> bool {
        // Before `epoch` the difference is a large number.
        now.as_nanos().wrapping_sub(self.epoch) < self.span
    }

    fn in_use(&self) -> bool {
        self.span > 0
    }

    #[inline]
    fn ticks(&self, now: Instant) -> u64 {
        now.as_nanos().wrapping_sub(self.epoch).wrapping_mul(self.scale.per_nano)
    }
}

impl Bucket for Narrow {
    #[inline]
    fn may_come(&self, now: Instant) -> bool {
        let ahead = self.tat.wrapping_sub(self.ticks(now)) as i64;
        ahead <= self.tolerance
    }

    #[inline]
    fn charge(&mut self, now: Instant, bytes: u32) {
        let now = self.ticks(now);
        let start = select_unpredictable(self.tat > now, self.tat, now);
        let cost = u64::from(bytes).wrapping_mul(self.per_byte).wrapping_add(self.per_pdu);
        self.tat = start.wrapping_add(cost);
    }

    fn tat(&self) -> u128 {
        self.scale.ticks(self.epoch) + u128::from(self.tat)
    }
}

/// TAT in nanoseconds, for `per_nano` = 1.
///
/// It judges instants before 2⁶² ns, 146 years, and TAT is at most 2⁶² ahead of one of them. So TAT
/// is below 2⁶³, the difference of the two has a sign, and nothing wraps.
#[derive(Clone, Debug)]
struct Whole {
    tat: u64,
    /// It judges instants before this one; 0: none.
    reach: u64,
    tolerance: i64,
    per_byte: u64,
    per_pdu: u64,
}

impl Whole {
    /// Makes a form from time zero on. It reaches no instant if the measures do not fit.
    fn new(measures: Measures) -> Self {
        let fits = measures.scale.per_nano == 1 && measures.most() <= u128::from(MOST);
        let reach = if fits { MOST } else { 0 };
        let Measures { tolerance, per_byte, per_pdu, .. } = measures;
        // Below 2⁶³, or unused.
        let (tolerance, per_pdu) = (tolerance as i64, per_pdu as u64);
        Self { tat: 0, reach, tolerance, per_byte, per_pdu }
    }

    /// Puts the form out of use: it reaches no instant from here on.
    fn put_aside(&mut self) {
        self.reach = 0;
    }

    /// Returns true if it can judge a PDU at `now`; otherwise another form must continue from its
    /// TAT.
    #[inline]
    fn reaches(&self, now: Instant) -> bool {
        now.as_nanos() < self.reach
    }

    #[inline]
    fn in_use(&self) -> bool {
        self.reach > 0
    }
}

impl Bucket for Whole {
    #[inline]
    fn may_come(&self, now: Instant) -> bool {
        // Negative if TAT is past.
        let ahead = self.tat.wrapping_sub(now.as_nanos()) as i64;
        ahead <= self.tolerance
    }

    // Without a branch: for a sender near its rate it is a coin toss whether TAT is past, and the
    // mispredictions would cost more than the rest.
    #[inline]
    fn charge(&mut self, now: Instant, bytes: u32) {
        let now = now.as_nanos();
        let start = select_unpredictable(self.tat > now, self.tat, now);
        let cost = u64::from(bytes).wrapping_mul(self.per_byte).wrapping_add(self.per_pdu);
        self.tat = start.wrapping_add(cost);
    }

    fn tat(&self) -> u128 {
        u128::from(self.tat)
    }
}

/// TAT in ticks since time zero: below 2¹⁰⁶, because instants and tolerances are below 2¹⁰⁴.
#[derive(Clone, Debug)]
struct Wide {
    tat: u128,
    measures: Measures,
}

impl Wide {
    fn new(measures: Measures, tat: u128) -> Self {
        Self { tat, measures }
    }
}

impl Bucket for Wide {
    fn may_come(&self, now: Instant) -> bool {
        self.tat <= self.measures.scale.ticks(now.as_nanos()) + self.measures.tolerance
    }

    fn charge(&mut self, now: Instant, bytes: u32) {
        let Measures { scale, per_byte, per_pdu, .. } = self.measures;
        let start = self.tat.max(scale.ticks(now.as_nanos()));
        self.tat = start + u128::from(bytes) * u128::from(per_byte) + per_pdu;
    }

    fn tat(&self) -> u128 {
        self.tat
    }
}
