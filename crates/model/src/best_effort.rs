//! Virtual-time upcalls: best-effort handlers that need no locks, as real-time upcalls need none.

use alloc::string::String;
use core::num::NonZeroU32;

use thiserror::Error;

use crate::time::{Duration, Service};

/// A best-effort upcall as it was declared, unchecked. [`BestEffort::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestEffortSpec {
    /// The upcall's name.
    pub name: String,
    /// Its weight when the remaining CPU time is shared: 1 to [`BestEffort::MAX_WEIGHT`].
    pub weight: u32,
    /// PDUs processed between two yield points.
    pub quantum: u32,
    /// The most processor time that one PDU is assumed to need.
    pub time_per_pdu: Service,
    /// The time from a call that processed no PDU to the next call.
    pub poll: Duration,
}

/// A valid best-effort upcall (a *virtual-time upcall*: real-time upcalls, future work).
///
/// It runs when no real-time upcall of its process wants the CPU, a quantum at a time, and shares
/// the remaining time by weight. A handler that processes no PDU has nothing to do and is called
/// again after `poll`.
///
/// Guaranteed: the weight is within its range; quantum, time per PDU and poll are positive; the
/// quantum's processor time is representable.
///
/// ```
/// use punctual_model::{BestEffort, BestEffortSpec, Duration, Service};
///
/// let log = BestEffort::new(BestEffortSpec {
///     name: "log writer".into(),
///     weight: 1,
///     quantum: 4,
///     time_per_pdu: Service::from_micros(25),
///     poll: Duration::from_millis(50),
/// })?;
/// assert_eq!(log.quantum_service(), Service::from_micros(100));
/// # Ok::<(), punctual_model::BestEffortError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestEffort {
    name: String,
    weight: NonZeroU32,
    quantum: NonZeroU32,
    time_per_pdu: Service,
    poll: Duration,
}

/// The rule that a [`BestEffortSpec`] breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BestEffortError {
    /// The weight is zero, so that the upcall would never run, or above the limit.
    #[error("the weight is {weight}; it must be from 1 to {most}", most = BestEffort::MAX_WEIGHT)]
    Weight {
        /// The weight given.
        weight: u32,
    },
    /// The quantum is zero: each call must make progress.
    #[error("the quantum is zero; it must be at least 1 PDU")]
    ZeroQuantum,
    /// The time per PDU is zero. A call delays the real-time upcalls of its process, so its length
    /// must be known.
    #[error("the time per PDU is zero; it must be at least 1ns")]
    ZeroTimePerPdu,
    /// The poll interval is zero: the handler would be called without end.
    #[error("the poll interval is zero; it must be at least 1ns")]
    ZeroPoll,
    /// The processor time of a quantum is not representable.
    #[error("{quantum} PDUs of {time_per_pdu} each are more than can be counted")]
    QuantumTooLong {
        /// The quantum given.
        quantum: u32,
        /// The time per PDU given.
        time_per_pdu: Service,
    },
}

impl BestEffort {
    /// The largest weight: shares differ by at most this factor.
    pub const MAX_WEIGHT: u32 = 100;

    /// Validates `spec`.
    pub fn new(spec: BestEffortSpec) -> Result<Self, BestEffortError> {
        let BestEffortSpec { name, weight, quantum, time_per_pdu, poll } = spec;
        let refused = BestEffortError::Weight { weight };
        let weight = NonZeroU32::new(weight).filter(|w| w.get() <= Self::MAX_WEIGHT);
        let weight = weight.ok_or(refused)?;
        let quantum = NonZeroU32::new(quantum).ok_or(BestEffortError::ZeroQuantum)?;
        if time_per_pdu.is_zero() {
            return Err(BestEffortError::ZeroTimePerPdu);
        }
        if poll.is_zero() {
            return Err(BestEffortError::ZeroPoll);
        }
        if time_per_pdu.checked_mul(u64::from(quantum.get())).is_none() {
            let quantum = quantum.get();
            return Err(BestEffortError::QuantumTooLong { quantum, time_per_pdu });
        }
        Ok(Self { name, weight, quantum, time_per_pdu, poll })
    }

    /// Returns the upcall's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its weight among the best-effort upcalls.
    pub fn weight(&self) -> NonZeroU32 {
        self.weight
    }

    /// Returns the number of PDUs processed between two yield points.
    pub fn quantum(&self) -> NonZeroU32 {
        self.quantum
    }

    /// Returns the most processor time that one PDU is assumed to need.
    pub fn time_per_pdu(&self) -> Service {
        self.time_per_pdu
    }

    /// Returns the time from a call that processed no PDU to the next call.
    pub fn poll(&self) -> Duration {
        self.poll
    }

    /// Returns the processor time between two yield points.
    pub fn quantum_service(&self) -> Service {
        self.time_per_pdu * u64::from(self.quantum.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_held() {
        let spec = BestEffortSpec {
            name: String::from("log"),
            weight: 100,
            quantum: 2,
            time_per_pdu: Service::from_micros(5),
            poll: Duration::from_millis(1),
        };
        assert!(BestEffort::new(spec.clone()).is_ok());
        let broken = [
            (BestEffortSpec { weight: 0, ..spec.clone() }, BestEffortError::Weight { weight: 0 }),
            (
                BestEffortSpec { weight: 101, ..spec.clone() },
                BestEffortError::Weight { weight: 101 },
            ),
            (BestEffortSpec { quantum: 0, ..spec.clone() }, BestEffortError::ZeroQuantum),
            (
                BestEffortSpec { time_per_pdu: Service::ZERO, ..spec.clone() },
                BestEffortError::ZeroTimePerPdu,
            ),
            (BestEffortSpec { poll: Duration::ZERO, ..spec.clone() }, BestEffortError::ZeroPoll),
        ];
        for (spec, why) in broken {
            assert_eq!(BestEffort::new(spec), Err(why));
        }
        let long = BestEffortSpec { time_per_pdu: Service::MAX, ..spec };
        assert!(matches!(BestEffort::new(long), Err(BestEffortError::QuantumTooLong { .. })));
    }
}
