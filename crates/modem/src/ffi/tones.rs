//! Owned answer tones: the first signal of an answering modem, and its detector.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use super::v22bis::c_len;
use super::{OutOfMemory, raw};

/// The answer tone of V.25: 2100 Hz, with the library's timing.
pub(crate) struct AnswerTone(NonNull<raw::TonesTxState>);

impl AnswerTone {
    /// Creates the tone, at its beginning.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        // SAFETY: a null state asks the library to allocate one.
        let tone = unsafe {
            raw::modem_connect_tones_tx_init(ptr::null_mut(), raw::MODEM_CONNECT_TONES_ANS)
        };
        NonNull::new(tone).map(Self).ok_or(OutOfMemory)
    }

    /// Fills `samples` with the rest of the tone, then with silence. Returns how many samples of
    /// tone there were.
    pub(crate) fn tx(&mut self, samples: &mut [i16]) -> usize {
        let len = c_len(samples.len());
        // SAFETY: the tone is live and ours alone (`&mut self`); it writes at most `len` samples to
        // a slice of that length and keeps no pointer to it.
        let made =
            unsafe { raw::modem_connect_tones_tx(self.0.as_ptr(), samples.as_mut_ptr(), len) };
        let made = usize::try_from(made).unwrap_or(0);
        samples[made..].fill(0);
        made
    }
}

impl Drop for AnswerTone {
    fn drop(&mut self) {
        // SAFETY: the tone came from its `init` and is freed once.
        unsafe { raw::modem_connect_tones_tx_free(self.0.as_ptr()) };
    }
}

// SAFETY: one heap object without thread-local or shared mutable parts, exclusively owned.
unsafe impl Send for AnswerTone {}

/// A detector of 2100 Hz, with or without V.8's modulation.
pub(crate) struct AnswerToneDetector {
    detector: NonNull<raw::TonesRxState>,
    /// True while the tone is heard. From `Box::into_raw`; the callback of `detector` writes it.
    heard: NonNull<bool>,
}

impl AnswerToneDetector {
    /// Creates a detector that has heard nothing.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let heard = NonNull::from(Box::leak(Box::new(false)));
        // SAFETY: a null state asks the library to allocate one. `heard` is live until `Drop`,
        // after the detector is freed, and the callback takes exactly a `bool`.
        let detector = unsafe {
            raw::modem_connect_tones_rx_init(
                ptr::null_mut(),
                raw::MODEM_CONNECT_TONES_ANS_PR,
                report,
                heard.as_ptr().cast::<c_void>(),
            )
        };
        match NonNull::new(detector) {
            Some(detector) => Ok(Self { detector, heard }),
            None => {
                // SAFETY: `heard` came from a `Box` above, and no detector exists that points to
                // it.
                drop(unsafe { Box::from_raw(heard.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Takes received samples. Returns true if the tone is present at their end.
    pub(crate) fn rx(&mut self, samples: &[i16]) -> bool {
        let len = c_len(samples.len());
        // SAFETY: the detector is live and ours alone (`&mut self`); it reads `len` samples from a
        // slice of that length and keeps no pointer to it. After the call nothing writes `heard`.
        unsafe {
            raw::modem_connect_tones_rx(self.detector.as_ptr(), samples.as_ptr(), len);
            *self.heard.as_ref()
        }
    }
}

impl Drop for AnswerToneDetector {
    fn drop(&mut self) {
        // SAFETY: the detector came from its `init` and is freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `heard`, which came from a `Box`.
        unsafe {
            raw::modem_connect_tones_rx_free(self.detector.as_ptr());
            drop(Box::from_raw(self.heard.as_ptr()));
        }
    }
}

// SAFETY: one heap object without thread-local or shared mutable parts, exclusively owned, and an
// owned `bool`.
unsafe impl Send for AnswerToneDetector {}

extern "C" fn report(user: *mut c_void, tone: c_int, _level: c_int, _delay: c_int) {
    // SAFETY: `user` is the live `bool` given to the detector's `init`; we are inside
    // `AnswerToneDetector::rx` with `&mut self`, so no other reference to it exists.
    unsafe { *user.cast::<bool>() = tone != raw::MODEM_CONNECT_TONES_NONE };
}
