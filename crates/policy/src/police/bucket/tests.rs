use punctual_model::channel::BitRate;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn measures(bits: u64, tolerance: u64, max_sdu: u32) -> Measures {
    let scale = Scale::new(BitRate::new(bits).expect("valid"));
    let tolerance = scale.ticks(tolerance);
    Measures { scale, tolerance, per_byte: scale.per_byte, per_pdu: 7, max_sdu }
}

/// Makes a bucket that uses the wide form.
fn wide(measures: Measures) -> Fractions {
    let narrow = Measures { tolerance: u128::from(u64::MAX), ..measures };
    let narrow = Narrow::new(narrow, 0, Instant::ZERO);
    assert!(!narrow.in_use());
    Fractions { narrow, wide: Wide::new(measures, 0), measures }
}

/// The number of occurrences of each case.
#[derive(Debug, Default)]
struct Seen {
    whole: u32,
    narrow: u32,
    early: u32,
    back: u32,
    begun_anew: u32,
}

/// Compares the forms at rates with whole nanoseconds per byte and at others, at instants over all
/// of time: far apart at first, and sometimes before the last one.
fn compare(seed: u64, seen: &mut Seen) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let fixed = [1_000_000, 8_000_000, 40_000_000, 1_000_000_000, 155_520_000, 999_999_999_989];
    let bits = match rng.random_range(0..2) {
        0 => fixed[rng.random_range(0..fixed.len())],
        _ => rng.random_range(1_000_000..20_000_000_000),
    };
    // The time of the largest PDU.
    let mean = 12_000_000_000_000 / bits;
    let measures = measures(bits, rng.random_range(0..2 * mean + 2), 1_500);
    let (mut fast, mut wide) = (Tat::new(measures), wide(measures));
    let starts = [0, 1 << 40, MOST - 30 * mean, u64::MAX - 60 * mean - 300, u64::MAX / 2];
    let mut now = starts[rng.random_range(0..starts.len())];
    for _ in 0..100 {
        let gap = rng.random_range(0..2 * mean + 2) * u64::from(rng.random_bool(0.8));
        let before = now;
        now = match rng.random_range(0..60) {
            0 => now.saturating_sub(gap),
            1 => now.saturating_add(gap << rng.random_range(0..24)),
            _ => now.saturating_add(gap),
        };
        seen.back += u32::from(now < before);
        let (at, bytes) = (Instant::from_nanos(now), rng.random_range(0..=1_500));
        seen.begun_anew += u32::from(!fast.whole.reaches(at) && !fast.fractions.narrow.reaches(at));
        assert!(fast.fractions.narrow.in_use(), "64 bits are enough, seed {seed}");
        let may = wide.may_come(at);
        assert_eq!((fast.takes(at, bytes), wide.takes(at, bytes)), (may, may), "seed {seed}");
        if !may {
            assert_eq!(fast.conforms_at(), wide.measures.conforms_at(wide.tat()), "seed {seed}");
            seen.early += 1;
        }
        assert_eq!(fast.tat(), wide.tat(), "seed {seed}");
        match fast.whole.in_use() {
            true => seen.whole += 1,
            false => seen.narrow += 1,
        }
    }
}

#[test]
fn both_widths_say_the_same() {
    let mut seen = Seen::default();
    (0..2_000).for_each(|seed| compare(seed, &mut seen));
    let Seen { whole, narrow, early, back, begun_anew } = seen;
    assert!(whole > 10_000 && narrow > 10_000, "{seen:?}");
    assert!(early > 1_000 && back > 1_000 && begun_anew > 1_000, "{seen:?}");
}

#[test]
fn a_form_is_as_cheap_as_its_measures_allow() {
    let forms = |bits, tolerance, max_sdu| {
        let tat = Tat::new(measures(bits, tolerance, max_sdu));
        (tat.whole.in_use(), tat.fractions.narrow.in_use())
    };
    assert_eq!(forms(8_000_000_000, MOST - 1_507, 1_500), (true, true));
    assert_eq!(forms(8_000_000_000, MOST - 1_506, 1_500), (false, false));
    assert_eq!(forms(12_000_000_000, 1_000_000_000, 1_500), (false, true));
    assert_eq!(forms(999_999_999_989, 1_000_000_000, 1_500), (false, false));
    assert_eq!(forms(1, 0, u32::MAX), (false, false));
}

/// Tests a sender that was silent for longer than its form reaches, and instants where forms end.
#[test]
fn silences_of_any_length_end_exactly() {
    for bits in [8_000_000_000, 1_000_000_000, 12_000_000_000, 155_520_000, 999_999_999_989] {
        let measures = measures(bits, 1_000, 1_500);
        let (mut fast, mut wide) = (Tat::new(measures), wide(measures));
        let around = (0..64).map(|power| 1_u64 << power).flat_map(|at| [at - 1, at, at + 1]);
        for now in around.chain([u64::MAX - 1, u64::MAX, u64::MAX]) {
            let at = Instant::from_nanos(now);
            assert_eq!(fast.takes(at, 1_500), wide.takes(at, 1_500), "{bits} at {now}");
            assert_eq!(fast.tat(), wide.tat(), "{bits} at {now}");
            assert_eq!(
                fast.conforms_at(),
                wide.measures.conforms_at(wide.tat()),
                "{bits} at {now}"
            );
        }
    }
}

#[test]
fn bytes_and_nanoseconds_are_whole_ticks() {
    let of = |bits| Scale::new(BitRate::new(bits).expect("valid"));
    assert_eq!(of(10_000_000), Scale { per_nano: 1, per_byte: 800 });
    assert_eq!(of(12_000_000_000), Scale { per_nano: 3, per_byte: 2 });
    assert_eq!(of(1), Scale { per_nano: 1, per_byte: 8_000_000_000 });
    assert_eq!(of(7), Scale { per_nano: 7, per_byte: 8_000_000_000 });
    let scale = of(12_000_000_000);
    for (ticks, nanos) in [(0, 0), (1, 1), (3, 1), (4, 2)] {
        assert_eq!(scale.instant_at_or_after(ticks).as_nanos(), nanos);
    }
    assert_eq!(scale.instant_at_or_after(scale.ticks(u64::MAX)), Instant::MAX);
    assert_eq!(scale.instant_at_or_after(u128::MAX), Instant::MAX);
}
