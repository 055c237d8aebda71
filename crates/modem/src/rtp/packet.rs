//! RTP packets (RFC 3550 §5.1): parses and writes the header.

/// Bytes of a header without contributing sources.
pub const HEADER: usize = 12;

/// The reason why bytes are no RTP packet. The numbers are taken from the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is cut off.
    #[error("{len} bytes are no RTP packet: its header alone needs {needed}")]
    Short {
        /// The number of bytes present.
        len: usize,
        /// The least number of bytes needed.
        needed: usize,
    },
    /// Another version, or another protocol.
    #[error("RTP version {version} instead of 2: another protocol is sent to this port")]
    Version {
        /// The version found.
        version: u8,
    },
    /// The packet claims more padding than it has bytes, or none.
    #[error("the packet claims {padding} bytes of padding in {payload} bytes of payload")]
    Padding {
        /// The value of its last byte.
        padding: u8,
        /// The payload's bytes, padding included.
        payload: usize,
    },
}

/// A packet whose payload borrows the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// For G.711: true for the first packet after a silence.
    pub marker: bool,
    /// The type of the payload, 0 to 127.
    pub payload_type: u8,
    /// The packet's number, modulo 2¹⁶.
    pub sequence: u16,
    /// The number of the first sample, modulo 2³².
    pub timestamp: u32,
    /// The identifier of the sending source.
    pub ssrc: u32,
    /// The payload without padding, contributing sources and header extension.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet. Contributing sources and a header extension are skipped.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let short = |needed| PacketError::Short { len: bytes.len(), needed };
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(short(HEADER))?;
        let [first, second, s0, s1, t0, t1, t2, t3, i0, i1, i2, i3] = *header;
        if first >> 6 != 2 {
            return Err(PacketError::Version { version: first >> 6 });
        }
        let sources = 4 * usize::from(first & 0x0f);
        let mut rest = rest.get(sources..).ok_or(short(HEADER + sources))?;
        if first & 0x10 != 0 {
            let (&[_, _, high, low], after) =
                rest.split_first_chunk::<4>().ok_or(short(HEADER + sources + 4))?;
            let words = 4 * usize::from(u16::from_be_bytes([high, low]));
            rest = after.get(words..).ok_or(short(HEADER + sources + 4 + words))?;
        }
        if first & 0x20 != 0 {
            let padding = rest.last().copied().unwrap_or(0);
            let kept = rest.len().checked_sub(padding.into()).filter(|_| padding > 0);
            rest = kept
                .map(|kept| &rest[..kept])
                .ok_or(PacketError::Padding { padding, payload: rest.len() })?;
        }
        Ok(Self {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7f,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([i0, i1, i2, i3]),
            payload: rest,
        })
    }

    /// Appends the packet to `into`.
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend([2 << 6, u8::from(self.marker) << 7 | self.payload_type & 0x7f]);
        into.extend(self.sequence.to_be_bytes());
        into.extend(self.timestamp.to_be_bytes());
        into.extend(self.ssrc.to_be_bytes());
        into.extend(self.payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Packet<'static> = Packet {
        marker: true,
        payload_type: 8,
        sequence: 0x0102,
        timestamp: 0x0304_0506,
        ssrc: 0x0708_090a,
        payload: b"sound",
    };

    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        PACKET.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_packet_has_the_bytes_of_the_rfc_and_reads_back() {
        assert_eq!(bytes(), b"\x80\x88\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0asound");
        assert_eq!(Packet::parse(&bytes()), Ok(PACKET));
    }

    #[test]
    fn sources_extensions_and_padding_are_taken_off() {
        let mut bytes = bytes();
        bytes[0] |= 0x20 | 0x10 | 2;
        // Two sources, an extension of one word, and after the payload three bytes of padding.
        let more = [1, 1, 1, 1, 2, 2, 2, 2, 0xbe, 0xde, 0, 1, 9, 9, 9, 9];
        bytes.splice(HEADER..HEADER, more);
        bytes.extend([0, 0, 3]);
        assert_eq!(Packet::parse(&bytes), Ok(PACKET));
        for len in 0..HEADER + more.len() {
            assert!(
                matches!(Packet::parse(&bytes[..len]), Err(PacketError::Short { .. })),
                "{len}"
            );
        }
    }

    #[test]
    fn invalid_packets_are_refused_with_their_numbers() {
        let mut wrong = bytes();
        wrong[0] = 0x40;
        assert_eq!(Packet::parse(&wrong), Err(PacketError::Version { version: 1 }));
        for (last, padding) in [(0, 0), (6, 6)] {
            let mut wrong = bytes();
            wrong[0] |= 0x20;
            *wrong.last_mut().expect("not empty") = last;
            assert_eq!(Packet::parse(&wrong), Err(PacketError::Padding { padding, payload: 5 }));
        }
        assert_eq!(
            Packet::parse(&[0x80]).expect_err("short").to_string(),
            "1 bytes are no RTP packet: its header alone needs 12"
        );
    }
}
