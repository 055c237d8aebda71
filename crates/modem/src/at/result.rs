//! Responses to the terminal: result codes in words and in numbers (V.250 §5.7 and Table 1).

use std::collections::VecDeque;

use super::registers::{Register, Registers};
use super::settings::{ErrorControl, Modulation, Settings};
use crate::at::settings::Compressed;

/// The largest number of bytes that wait for a terminal that does not read.
pub const OUTPUT_ROOM: usize = 4_096;

/// The properties of a connected call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The modulation in use.
    pub modulation: Modulation,
    /// Bit/s that this end sends.
    pub transmit_rate: u32,
    /// Bit/s that this end receives.
    pub receive_rate: u32,
    /// The error control in use.
    pub error_control: ErrorControl,
    /// The directions that are compressed.
    pub compression: Compressed,
}

/// A final or unsolicited result code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCode {
    /// The command line was executed.
    Ok,
    /// Data flows from here on.
    Connect(Connection),
    /// An incoming call rings.
    Ring,
    /// The call could not be connected, or is over.
    NoCarrier,
    /// The line was not understood, or executed only in part.
    Error,
    /// There was no dial tone.
    NoDialtone,
    /// The far end is busy.
    Busy,
    /// The far end rings and does not answer.
    NoAnswer,
}

impl ResultCode {
    /// Returns the code in words; `x` is the X parameter, which limits the detail (V.250 §6.2.7).
    pub(super) fn words(self, x: u8) -> String {
        match self.seen_through(x) {
            Self::Ok => "OK".into(),
            Self::Connect(connection) => match (x, connection) {
                (0, _) => "CONNECT".into(),
                (_, Connection { transmit_rate, receive_rate, .. })
                    if transmit_rate == receive_rate =>
                {
                    format!("CONNECT {transmit_rate}")
                }
                (_, Connection { transmit_rate, receive_rate, .. }) => {
                    format!("CONNECT {transmit_rate}TX/{receive_rate}RX")
                }
            },
            Self::Ring => "RING".into(),
            Self::NoCarrier => "NO CARRIER".into(),
            Self::Error => "ERROR".into(),
            Self::NoDialtone => "NO DIALTONE".into(),
            Self::Busy => "BUSY".into(),
            Self::NoAnswer => "NO ANSWER".into(),
        }
    }

    /// Returns the code as a number. V.250 leaves the numbers of the speeds to the manufacturer;
    /// these are the ones that clients know: 10 for 2400, 22 and 23 for the two ends of V.23.
    pub(super) fn number(self, x: u8) -> u8 {
        match self.seen_through(x) {
            Self::Ok => 0,
            Self::Connect(connection) => {
                match (x, connection.transmit_rate, connection.receive_rate) {
                    (0, ..) => 1,
                    (_, 1200, 1200) => 5,
                    (_, 2400, 2400) => 10,
                    (_, 75, 1200) => 22,
                    (_, 1200, 75) => 23,
                    _ => 1,
                }
            }
            Self::Ring => 2,
            Self::NoCarrier => 3,
            Self::Error => 4,
            Self::NoDialtone => 6,
            Self::Busy => 7,
            Self::NoAnswer => 8,
        }
    }

    /// Returns the code that X allows: without dial tone detection (X0, X1, X3) or busy detection
    /// (X0, X1, X2) it is NO CARRIER.
    fn seen_through(self, x: u8) -> Self {
        match self {
            Self::NoDialtone if !matches!(x, 2 | 4) => Self::NoCarrier,
            Self::Busy if !matches!(x, 3 | 4) => Self::NoCarrier,
            other => other,
        }
    }
}

/// Bytes on their way to the terminal, bounded. A text that does not fit is dropped as a whole and
/// counted.
#[derive(Clone, Debug)]
pub(super) struct Output {
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl Output {
    pub(super) fn new() -> Self {
        Self { bytes: VecDeque::with_capacity(OUTPUT_ROOM), dropped: 0 }
    }

    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.bytes.len());
        for (slot, byte) in into.iter_mut().zip(self.bytes.drain(..count)) {
            *slot = byte;
        }
        count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() <= OUTPUT_ROOM {
            self.bytes.extend(bytes);
        } else {
            self.dropped += bytes.len() as u64;
        }
    }

    /// Writes a result code in the form that V selects, unless Q suppresses it (V.250 §5.7.1,
    /// §6.2.6).
    pub(super) fn result(&mut self, code: ResultCode, settings: &Settings) {
        if settings.quiet {
            return;
        }
        let (cr, lf) = ends(&settings.registers);
        if settings.verbose {
            self.put(&[&[cr, lf], code.words(settings.x).as_bytes(), &[cr, lf]].concat());
        } else {
            self.put(&[code.number(settings.x).to_string().as_bytes(), &[cr]].concat());
        }
    }

    /// Writes information text: never suppressed, and in words whatever V says (V.250 §5.7.1).
    pub(super) fn information(&mut self, text: &str, settings: &Settings) {
        let (cr, lf) = ends(&settings.registers);
        let before: &[u8] = if settings.verbose { &[cr, lf] } else { &[] };
        let lines = text.split('\n').collect::<Vec<_>>();
        let joined = lines.join(&format!("{}{}", char::from(cr), char::from(lf)));
        self.put(&[before, joined.as_bytes(), &[cr, lf]].concat());
    }
}

fn ends(registers: &Registers) -> (u8, u8) {
    (registers.get(Register::Terminator), registers.get(Register::Formatter))
}
