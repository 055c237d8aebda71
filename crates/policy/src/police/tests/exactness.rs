//! Nothing drifts, and nothing overflows at either end of time.

use super::*;

/// The size of an ATM cell.
const CELL: u32 = 53;

/// Sends a thousand million cells as early as they conform, a thousand at a time: each leaves at
/// the instant that one multiplication and one division give. A nanosecond of tolerance is enough.
#[test]
fn a_thousand_million_cells_do_not_drift() {
    const CELLS: u32 = 1_000;
    let bytes = CELL * CELLS;
    for bits in [149_760_000, 155_519_999, 353_207_547, 999_999_999_989] {
        for tolerance in [1u128, 1_234_567] {
            let of_tolerance = Duration::from_nanos(tolerance as u64);
            let mut policer = Gcra::new(rate(bits), bytes, of_tolerance, Charge::PerByte);
            let mut now = Instant::ZERO;
            for sent in 0..1_000_000u128 {
                let time = sent * u128::from(bytes) * 8_000_000_000;
                let due = time.saturating_sub(tolerance * u128::from(bits));
                let due = due.div_ceil(u128::from(bits)) as u64;
                if due > now.as_nanos() {
                    assert_eq!(policer.police(ns(due - 1), bytes), early(due), "{sent} at {bits}");
                    now = ns(due);
                }
                assert_eq!(policer.police(now, bytes), Verdict::Conforming, "{sent} at {bits}");
            }
        }
    }
}

/// The same for intervals: the k-th begins at the instant that one division gives.
#[test]
fn a_million_intervals_do_not_drift() {
    for bits in [149_760_000, 155_519_999, 999_999_999_989] {
        let mut credits = IntervalCredits::new(rate(bits), CELL, Sensitivity::Usual, ns(7));
        let mut now = ns(7);
        for interval in 1..1_000_000u128 {
            for _ in 0..10 {
                assert_eq!(credits.police(now, CELL), Verdict::Conforming);
            }
            let border = interval * u128::from(credits.credit()) * 8_000_000_000;
            let border = 7 + border.div_ceil(u128::from(bits)) as u64;
            assert_eq!(credits.police(now, CELL), early(border), "{interval} at {bits}");
            now = ns(border);
        }
    }
}

#[test]
fn the_ends_of_time() {
    let all = [1, 7, 999_999_999_989, 1_000_000_000_000];
    for (bits, max_sdu) in all.into_iter().flat_map(|bits| [(bits, 1), (bits, u32::MAX)]) {
        for tolerance in [Duration::ZERO, Duration::MAX] {
            for charge in [Charge::PerPdu, Charge::PerByte] {
                let mut gcra = Gcra::new(rate(bits), max_sdu, tolerance, charge);
                for now in [0, 0, 1, u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX] {
                    let verdict = gcra.police(ns(now), max_sdu);
                    assert!(tolerance.is_zero() || verdict == Verdict::Conforming || bits < 8);
                }
            }
        }
        let mut credits = IntervalCredits::new(rate(bits), max_sdu, Sensitivity::Sensitive, ns(0));
        let passed = [0, 0, 0, u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]
            .map(|now| credits.police(ns(now), max_sdu) == Verdict::Conforming);
        // The last instant has one interval, which is refilled once.
        assert!(!passed[8], "{bits} {max_sdu}");
        assert_eq!(passed[..2], [true, true]);
    }
}
