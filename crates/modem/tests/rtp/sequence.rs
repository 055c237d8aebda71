//! Sequence numbers: from senders whose real numbers are known, and random ones.

use punctual_modem::rtp::sequence::{MAX_DROPOUT, MAX_MISORDER, MIN_SEQUENTIAL, Sequence, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A.1 as the RFC writes it, in its own terms: the slow way to decide which packets are valid.
#[derive(Default)]
struct Oracle {
    begun: bool,
    max_seq: u32,
    cycles: u64,
    base_seq: u32,
    bad_seq: u32,
    probation: u8,
    received: u64,
}

const SEQ_MOD: u32 = 1 << 16;

impl Oracle {
    fn init(&mut self, seq: u32) {
        (self.base_seq, self.max_seq, self.cycles, self.received) = (seq, seq, 0, 0);
        self.bad_seq = SEQ_MOD + 1;
    }

    fn update(&mut self, seq: u16) -> bool {
        let seq = u32::from(seq);
        if !self.begun {
            self.begun = true;
            self.init(seq);
            self.max_seq = (seq + SEQ_MOD - 1) % SEQ_MOD;
            self.probation = MIN_SEQUENTIAL;
        }
        let udelta = (seq + SEQ_MOD - self.max_seq) % SEQ_MOD;
        if self.probation > 0 {
            if seq == (self.max_seq + 1) % SEQ_MOD {
                self.probation -= 1;
                self.max_seq = seq;
                if self.probation == 0 {
                    self.init(seq);
                    self.received += 1;
                    return true;
                }
            } else {
                self.probation = MIN_SEQUENTIAL - 1;
                self.max_seq = seq;
            }
            return false;
        }
        if udelta < u32::from(MAX_DROPOUT) {
            if seq < self.max_seq {
                self.cycles += u64::from(SEQ_MOD);
            }
            self.max_seq = seq;
        } else if udelta <= SEQ_MOD - u32::from(MAX_MISORDER) {
            if seq == self.bad_seq {
                self.init(seq);
            } else {
                self.bad_seq = (seq + 1) % SEQ_MOD;
                return false;
            }
        }
        self.received += 1;
        true
    }

    fn expected(&self) -> u64 {
        (self.cycles + u64::from(self.max_seq) + 1).wrapping_sub(u64::from(self.base_seq))
    }
}

fn is_valid(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Probation | Verdict::Jump)
}

#[test]
fn whatever_comes_is_judged_as_the_rfc_does() {
    let (mut valid, mut jumps) = (0_u32, 0_u32);
    for seed in 0..5_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut oracle = Oracle::default();
        let mut sequence = Sequence::default();
        let mut next = rng.next_u32() as u16;
        for _ in 0..200 {
            let step = match rng.next_u32() % 12 {
                0 => rng.next_u32() as u16,
                1 => [2_999, 3_000, 3_001, 65_436, 65_437, 65_435, 0][rng.next_u32() as usize % 7],
                2 => (rng.next_u32() % 40) as u16,
                3 => 0_u16.wrapping_sub((rng.next_u32() % 110) as u16),
                _ => 1,
            };
            next = next.wrapping_add(step);
            let verdict = sequence.packet(next);
            assert_eq!(is_valid(verdict), oracle.update(next), "seed {seed}: {next} {verdict:?}");
            if sequence.is_valid() {
                assert_eq!(sequence.received(), oracle.received, "seed {seed}");
                assert_eq!(sequence.expected(), oracle.expected(), "seed {seed}");
            }
            valid += u32::from(is_valid(verdict));
            jumps += u32::from(verdict == Verdict::Jump);
        }
    }
    assert!(valid > 100_000 && jumps > 10_000, "{valid} {jumps}");
}

#[test]
fn numbers_are_extended_right_through_many_wraps() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let first = rng.next_u32() as u16;
        let mut sequence = Sequence::default();
        let _ = sequence.packet(first.wrapping_sub(1));
        let Verdict::Begins { extended: base } = sequence.packet(first) else { panic!("begins") };
        let mut real = 0_u64;
        for _ in 0..20_000 {
            real += u64::from(1 + rng.next_u32() % 30);
            let verdict = sequence.packet(first.wrapping_add(real as u16));
            assert_eq!(verdict, Verdict::Next { extended: base + real });
            // One from a little earlier.
            let back = u64::from(rng.next_u32() % u32::from(MAX_MISORDER));
            let earlier = sequence.packet(first.wrapping_add(real.wrapping_sub(back) as u16));
            let extended = (real >= back).then(|| base + real - back);
            assert_eq!(earlier, Verdict::Earlier { extended });
        }
        assert!(real > 4 * 65_536);
        assert_eq!(sequence.expected(), real + 1);
        assert_eq!(sequence.lost(), real as i64 + 1 - 40_001);
    }
}

#[test]
fn a_hostile_number_alone_changes_nothing() {
    let mut sequence = Sequence::default();
    let _ = sequence.packet(9);
    let _ = sequence.packet(10);
    for (round, hostile) in (5_000..60_000_u16).step_by(7).enumerate() {
        if sequence.packet(hostile) != Verdict::Jump {
            // By now the stream itself has come near.
            continue;
        }
        let next = 11 + round as u16;
        assert!(matches!(sequence.packet(next), Verdict::Next { .. }), "{hostile}");
    }
    // Two in a row are a restarted stream.
    let far = (sequence.expected() as u16).wrapping_add(30_000);
    assert_eq!(sequence.packet(far), Verdict::Jump);
    assert!(matches!(sequence.packet(far + 1), Verdict::Begins { .. }));
}
