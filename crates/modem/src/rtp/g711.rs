//! G.711: 16-bit samples as 8 bits, in segments whose steps double (ITU-T G.711, Tables 1 and 2).

/// The companding law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// µ-law: RTP payload type 0.
    Mu,
    /// A-law: RTP payload type 8.
    A,
}

/// The bias that µ-law adds before it determines the segment, in 16-bit scale.
const BIAS: i32 = 132;

impl Law {
    /// Returns the RTP payload type (RFC 3551, Table 4).
    pub fn payload_type(self) -> u8 {
        match self {
            Self::Mu => 0,
            Self::A => 8,
        }
    }

    /// Returns the law of an RTP payload type, if it has one.
    pub fn of_payload_type(payload_type: u8) -> Option<Self> {
        [Self::Mu, Self::A].into_iter().find(|law| law.payload_type() == payload_type)
    }

    /// Encodes a sample as the interval between two decision values that contains it.
    pub fn encode(self, sample: i16) -> u8 {
        let sample = i32::from(sample);
        match self {
            Self::Mu => {
                let size = (sample.abs() + BIAS).min(0x7fff);
                let segment = 31 - (size >> 7).leading_zeros() as i32;
                let code = segment << 4 | (size >> (segment + 3) & 0x0f);
                // The sign first, and all bits inverted on the line.
                !(if sample < 0 { 0x80 | code } else { code }) as u8
            }
            Self::A => {
                // A negative sample has its decision values one lower, so that −1 mirrors 0.
                let size = if sample < 0 { !sample } else { sample };
                let segment = 32 - (size >> 8).leading_zeros() as i32;
                let code = segment << 4 | (size >> (segment.max(1) + 3) & 0x0f);
                // Every second bit is inverted on the line.
                (if sample < 0 { code } else { 0x80 | code } ^ 0x55) as u8
            }
        }
    }

    /// Decodes a byte to the middle of its interval.
    pub fn decode(self, byte: u8) -> i16 {
        let (code, negative) = match self {
            Self::Mu => (!byte, byte & 0x80 == 0),
            Self::A => (byte ^ 0x55, byte & 0x80 == 0),
        };
        let segment = i32::from(code >> 4 & 7);
        let step = i32::from(code & 0x0f);
        let size = match self {
            Self::Mu => (((step << 3) + BIAS) << segment) - BIAS,
            Self::A if segment == 0 => (step << 4) + 8,
            Self::A => ((step << 4) + 8 + 256) << (segment - 1),
        };
        (if negative { -size } else { size }) as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAWS: [Law; 2] = [Law::Mu, Law::A];

    #[test]
    fn every_byte_comes_back_from_its_own_sample() {
        for law in LAWS {
            for byte in 0..=255 {
                let again = law.encode(law.decode(byte));
                // µ-law has two zeros.
                let same = again == byte || law.decode(again) == 0 && law.decode(byte) == 0;
                assert!(same, "{law:?} {byte:02x} {again:02x}");
            }
        }
    }

    #[test]
    fn values_of_the_tables() {
        // G.711 Table 2a/2b: 8031, 4191, 99, 2 and 0 of 8159, in 16-bit scale four times that.
        for (byte, value) in
            [(0x80, 8031), (0x8f, 4191), (0x90, 3999), (0xef, 33), (0xfe, 2), (0xff, 0)]
        {
            assert_eq!(Law::Mu.decode(byte), value * 4, "{byte:02x}");
        }
        assert_eq!(Law::Mu.decode(0x00), -8031 * 4);
        // Table 1a/1b: 4032, 2112, 1 of 4096, in 16-bit scale eight times that.
        for (byte, value) in [(0xaa, 4032), (0xa5, 2112), (0xd5, 1), (0x55, -1), (0x2a, -4032)] {
            assert_eq!(Law::A.decode(byte), value * 8, "{byte:02x}");
        }
    }

    /// Computes the decision values as the tables give them: steps that double from segment to
    /// segment, in 16-bit scale.
    fn decisions(law: Law) -> Vec<i32> {
        let (scale, first, steps) = match law {
            Law::Mu => (4, vec![0, 1], [15, 16, 16, 16, 16, 16, 16, 16]),
            Law::A => (8, vec![0], [32, 16, 16, 16, 16, 16, 16, 0]),
        };
        let mut values = first;
        for (segment, count) in steps.into_iter().enumerate() {
            for _ in 0..count {
                values.push(values[values.len() - 1] + (2 << segment));
            }
        }
        values.into_iter().map(|value| value * scale).collect()
    }

    /// Checks every sample the slow way: searches for its interval, and numbers it as the tables
    /// do.
    #[test]
    fn every_sample_is_coded_as_its_interval() {
        for law in LAWS {
            let decisions = decisions(law);
            assert_eq!(decisions.len(), 129);
            for sample in i16::MIN..=i16::MAX {
                let size = match law {
                    Law::A if sample < 0 => !i32::from(sample),
                    _ => i32::from(sample).abs(),
                };
                let code =
                    decisions.iter().rposition(|&from| from <= size).expect("from 0").min(127);
                let byte = match law {
                    Law::Mu => !(code as u8 | if sample < 0 { 0x80 } else { 0 }),
                    Law::A => (code as u8 | if sample < 0 { 0 } else { 0x80 }) ^ 0x55,
                };
                assert_eq!(law.encode(sample), byte, "{law:?} {sample}");
                let middle = i32::from(law.decode(byte)).abs();
                let (from, to) = (decisions[code], decisions[code + 1]);
                // µ-law's first interval reaches to both sides of zero.
                let first = law == Law::Mu && code == 0;
                assert_eq!(middle, if first { 0 } else { (from + to) / 2 }, "{law:?} {sample}");
            }
        }
    }
}
