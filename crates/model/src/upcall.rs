//! Real-time upcalls: periodic handlers that work in iterations over PDUs.

use alloc::string::String;
use core::num::NonZeroU32;

use thiserror::Error;

use crate::overrun::Overrun;
use crate::time::{Duration, Service};
use crate::units;

/// An upcall as somebody wrote it down. [`Upcall::new`] makes it valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcallSpec {
    /// What people call it.
    pub name: String,
    /// The time between two releases (`T` in the paper).
    pub period: Duration,
    /// PDUs processed each period (`B_p`).
    pub batch: u32,
    /// PDUs processed between two yield points (`b_p`).
    pub quantum: u32,
    /// The most processor time one PDU is assumed to need.
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

/// Which rule an [`UpcallSpec`] breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpcallError {
    /// A period of zero asks for infinitely many jobs.
    #[error("the period is zero; it must be at least 1ns")]
    ZeroPeriod,
    /// An empty batch promises nothing.
    #[error("the batch is zero; it must be at least 1 PDU")]
    ZeroBatch,
    /// An iteration must make progress.
    #[error("the quantum is zero; it must be at least 1 PDU")]
    ZeroQuantum,
    /// The batch ends before the first yield point.
    #[error("the quantum of {quantum} PDUs is larger than the batch of {batch}")]
    QuantumAboveBatch {
        /// The quantum given.
        quantum: u32,
        /// The batch given.
        batch: u32,
    },
    /// A PDU that costs nothing cannot be admitted against anything.
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
    /// Checks `spec`.
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

    /// The same upcall, whose late jobs are dealt with as `overrun` says; without this they are
    /// caught up with.
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

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time between two releases; also the relative deadline.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// PDUs processed each period.
    pub fn batch(&self) -> NonZeroU32 {
        self.batch
    }

    /// PDUs processed between two yield points.
    pub fn quantum(&self) -> NonZeroU32 {
        self.quantum
    }

    /// The most processor time one PDU is assumed to need.
    pub fn time_per_pdu(&self) -> Service {
        self.time_per_pdu
    }

    /// What becomes of its late jobs.
    pub fn overrun(&self) -> Overrun {
        self.overrun
    }

    /// The processor time of a whole batch (`C_i`).
    pub fn batch_service(&self) -> Service {
        self.time_per_pdu * u64::from(self.batch.get())
    }

    /// What it needs of a CPU, in parts per million, rounded up: what to hold against a bound.
    pub fn utilisation_ppm(&self) -> u64 {
        units::share_ppm(self.batch_service(), self.period)
    }

    /// The processor time between two yield points (`c_i`).
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
