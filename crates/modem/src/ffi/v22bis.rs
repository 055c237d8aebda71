//! An owned V.22bis modem: samples in and out on one side, bits in and out on the other.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use super::{OutOfMemory, raw};

/// The source and the sink of a modem's bits.
pub(crate) trait BitPipe {
    /// Returns the next bit to send. Called only once training lets user data through.
    fn get_bit(&mut self) -> bool;
    /// Takes a received bit.
    fn put_bit(&mut self, bit: bool);
    /// Takes a report of the modem's receiver.
    fn status(&mut self, status: Status);
    /// Takes the error of a received symbol: its squared distance from its point, where half the
    /// distance of two points is 1. Called only after [`V22bis::watch`].
    fn symbol(&mut self, _error: f32) {}
}

/// A report of a modem's receiver (`SIG_STATUS_*`). Reports that we have no use for are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    CarrierDown,
    CarrierUp,
    TrainingInProgress,
    TrainingSucceeded,
    TrainingFailed,
}

/// A V.22bis modem at 2400 bit/s without a guard tone.
pub(crate) struct V22bis<P: BitPipe> {
    modem: NonNull<raw::V22bisState>,
    /// From `Box::into_raw`; the callbacks of `modem` work on it.
    pipe: NonNull<P>,
}

impl<P: BitPipe> V22bis<P> {
    /// Creates a modem before its handshake, as the calling or the answering party.
    pub(crate) fn new(calling: bool, pipe: P) -> Result<Self, OutOfMemory> {
        let pipe = NonNull::from(Box::leak(Box::new(pipe)));
        let user = pipe.as_ptr().cast::<c_void>();
        // SAFETY: a null state asks the library to allocate one. `user` points to a live `P` until
        // `Drop`, after the modem is freed, and both callbacks take exactly a `P`.
        let modem = unsafe {
            raw::v22bis_init(
                ptr::null_mut(),
                2400,
                raw::GUARD_TONE_NONE,
                if calling { raw::TRUE } else { raw::FALSE },
                get_bit::<P>,
                user,
                put_bit::<P>,
                user,
            )
        };
        match NonNull::new(modem) {
            Some(modem) => Ok(Self { modem, pipe }),
            None => {
                // SAFETY: `pipe` came from a `Box` above, and no modem exists that points to it.
                drop(unsafe { Box::from_raw(pipe.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Demodulates samples received.
    pub(crate) fn rx(&mut self, samples: &[i16]) {
        let len = c_len(samples.len());
        // SAFETY: the modem is live and ours alone (`&mut self`); it reads `len` samples from a
        // slice of that length and keeps no pointer to it.
        unsafe { raw::v22bis_rx(self.modem.as_ptr(), samples.as_ptr(), len) };
    }

    /// Modulates as many samples as fit in `samples`.
    pub(crate) fn tx(&mut self, samples: &mut [i16]) {
        let len = c_len(samples.len());
        // SAFETY: the modem is live and ours alone (`&mut self`); it writes at most `len` samples
        // to a slice of that length and keeps no pointer to it.
        let made = unsafe { raw::v22bis_tx(self.modem.as_ptr(), samples.as_mut_ptr(), len) };
        // A modem that has ended its transmission writes less: the rest is silence.
        samples[usize::try_from(made).unwrap_or(0)..].fill(0);
    }

    /// Reports each symbol to the pipe from here on.
    pub(crate) fn watch(&mut self) {
        let user = self.pipe.as_ptr().cast::<c_void>();
        // SAFETY: the modem is live and ours alone; `user` is its live `P`, as in `new`.
        unsafe {
            raw::v22bis_rx_set_qam_report_handler(self.modem.as_ptr(), qam_report::<P>, user);
        }
    }

    /// Returns the bit side, to be changed between two blocks of samples.
    pub(crate) fn pipe_mut(&mut self) -> &mut P {
        // SAFETY: as in `pipe`, and `&mut self` makes this the only access.
        unsafe { self.pipe.as_mut() }
    }

    /// Returns the bit side.
    pub(crate) fn pipe(&self) -> &P {
        // SAFETY: `pipe` is live until `Drop`. Only callbacks touch it otherwise, and they run only
        // under `&mut self`, so not while this borrow lasts.
        unsafe { self.pipe.as_ref() }
    }
}

impl<P: BitPipe> Drop for V22bis<P> {
    fn drop(&mut self) {
        // SAFETY: the modem came from `v22bis_init` and is freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `pipe`, which came from a `Box`.
        unsafe {
            raw::v22bis_free(self.modem.as_ptr());
            drop(Box::from_raw(self.pipe.as_ptr()));
        }
    }
}

// SAFETY: the modem's state is one heap object without thread-local or shared mutable parts (see
// the module above), exclusively owned; `pipe` is an owned `P`, which is `Send` itself.
unsafe impl<P: BitPipe + Send> Send for V22bis<P> {}

extern "C" fn get_bit<P: BitPipe>(user: *mut c_void) -> c_int {
    // SAFETY: `user` is the live `P` given to `v22bis_init`; we are inside `V22bis::tx` with
    // `&mut self`, so no other reference to it exists.
    let pipe = unsafe { &mut *user.cast::<P>() };
    c_int::from(pipe.get_bit())
}

extern "C" fn put_bit<P: BitPipe>(user: *mut c_void, bit: c_int) {
    // SAFETY: `user` is the live `P` given to `v22bis_init`; we are inside `V22bis::rx` or `tx`
    // with `&mut self`, so no other reference to it exists.
    deliver(unsafe { &mut *user.cast::<P>() }, bit);
}

/// Passes on a bit, or the report that the library sends in place of one.
pub(super) fn deliver(pipe: &mut impl BitPipe, bit: c_int) {
    match bit {
        0.. => pipe.put_bit(bit & 1 == 1),
        raw::CARRIER_DOWN => pipe.status(Status::CarrierDown),
        raw::CARRIER_UP => pipe.status(Status::CarrierUp),
        raw::TRAINING_IN_PROGRESS | raw::MODEM_RETRAIN_OCCURRED => {
            pipe.status(Status::TrainingInProgress);
        }
        raw::TRAINING_SUCCEEDED => pipe.status(Status::TrainingSucceeded),
        raw::TRAINING_FAILED => pipe.status(Status::TrainingFailed),
        _ => {}
    }
}

extern "C" fn qam_report<P: BitPipe>(
    user: *mut c_void,
    received: *const raw::Complex,
    target: *const raw::Complex,
    _symbol: c_int,
) {
    if received.is_null() || target.is_null() {
        return;
    }
    // SAFETY: `user` is the live `P` given to `watch`; we are inside `V22bis::rx` with `&mut self`,
    // so no other reference to it exists. The library passes two valid points.
    let (pipe, received, target) = unsafe { (&mut *user.cast::<P>(), *received, *target) };
    pipe.symbol((received.re - target.re).powi(2) + (received.im - target.im).powi(2));
}

/// Converts a number of samples to C's `int`; our blocks have at most 512.
pub(super) fn c_len(len: usize) -> c_int {
    c_int::try_from(len).expect("a block of samples longer than a C int can say")
}
