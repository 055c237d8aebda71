//! The generic cell rate algorithm, and the policing by it of messages whose arrival was not
//! observed.

use punctual_model::channel::{AtmContract, BitRate, TooEarly};
use punctual_model::{Duration, Instant};

use super::bucket::{Measures, Scale, Tat};
use super::verdict::{Breach, Policer, Verdict};

/// The amount that a PDU is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Each PDU counts as `max_sdu` bytes, like a cell of ATM. Admission counts this way, because a
    /// short message costs the processor nearly as much as a long one.
    PerPdu,
    /// Each PDU counts its bytes, the load on the link. An empty PDU is free.
    PerByte,
}

/// Polices one rate: the generic cell rate algorithm GCRA(T, τ) in its form of virtual scheduling
/// (ITU-T I.371, annex A; ATM Forum TM 4.1, §4.4), for PDUs instead of cells.
///
/// It keeps the *theoretical arrival time* TAT, at which the next PDU is due. A PDU at `now`
///
/// - does not conform if `now < TAT − τ`. At equality it conforms.
/// - otherwise conforms, and `TAT = max(TAT, now) + T`, with `T` its time at the rate.
///
/// So a stream of equal PDUs conforms if and only if, from each PDU to the n-th after it, at least
/// `n·T − τ` passes.
///
/// `T = bytes · 8·10⁹ / rate` ns is not always whole. TAT is therefore kept in ticks such that a
/// nanosecond and a byte are both a whole number of them: exact forever, and without a division. It
/// is cheapest if a byte takes whole nanoseconds (1, 10, 40, 100 Mbit/s, 1 Gbit/s: rates that
/// divide 8·10⁹). With `τ = 0` a sender whose clock has whole nanoseconds sends up to 1 ns after
/// TAT, and loses that much at each PDU; with `τ` of 1 ns it can use all of its rate.
///
/// Time must not decrease; if it does, the PDU is compared with the same TAT.
///
/// ```
/// use punctual_model::channel::BitRate;
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::police::{Breach, Charge, Gcra, Policer, Verdict};
///
/// // 1,000 bytes take 1 ms at 8 Mbit/s; half a millisecond early is tolerated.
/// let rate = BitRate::new(8_000_000)?;
/// let mut policer = Gcra::new(rate, 1_000, Duration::from_micros(500), Charge::PerByte);
/// let at = |us| Instant::ZERO + Duration::from_micros(us);
/// assert_eq!(policer.police(at(0), 1_000), Verdict::Conforming);
/// assert_eq!(policer.police(at(500), 1_000), Verdict::Conforming);
/// let conforms_at = at(1_500);
/// assert_eq!(
///     policer.police(at(1_000), 1_000),
///     Verdict::NonConforming(Breach::TooEarly { conforms_at })
/// );
/// # Ok::<(), punctual_model::channel::RateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gcra {
    max_sdu: u32,
    tat: Tat,
}

impl Gcra {
    /// Makes a policer for a new sender of PDUs of at most `max_sdu` bytes. `tolerance` is τ: the
    /// delay variation tolerance of a peak rate (CDVT), or the burst tolerance of a sustained one.
    pub fn new(rate: BitRate, max_sdu: u32, tolerance: Duration, charge: Charge) -> Self {
        Self { max_sdu, tat: Tat::new(measures(rate, max_sdu, tolerance, charge)) }
    }

    /// Polices the sustained rate of a contract with its delay variation tolerance. CBR has no
    /// other rate, and admission relies on this one for every class.
    pub fn of(contract: AtmContract, charge: Charge) -> Self {
        let spec = contract.spec();
        Self::new(spec.sustained_rate, spec.max_sdu, spec.delay_variation_tolerance, charge)
    }

    /// Returns the most bytes of a PDU.
    pub fn max_sdu(&self) -> u32 {
        self.max_sdu
    }
}

fn measures(rate: BitRate, max_sdu: u32, tolerance: Duration, charge: Charge) -> Measures {
    let scale = Scale::new(rate);
    let (per_pdu, per_byte) = match charge {
        Charge::PerPdu => (u128::from(max_sdu) * u128::from(scale.per_byte), 0),
        Charge::PerByte => (0, scale.per_byte),
    };
    let tolerance = scale.ticks(tolerance.as_nanos());
    Measures { scale, tolerance, per_byte, per_pdu, max_sdu }
}

#[cold]
fn early(tat: &Tat) -> Verdict {
    Verdict::NonConforming(Breach::TooEarly { conforms_at: tat.conforms_at() })
}

#[cold]
fn too_large(bytes: u32, max_sdu: u32) -> Verdict {
    Verdict::NonConforming(Breach::TooLarge { bytes, max_sdu })
}

impl Policer for Gcra {
    #[inline]
    fn police(&mut self, now: Instant, bytes: u32) -> Verdict {
        if bytes > self.max_sdu {
            return too_large(bytes, self.max_sdu);
        }
        if self.tat.takes(now, bytes) { Verdict::Conforming } else { early(&self.tat) }
    }
}

/// A policer for a sender whose messages are observed only now and then, so that each has an
/// earliest and a latest possible arrival. It gives the benefit of the doubt: a message counts as
/// having come at the first instant in between at which it conforms.
///
/// So a conforming sender is never found in breach, at whatever times it is observed. By induction
/// a message counts as having come no later than it did, or in the same interval with no less
/// credit left, so a message that conformed at its arrival conforms here. And the instants at which
/// messages conform here are instants at which a conforming sender could have sent: a sender that
/// breaks its contract gets no more than the contract allows.
#[derive(Clone, Debug)]
pub struct UncertainArrivals<P> {
    policer: P,
    /// The time at which the last charged message counts as having come.
    last: Instant,
}

/// The verdict on a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainVerdict {
    /// The message may have kept to the contract; it is charged.
    Conforming,
    /// The message came early and waits; it is charged at a later time.
    Waits {
        /// The time at which it conforms.
        until: Instant,
    },
    /// The message breaks the contract and is discarded. Nothing is charged.
    Lost(Breach),
}

impl<P: Policer> UncertainArrivals<P> {
    /// Wraps a policer that has judged no PDU yet.
    pub fn new(policer: P) -> Self {
        Self { policer, last: Instant::ZERO }
    }

    /// Judges a message of `bytes` that came at or after `since` and was there at `seen`. Neither
    /// may decrease.
    #[inline]
    pub fn judge(
        &mut self,
        since: Instant,
        seen: Instant,
        bytes: u32,
        too_early: TooEarly,
    ) -> UncertainVerdict {
        let at = since.max(self.last);
        let conforms_at = match self.policer.police(at, bytes) {
            Verdict::Conforming => {
                self.last = at;
                // If it counts later than it was seen, it is behind a message that waits.
                return if at <= seen {
                    UncertainVerdict::Conforming
                } else {
                    UncertainVerdict::Waits { until: at }
                };
            }
            Verdict::NonConforming(Breach::TooEarly { conforms_at }) => conforms_at,
            Verdict::NonConforming(breach) => return UncertainVerdict::Lost(breach),
        };
        let may_have_come_then = conforms_at <= seen;
        if !may_have_come_then && too_early == TooEarly::Discard {
            return UncertainVerdict::Lost(Breach::TooEarly { conforms_at });
        }
        let charged = self.policer.police(conforms_at, bytes);
        debug_assert!(charged == Verdict::Conforming || conforms_at == Instant::MAX);
        self.last = conforms_at;
        if may_have_come_then {
            UncertainVerdict::Conforming
        } else {
            UncertainVerdict::Waits { until: conforms_at }
        }
    }

    /// Returns the time at which the last charged message counts as having come; time zero before
    /// the first.
    pub fn last(&self) -> Instant {
        self.last
    }
}
