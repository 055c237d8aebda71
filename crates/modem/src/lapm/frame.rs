//! Addresses and control fields (V.42 §8.2): parses and writes the heads of frames.

use crate::modem::Role;

use super::hdlc::Frame;

/// Sequence numbers on the line count modulo 128.
pub const MODULUS: u8 = 128;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Information: the frame's number and the next number expected.
    I {
        /// N(S).
        ns: u8,
        /// N(R).
        nr: u8,
    },
    /// Ready to receive.
    Rr {
        /// N(R).
        nr: u8,
    },
    /// Not ready to receive.
    Rnr {
        /// N(R).
        nr: u8,
    },
    /// Reject: send again from N(R) on.
    Rej {
        /// N(R).
        nr: u8,
    },
    /// Selective reject: send N(R) again. This end does not offer the option.
    Srej {
        /// N(R).
        nr: u8,
    },
    /// Set up the connection, with both ends at zero.
    Sabme,
    /// Not connected.
    Dm,
    /// Unnumbered information: a break signal.
    Ui,
    /// Disconnect.
    Disc,
    /// Acknowledges SABME or DISC.
    Ua,
    /// Reports a frame that made no sense.
    Frmr,
    /// The capabilities of an end.
    Xid,
    /// A test.
    Test,
}

/// Unnumbered frames: the control field without its P/F bit.
const UNNUMBERED: [(u8, Kind); 8] = [
    (0x6f, Kind::Sabme),
    (0x0f, Kind::Dm),
    (0x03, Kind::Ui),
    (0x43, Kind::Disc),
    (0x63, Kind::Ua),
    (0x87, Kind::Frmr),
    (0xaf, Kind::Xid),
    (0xe3, Kind::Test),
];

const UNNUMBERED_POLL: u8 = 0x10;

/// A frame's address and control field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// True for a command, false for a response.
    pub command: bool,
    /// The type of the frame.
    pub kind: Kind,
    /// The P bit of a command, the F bit of a response.
    pub poll: bool,
}

impl Head {
    /// Parses a frame sent by `sender` into its head and its information. Returns `None` if it
    /// belongs to another connection than the one that modems use (DLCI 0), or is no frame of V.42.
    pub fn parse(sender: Role, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&address, rest) = bytes.split_first()?;
        let command = match address {
            0x03 => sender == Role::Calling,
            0x01 => sender == Role::Answering,
            _ => return None,
        };
        let (&control, rest) = rest.split_first()?;
        if control & 3 == 3 {
            let (_, kind) =
                UNNUMBERED.into_iter().find(|&(code, _)| code == control & !UNNUMBERED_POLL)?;
            return Some((Self { command, kind, poll: control & UNNUMBERED_POLL != 0 }, rest));
        }
        let (&second, rest) = rest.split_first()?;
        let nr = second >> 1;
        let kind = match control {
            _ if control & 1 == 0 => Kind::I { ns: control >> 1, nr },
            0x01 => Kind::Rr { nr },
            0x05 => Kind::Rnr { nr },
            0x09 => Kind::Rej { nr },
            0x0d => Kind::Srej { nr },
            _ => return None,
        };
        Some((Self { command, kind, poll: second & 1 == 1 }, rest))
    }

    /// Writes the frame that `sender` sends with this head.
    pub fn write(self, sender: Role, information: &[u8]) -> Frame {
        let address = if self.command == (sender == Role::Calling) { 0x03 } else { 0x01 };
        let poll = u8::from(self.poll);
        let numbered = |first, nr: u8| Frame::new(&[address, first, nr << 1 | poll], information);
        match self.kind {
            Kind::I { ns, nr } => numbered(ns << 1, nr),
            Kind::Rr { nr } => numbered(0x01, nr),
            Kind::Rnr { nr } => numbered(0x05, nr),
            Kind::Rej { nr } => numbered(0x09, nr),
            Kind::Srej { nr } => numbered(0x0d, nr),
            kind => {
                let code = UNNUMBERED.iter().find(|row| row.1 == kind).map_or(0, |row| row.0);
                Frame::new(&[address, code | (poll * UNNUMBERED_POLL)], information)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_frames_have_their_known_bytes() {
        let frame = |sender, command, kind, poll| {
            Head { command, kind, poll }.write(sender, b"x").bytes().to_vec()
        };
        use Role::{Answering, Calling};
        assert_eq!(frame(Calling, true, Kind::Sabme, true), [0x03, 0x7f, b'x']);
        assert_eq!(frame(Answering, false, Kind::Ua, true), [0x03, 0x73, b'x']);
        assert_eq!(frame(Answering, true, Kind::Disc, true), [0x01, 0x53, b'x']);
        assert_eq!(frame(Calling, true, Kind::Xid, false), [0x03, 0xaf, b'x']);
        let information = Kind::I { ns: 5, nr: 127 };
        assert_eq!(frame(Calling, true, information, false), [0x03, 0x0a, 0xfe, b'x']);
        assert_eq!(frame(Calling, false, Kind::Rr { nr: 3 }, true), [0x01, 0x01, 0x07, b'x']);
        assert_eq!(frame(Answering, true, Kind::Rej { nr: 1 }, false), [0x01, 0x09, 0x02, b'x']);
    }

    #[test]
    fn every_head_reads_back_and_everything_else_is_refused() {
        let mut read = 0;
        for sender in [Role::Calling, Role::Answering] {
            for bytes in 0..1 << 24_u32 {
                // All first three bytes, thinned out where the rest does not matter.
                if bytes >> 16 > 7 {
                    break;
                }
                let bytes = [(bytes >> 16) as u8, (bytes >> 8) as u8, bytes as u8];
                if let Some((head, information)) = Head::parse(sender, &bytes) {
                    assert_eq!(head.write(sender, information).bytes(), bytes);
                    read += 1;
                }
            }
        }
        // Two ends, two addresses: 128 · 256 I frames, 4 · 256 supervisory, 16 · 256 unnumbered.
        assert_eq!(read, 4 * (128 * 256 + 4 * 256 + 16 * 256));
        for short in [&[][..], &[3], &[3, 0], &[3, 1]] {
            assert_eq!(Head::parse(Role::Calling, short), None);
        }
    }
}
