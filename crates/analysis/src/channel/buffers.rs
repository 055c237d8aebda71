//! Buffers of jitter-constrained streams.
//!
//! # Source
//! L4ATM, §2.3, equation 2 (after Hamann's jitter-constrained streams): with `T` the spacing of
//! units at the sustained rate and `τ` the delay variation tolerance, `P = ⌈τ / T⌉`.
//!
//! # Assumptions and deviations
//! `P` is the number of units that `τ` alone requires; it does not include a unit in use. With
//! `τ = 0` it is zero, as printed.
//!
//! The result is exact: the quotient is formed from the rate in 128 bits, without rounding `T`.

use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::{AtmContract, LinearBounded};

/// Returns `P`, the units of buffer that absorb the delay variation tolerance.
pub fn buffer_units(contract: AtmContract) -> u64 {
    let spec = contract.spec();
    let above = u128::from(spec.delay_variation_tolerance.as_nanos())
        * u128::from(spec.sustained_rate.bits_per_second());
    // The quotient is at most a day over a nanosecond.
    u64::try_from(above.div_ceil(bit_nanos(spec.max_sdu))).unwrap_or(u64::MAX)
}

/// Returns [`buffer_units`] in bytes, or `None` if that exceeds 64 bits.
pub fn buffer_bytes(contract: AtmContract) -> Option<u64> {
    buffer_units(contract).checked_mul(u64::from(contract.spec().max_sdu))
}

fn bit_nanos(bytes: u32) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}

/// A component of a chain, with the time for which it holds a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// The shortest delay.
    pub least_delay: Duration,
    /// The longest delay; not below the shortest.
    pub most_delay: Duration,
}

/// Returns how many messages each component of `chain` may hold at once if `arrivals` feed the
/// first one. Returns `None` beyond 64 bits, or if a least delay is above its most.
///
/// # The bound
/// A message that is in a component at `t` entered it in `[t − most_delay, t]`. The stream that
/// enters component k has the spacing `I_min` and the jitter
/// `J_k = J_{k−1} + (most − least delay of k − 1)`, with `J_0 = (B_max − 1)·I_min`. So there are at
/// most `⌊(most_delay + J_k) / I_min⌋ + 1`.
///
/// # Assumptions
/// Components keep the order of a stream and do not hold early messages back. The bound also holds
/// with shaping between them (logical arrivals), but is then larger than necessary.
pub fn chain_buffers(arrivals: LinearBounded, chain: &[Component]) -> Option<Vec<u64>> {
    let mut jitter = arrivals.jitter()?;
    chain
        .iter()
        .map(|component| {
            let reach = component.most_delay.checked_add(jitter)?;
            if component.least_delay > component.most_delay {
                return None;
            }
            jitter = jitter.checked_add(component.most_delay - component.least_delay)?;
            (reach / arrivals.min_inter_arrival()).checked_add(1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::{BitRate, ServiceClass, TrafficSpec};

    fn contract(peak: u64, sustained: u64, sdu: u32, tolerance: Duration) -> AtmContract {
        AtmContract::new(TrafficSpec {
            class: ServiceClass::RtVbr,
            peak_rate: BitRate::new(peak).expect("valid"),
            sustained_rate: BitRate::new(sustained).expect("valid"),
            max_sdu: sdu,
            delay_variation_tolerance: tolerance,
        })
        .expect("valid")
    }

    /// L4ATM, §2.3: 12.5 Mbit/s, 8192-byte units and P = 24 KB. The peak rate and tolerance are not
    /// legible in print; these round numbers give the printed result.
    #[test]
    fn l4atm_24_kb() {
        let example = contract(16_000_000, 12_500_000, 8192, Duration::from_millis(14));
        assert_eq!(buffer_bytes(example), Some(24 * 1024));
    }

    #[test]
    fn no_tolerance_needs_no_buffer() {
        let constant = contract(1_000_000, 1_000_000, 100, Duration::ZERO);
        assert_eq!(buffer_units(constant), 0);
    }

    #[test]
    fn a_chain_needs_more_the_further_down_it_is() {
        let arrivals = LinearBounded::fixed(100, Duration::from_nanos(10), 2).expect("valid");
        let slow = Component {
            least_delay: Duration::from_nanos(5),
            most_delay: Duration::from_nanos(35),
        };
        // J = 10, 40, 70: ⌊45/10⌋ + 1, ⌊75/10⌋ + 1, ⌊105/10⌋ + 1.
        assert_eq!(chain_buffers(arrivals, &[slow; 3]), Some(alloc::vec![5, 8, 11]));
        let broken = Component { least_delay: Duration::from_nanos(36), ..slow };
        assert_eq!(chain_buffers(arrivals, &[broken]), None);
    }
}
