//! Owned greetings of a call: the answer tone with its detector, and the negotiation of V.8, which
//! ends with the far end's offer.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::ptr::NonNull;

use super::raw::{self, OutOfMemory, c_len};

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
    /// True while the tone is received. From `Box::into_raw`; the callback of `detector` writes it.
    received: NonNull<bool>,
}

impl AnswerToneDetector {
    /// Creates a detector that has received nothing.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let received = NonNull::from(Box::leak(Box::new(false)));
        // SAFETY: a null state asks the library to allocate one. `received` is live until `Drop`,
        // after the detector is freed, and the callback takes exactly a `bool`.
        let detector = unsafe {
            raw::modem_connect_tones_rx_init(
                ptr::null_mut(),
                raw::MODEM_CONNECT_TONES_ANS_PR,
                report,
                received.as_ptr().cast::<c_void>(),
            )
        };
        match NonNull::new(detector) {
            Some(detector) => Ok(Self { detector, received }),
            None => {
                // SAFETY: `received` came from a `Box` above, and no detector exists that points to
                // it.
                drop(unsafe { Box::from_raw(received.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Takes received samples. Returns true if the tone is present at their end.
    pub(crate) fn rx(&mut self, samples: &[i16]) -> bool {
        let len = c_len(samples.len());
        // SAFETY: the detector is live and ours alone (`&mut self`); it reads `len` samples from a
        // slice of that length and keeps no pointer to it. After the call nothing writes `received`.
        unsafe {
            raw::modem_connect_tones_rx(self.detector.as_ptr(), samples.as_ptr(), len);
            *self.received.as_ref()
        }
    }
}

impl Drop for AnswerToneDetector {
    fn drop(&mut self) {
        // SAFETY: the detector came from its `init` and is freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `received`, which came from a `Box`.
        unsafe {
            raw::modem_connect_tones_rx_free(self.detector.as_ptr());
            drop(Box::from_raw(self.received.as_ptr()));
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

/// The state of a negotiation (`V8_STATUS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V8Outcome {
    /// Under way.
    Pending,
    /// Complete: both ends know the modulations that they have in common, as `V8_MOD_*` bits.
    Agreed(u32),
    /// The far end has no V.8, or broke off the negotiation.
    Failed,
}

/// The value that the callback works on.
struct Negotiation {
    offers: u32,
    outcome: V8Outcome,
}

/// One end of a negotiation.
pub(crate) struct V8 {
    v8: NonNull<raw::V8State>,
    /// From `Box::into_raw`; the callback of `v8` works on it.
    negotiation: NonNull<Negotiation>,
}

impl V8 {
    /// Creates a negotiation as the calling or the answering party. It begins with the first
    /// samples. `offers` are `V8_MOD_*` bits.
    pub(crate) fn new(calling: bool, offers: u32) -> Result<Self, OutOfMemory> {
        let negotiation =
            NonNull::from(Box::leak(Box::new(Negotiation { offers, outcome: V8Outcome::Pending })));
        let mut parameters = raw::V8Parms {
            modem_connect_tone: raw::MODEM_CONNECT_TONES_ANSAM_PR,
            send_ci: raw::TRUE,
            v92: -1,
            call_function: raw::V8_CALL_V_SERIES,
            modulations: offers,
            pcm_modem_availability: 0,
            nsf: -1,
            t66: -1,
            ..raw::V8Parms::default()
        };
        // SAFETY: a null state asks the library to allocate one. It copies the parameters. `negotiation`
        // points to a live `Negotiation` until `Drop`, after the negotiation is freed, and the callback
        // takes exactly that.
        let v8 = unsafe {
            raw::v8_init(
                ptr::null_mut(),
                if calling { raw::TRUE } else { raw::FALSE },
                &mut parameters,
                result,
                negotiation.as_ptr().cast::<c_void>(),
            )
        };
        match NonNull::new(v8) {
            Some(v8) => Ok(Self { v8, negotiation }),
            None => {
                // SAFETY: `negotiation` came from a `Box` above, and no negotiation exists that points to
                // it.
                drop(unsafe { Box::from_raw(negotiation.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Takes received samples.
    pub(crate) fn rx(&mut self, samples: &[i16]) {
        let len = c_len(samples.len());
        // SAFETY: the negotiation is live and ours alone (`&mut self`); it reads `len` samples from
        // a slice of that length and keeps no pointer to it.
        unsafe { raw::v8_rx(self.v8.as_ptr(), samples.as_ptr(), len) };
    }

    /// Fills `samples` with the negotiation's signal, or silence.
    pub(crate) fn tx(&mut self, samples: &mut [i16]) {
        let len = c_len(samples.len());
        // SAFETY: the negotiation is live and ours alone (`&mut self`); it writes at most `len`
        // samples to a slice of that length and keeps no pointer to it.
        let made = unsafe { raw::v8_tx(self.v8.as_ptr(), samples.as_mut_ptr(), len) };
        samples[usize::try_from(made).unwrap_or(0)..].fill(0);
    }

    /// Returns the outcome so far.
    pub(crate) fn outcome(&self) -> V8Outcome {
        // SAFETY: `negotiation` is live until `Drop`. Only the callback touches it otherwise, and it runs
        // only under `&mut self`, so not while this borrow lasts.
        unsafe { self.negotiation.as_ref() }.outcome
    }
}

impl Drop for V8 {
    fn drop(&mut self) {
        // SAFETY: the negotiation came from `v8_init` and is freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `negotiation`, which came from a `Box`.
        unsafe {
            raw::v8_free(self.v8.as_ptr());
            drop(Box::from_raw(self.negotiation.as_ptr()));
        }
    }
}

// SAFETY: one heap object without thread-local or shared mutable parts (see the module above),
// exclusively owned, and an owned `Negotiation` of plain numbers.
unsafe impl Send for V8 {}

extern "C" fn result(user: *mut c_void, parameters: *mut raw::V8Parms) {
    if parameters.is_null() {
        return;
    }
    // SAFETY: `user` is the live `Negotiation` given to `v8_init`; we are inside `V8::rx` or `V8::tx` with
    // `&mut self`, so no other reference to it exists. `parameters` is a part of the negotiation's
    // state, valid and ours alone during this call.
    let (negotiation, parameters) = unsafe { (&mut *user.cast::<Negotiation>(), &mut *parameters) };
    match parameters.status as c_int {
        // The answering end replies with the offered modulations that it supports.
        raw::V8_STATUS_V8_OFFERED => parameters.modulations &= negotiation.offers,
        raw::V8_STATUS_V8_CALL => {
            negotiation.outcome = V8Outcome::Agreed(parameters.modulations & negotiation.offers);
        }
        raw::V8_STATUS_NON_V8_CALL | raw::V8_STATUS_FAILED => {
            negotiation.outcome = V8Outcome::Failed
        }
        _ => {}
    }
}
