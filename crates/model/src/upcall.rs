//! Real-time upcalls: periodic handlers that work in iterations over PDUs.

use alloc::string::String;
use core::num::NonZeroU32;

use thiserror::Error;

use crate::overrun::Overrun;
use crate::time::{Duration, Service};
use crate::units;

/// An upcall as it was declared, unchecked. [`Upcall::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcallSpec {
    /// The upcall's name.
    pub name: String,
    /// The time between two releases (`T` in the paper).
    pub period: Duration,
    /// The number of PDUs processed each period (`B_p`).
    pub batch: u32,
    /// The number of PDUs processed between two yield points (`b_p`).
    pub quantum: u32,
    /// The most processor time that one PDU is assumed to need.
    pub time_per_pdu: Service,
}

/// A valid upcall (real-time upcalls, §5.1).
///
/// Guaranteed: the period and the time per PDU are positive, `1 ≤ quantum ≤ batch`, and a whole
/// batch fits in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcall {
    name: String,
    period: Duration,
    batch: NonZeroU32,
    quantum: NonZeroU32,
    time_per_pdu: Service,
    overrun: Overrun,
}

/// The rule that an [`UpcallSpec`] breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpcallError {
    /// The period is zero, which means infinitely many jobs.
    #[error("the period is zero; it must be at least 1ns")]
    ZeroPeriod,
    /// The batch is empty.
    #[error("the batch is zero; it must be at least 1 PDU")]
    ZeroBatch,
    /// The quantum is zero: an iteration must make progress.
    #[error("the quantum is zero; it must be at least 1 PDU")]
    ZeroQuantum,
    /// The quantum is larger than the batch.
    #[error("the quantum of {quantum} PDUs is larger than the batch of {batch}")]
    QuantumAboveBatch {
        /// The quantum given.
        quantum: u32,
        /// The batch given.
        batch: u32,
    },
    /// The time per PDU is zero, which admission cannot account for.
    #[error("the time per PDU is zero; it must be at least 1ns")]
    ZeroTimePerPdu,
    /// The upcall alone needs more than a whole CPU.
    #[error("{batch} PDUs of {time_per_pdu} each do not fit in the period {period}")]
    BatchAbovePeriod {
        /// The batch given.
        batch: u32,
        /// The time per PDU given.
        time_per_pdu: Service,
        /// The period given.
        period: Duration,
    },
}

impl Upcall {
    /// Validates `spec`.
    pub fn new(spec: UpcallSpec) -> Result<Self, UpcallError> {
        let UpcallSpec { name, period, batch, quantum, time_per_pdu } = spec;
        if period.is_zero() {
            return Err(UpcallError::ZeroPeriod);
        }
        if time_per_pdu.is_zero() {
            return Err(UpcallError::ZeroTimePerPdu);
        }
        let whole = NonZeroU32::new(batch).ok_or(UpcallError::ZeroBatch)?;
        let step = NonZeroU32::new(quantum).ok_or(UpcallError::ZeroQuantum)?;
        if step > whole {
            return Err(UpcallError::QuantumAboveBatch { quantum, batch });
        }
        match time_per_pdu.checked_mul(u64::from(batch)) {
            Some(need) if need.at_full_speed() <= period => {}
            _ => return Err(UpcallError::BatchAbovePeriod { batch, time_per_pdu, period }),
        }
        let overrun = Overrun::default();
        Ok(Self { name, period, batch: whole, quantum: step, time_per_pdu, overrun })
    }

    /// Returns the same upcall with `overrun` as the policy for its late jobs. The default is to
    /// catch up.
    ///
    /// ```
    /// use punctual_model::{Duration, Overrun, Service, Upcall, UpcallSpec};
    ///
    /// let meter = Upcall::new(UpcallSpec {
    ///     name: "meter".into(),
    ///     period: Duration::from_millis(20),
    ///     batch: 1,
    ///     quantum: 1,
    ///     time_per_pdu: Service::from_micros(50),
    /// })?
    /// .with_overrun(Overrun::Skip);
    /// assert_eq!(meter.overrun(), Overrun::Skip);
    /// # Ok::<(), punctual_model::UpcallError>(())
    /// ```
    #[must_use]
    pub fn with_overrun(self, overrun: Overrun) -> Self {
        Self { overrun, ..self }
    }

    /// Returns the upcall's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time between two releases, which is also the relative deadline.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the number of PDUs processed each period.
    pub fn batch(&self) -> NonZeroU32 {
        self.batch
    }

    /// Returns the number of PDUs processed between two yield points.
    pub fn quantum(&self) -> NonZeroU32 {
        self.quantum
    }

    /// Returns the most processor time that one PDU is assumed to need.
    pub fn time_per_pdu(&self) -> Service {
        self.time_per_pdu
    }

    /// Returns the policy for its late jobs.
    pub fn overrun(&self) -> Overrun {
        self.overrun
    }

    /// Returns the processor time of a whole batch (`C_i`).
    pub fn batch_service(&self) -> Service {
        self.time_per_pdu * u64::from(self.batch.get())
    }

    /// Returns the upcall's utilisation of a CPU in parts per million, rounded up, for comparison
    /// with a bound.
    pub fn utilisation_ppm(&self) -> u64 {
        units::share_ppm(self.batch_service(), self.period)
    }

    /// Returns the processor time between two yield points (`c_i`).
    pub fn quantum_service(&self) -> Service {
        self.time_per_pdu * u64::from(self.quantum.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> UpcallSpec {
        UpcallSpec {
            name: String::from("sender"),
            period: Duration::from_millis(40),
            batch: 8,
            quantum: 2,
            time_per_pdu: Service::from_micros(500),
        }
    }

    #[test]
    fn a_batch_and_a_quantum_are_amounts_of_work() {
        let upcall = Upcall::new(spec()).expect("valid");
        assert_eq!(upcall.batch_service(), Service::from_millis(4));
        assert_eq!(upcall.quantum_service(), Service::from_millis(1));
    }

    #[test]
    fn each_rule_is_held() {
        for (spec, why) in [
            (UpcallSpec { period: Duration::ZERO, ..spec() }, UpcallError::ZeroPeriod),
            (UpcallSpec { batch: 0, ..spec() }, UpcallError::ZeroBatch),
            (UpcallSpec { quantum: 0, ..spec() }, UpcallError::ZeroQuantum),
            (
                UpcallSpec { quantum: 9, ..spec() },
                UpcallError::QuantumAboveBatch { quantum: 9, batch: 8 },
            ),
            (UpcallSpec { time_per_pdu: Service::ZERO, ..spec() }, UpcallError::ZeroTimePerPdu),
        ] {
            assert_eq!(Upcall::new(spec), Err(why));
        }
        assert!(matches!(
            Upcall::new(UpcallSpec { batch: 81, ..spec() }),
            Err(UpcallError::BatchAbovePeriod { .. })
        ));
        assert!(matches!(
            Upcall::new(UpcallSpec { batch: u32::MAX, time_per_pdu: Service::MAX, ..spec() }),
            Err(UpcallError::BatchAbovePeriod { .. })
        ));
    }
}
