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
    /// A modem before its first sample.
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

    /// Takes a byte to send, or gives `false`: 64 wait already.
    pub fn send(&mut self, byte: u8) -> bool {
        // SAFETY: works on this struct alone, which is ours (`&mut self`).
        (unsafe { raw::punctual_fsk_put(&raw mut self.0, byte) }) != 0
    }

    /// The byte received that waits longest. What is not taken while 64 wait is lost.
    pub fn receive(&mut self) -> Option<u8> {
        // SAFETY: as in `send`.
        u8::try_from(unsafe { raw::punctual_fsk_take(&raw mut self.0) }).ok()
    }

    /// Demodulates what came from the line.
    pub fn receive_samples(&mut self, samples: &[i16]) {
        for &sample in samples {
            // SAFETY: as in `send`.
            unsafe { raw::punctual_fsk_hear(&raw mut self.0, sample) };
        }
    }

    /// What goes to the line next: its bytes, or the mark of an idle line.
    pub fn transmit_samples(&mut self, samples: &mut [i16]) {
        for sample in samples {
            // SAFETY: as in `send`.
            *sample = unsafe { raw::punctual_fsk_speak(&raw mut self.0) };
        }
    }

    /// Whether a carrier is heard: from about 48 dB below full scale on, until 51 below.
    pub fn carrier(&self) -> bool {
        self.0.rx.carrier != 0
    }

    /// Energy of the mark less that of the space over the last bit: above zero, a mark. The scale is
    /// that of the squares of sums of 27 samples in 1/2⁸.
    pub fn soft(&self) -> i64 {
        self.0.rx.soft
    }

    /// Characters without a stop bit, which were dropped.
    pub fn framing_errors(&self) -> u32 {
        self.0.rx.framing_errors
    }
}
