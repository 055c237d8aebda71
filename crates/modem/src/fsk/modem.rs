//! Samples on one side, bytes on the other.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use super::raw;
use crate::modem::Role;

/// One end of a V.21 call (ITU-T V.21), 300 bit/s both ways: characters of one start bit, eight data
/// bits and one stop bit, at 8000 samples a second. It speaks its carrier all the time.
///
/// ```
/// use punctual_modem::fsk::Modem;
/// use punctual_modem::modem::Role;
///
/// let (mut near, mut far) = (Modem::new(Role::Calling), Modem::new(Role::Answering));
/// assert!(near.send(b'!'));
/// let mut samples = [0; 400];
/// near.transmit_samples(&mut samples);
/// far.receive_samples(&samples);
/// assert_eq!(far.receive(), Some(b'!'));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem(raw::Fsk);

impl Modem {
    /// Creates a modem before its first sample.
    pub fn new(role: Role) -> Self {
        assert_eq!(raw::punctual_fsk_size() as usize, size_of::<raw::Fsk>(), "raw.rs is not fsk.h");
        let mut fsk = MaybeUninit::uninit();
        // SAFETY: the function writes a whole `struct fsk`, which has the size and the fields of
        // `raw::Fsk`.
        unsafe {
            raw::punctual_fsk_begin(fsk.as_mut_ptr(), u32::from(role == Role::Calling));
            Self(fsk.assume_init())
        }
    }

    /// Queues a byte to send. Returns `false` if 64 bytes wait already.
    pub fn send(&mut self, byte: u8) -> bool {
        // SAFETY: works on this struct alone, which is ours (`&mut self`).
        (unsafe { raw::punctual_fsk_put(&raw mut self.0, byte) }) != 0
    }

    /// Returns the received byte that has waited longest. While 64 bytes wait, further bytes are
    /// lost.
    pub fn receive(&mut self) -> Option<u8> {
        // SAFETY: as in `send`.
        u8::try_from(unsafe { raw::punctual_fsk_take(&raw mut self.0) }).ok()
    }

    /// Demodulates samples from the line.
    pub fn receive_samples(&mut self, samples: &[i16]) {
        for &sample in samples {
            // SAFETY: as in `send`.
            unsafe { raw::punctual_fsk_hear(&raw mut self.0, sample) };
        }
    }

    /// Fills `samples` with the next signal: queued bytes, or the mark of an idle line.
    pub fn transmit_samples(&mut self, samples: &mut [i16]) {
        for sample in samples {
            // SAFETY: as in `send`.
            *sample = unsafe { raw::punctual_fsk_speak(&raw mut self.0) };
        }
    }

    /// Returns true if there is a carrier: it is detected above about 48 dB below full scale and
    /// lost below 51.
    pub fn carrier(&self) -> bool {
        self.0.rx.carrier != 0
    }

    /// Returns the energy of the mark minus that of the space over the last bit: positive for a
    /// mark. The unit is that of squared sums of 27 samples in 1/2⁸.
    pub fn soft(&self) -> i64 {
        self.0.rx.soft
    }

    /// Returns the number of characters dropped because they had no stop bit.
    pub fn framing_errors(&self) -> u32 {
        self.0.rx.framing_errors
    }
}
