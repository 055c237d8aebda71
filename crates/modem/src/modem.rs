//! One end of a call: a V.22bis modem (2400 bit/s, full duplex) that moves frames.
//!
//! The modem is SpanDSP's: its handshake, equaliser and timing recovery are real, and so is the
//! effect of a lost sample. It does not report NO CARRIER when its receiver loses synchronisation:
//! it stays [`Carrier::Connected`] and delivers garbage, which the frames' CRC catches.

use crate::ffi::{BitPipe, HdlcRx, HdlcTx, OutOfMemory, Status, V22bis};
use crate::transfer::{Receiver, Source};

/// The end of the call: the two use different carriers (1200 and 2400 Hz).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that placed the call.
    Calling,
    /// The end that answers it.
    Answering,
}

/// The last report of a modem's receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carrier {
    /// No signal yet, or it went away.
    #[default]
    Silent,
    /// A signal is present and the handshake is under way.
    Training,
    /// The handshake succeeded: bits flow.
    Connected,
    /// The handshake failed.
    Failed,
}

/// Bits that an end sends as flags after its own handshake: one second of line time. The far end
/// may still be in its handshake for a few hundred milliseconds, and nothing is sent twice.
const SETTLE_BITS: u32 = 2_400;

/// The C library could not allocate a modem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory for another modem")]
pub struct NoModem;

impl From<OutOfMemory> for NoModem {
    fn from(_: OutOfMemory) -> Self {
        Self
    }
}

/// One end of a call. Allocates only when created.
pub struct Modem {
    pump: V22bis<Framed>,
}

impl Modem {
    /// Creates a modem before its handshake, which begins with the first samples.
    pub fn new(role: Role, sends: Source, receives: Receiver) -> Result<Self, NoModem> {
        let framed = Framed {
            source: sends,
            framer: HdlcTx::new()?,
            deframer: HdlcRx::new(receives)?,
            carrier: Carrier::default(),
            settling: SETTLE_BITS,
        };
        Ok(Self { pump: V22bis::new(role == Role::Calling, framed)? })
    }

    /// Takes samples from the line, 16-bit linear at 8 kHz.
    pub fn receive_samples(&mut self, samples: &[i16]) {
        self.pump.rx(samples);
    }

    /// Fills `samples` with the next samples for the line.
    pub fn transmit_samples(&mut self, samples: &mut [i16]) {
        self.pump.tx(samples);
    }

    /// Returns the receiver's last report.
    pub fn carrier(&self) -> Carrier {
        self.pump.pipe().carrier
    }

    /// Returns the receiver of the frames.
    pub fn received(&self) -> &Receiver {
        self.pump.pipe().deframer.sink()
    }

    /// Returns the number of frames received with a wrong CRC.
    pub fn bad_frames(&self) -> u64 {
        self.pump.pipe().deframer.crc_errors()
    }

    /// Returns the source of the frames being sent.
    pub fn source(&self) -> &Source {
        &self.pump.pipe().source
    }
}

/// The bit side of a modem: frames to bits and back.
struct Framed {
    source: Source,
    framer: HdlcTx,
    deframer: HdlcRx<Receiver>,
    carrier: Carrier,
    /// Bits still to be sent as flags before the first frame.
    settling: u32,
}

impl BitPipe for Framed {
    fn get_bit(&mut self) -> bool {
        if self.carrier == Carrier::Connected {
            if self.settling > 0 {
                self.settling -= 1;
            } else if self.framer.is_idle()
                && let Some(frame) = self.source.next_frame()
            {
                let taken = self.framer.send(frame.bytes());
                debug_assert!(
                    taken,
                    "an idle framer takes a frame of {} bytes",
                    frame.bytes().len()
                );
            }
        }
        self.framer.get_bit()
    }

    fn put_bit(&mut self, bit: bool) {
        self.deframer.put_bit(bit);
    }

    fn status(&mut self, status: Status) {
        self.carrier = match status {
            Status::CarrierDown => Carrier::Silent,
            Status::CarrierUp | Status::TrainingInProgress => Carrier::Training,
            Status::TrainingSucceeded => Carrier::Connected,
            Status::TrainingFailed => Carrier::Failed,
        };
        self.settling = SETTLE_BITS;
    }
}
