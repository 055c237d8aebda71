//! The generic cell rate algorithm.

use punctual_model::channel::{AtmContract, BitRate};
use punctual_model::{Duration, Instant};

use super::bucket::{Measures, Tat};
use super::scale::Scale;
use super::{Breach, Policer, Verdict};

/// What a PDU counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// As one of `max_sdu` bytes, whatever its size: PDUs as the cells of ATM. Admission counts so,
    /// for a short message costs the processor as much as a long one, nearly.
    PerPdu,
    /// By its bytes: what the link carries. An empty PDU is free.
    PerByte,
}

/// Polices one rate: the generic cell rate algorithm GCRA(T, τ) in its form of virtual scheduling
/// (ITU-T I.371, annex A; ATM Forum TM 4.1, §4.4), for PDUs instead of cells.
///
/// It keeps the *theoretical arrival time* TAT, at which the next PDU is due. A PDU at `now`
///
/// - does not conform if `now < TAT − τ`. At equality it conforms.
/// - else conforms, and `TAT = max(TAT, now) + T`, with `T` its time at the rate.
///
/// So a stream of equal PDUs conforms if and only if, from each PDU to the n-th after it, at least
/// `n·T − τ` goes by.
///
/// `T = bytes · 8·10⁹ / rate` ns is not always whole. TAT is therefore kept in ticks of which a
/// nanosecond and a byte are both a whole number: exact for ever, and without a division. It is cheapest
/// where a byte takes whole nanoseconds (1, 10, 40, 100 Mbit/s, 1 Gbit/s: rates that divide 8·10⁹). With
/// `τ = 0` a sender whose clock has whole nanoseconds comes up to one after TAT, and loses that much at
/// each PDU; with `τ` of 1 ns it can use all of its rate.
///
/// Time never goes back; if it does, the PDU is held against the same TAT.
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
    /// A sender that has sent nothing yet, of PDUs of at most `max_sdu` bytes, and `tolerance` as τ:
    /// the delay variation tolerance of a peak rate (CDVT), the burst tolerance of a sustained one.
    pub fn new(rate: BitRate, max_sdu: u32, tolerance: Duration, charge: Charge) -> Self {
        Self { max_sdu, tat: Tat::new(measures(rate, max_sdu, tolerance, charge)) }
    }

    /// The sustained rate of a contract with its delay variation tolerance: all there is to police of
    /// CBR, and what admission rests on for every class.
    pub fn of(contract: AtmContract, charge: Charge) -> Self {
        let spec = contract.spec();
        Self::new(spec.sustained_rate, spec.max_sdu, spec.delay_variation_tolerance, charge)
    }

    /// The most bytes a PDU may have.
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
