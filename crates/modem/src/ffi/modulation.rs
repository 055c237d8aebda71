//! Owned modems, V.22bis and FSK: samples in and out on one side, bits in and out on the other.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::ptr::NonNull;

use super::raw::{self, OutOfMemory, c_len};

/// `FSK_FRAME_MODE_ASYNC`: each transition is taken at face value, because characters can begin at
/// any time.
const ASYNC: c_int = 0;

/// The receive threshold for the slow channel. The library's own suits the fast channels; the slow
/// one is narrow and receives less energy.
const BACKWARD_CUTOFF_DBM0: f32 = -48.0;

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
    // SAFETY: `user` is the live `P` given to `v22bis_init` or `fsk_tx_init`; we are inside `tx` of
    // its owner with `&mut self`, so no other reference to it exists.
    let pipe = unsafe { &mut *user.cast::<P>() };
    c_int::from(pipe.get_bit())
}

extern "C" fn put_bit<P: BitPipe>(user: *mut c_void, bit: c_int) {
    // SAFETY: `user` is the live `P` given to `v22bis_init` or `fsk_rx_init`; we are inside `rx` or
    // `tx` of its owner with `&mut self`, so no other reference to it exists.
    deliver(unsafe { &mut *user.cast::<P>() }, bit);
}

/// Passes on a bit, or the report that the library sends in place of one.
fn deliver(pipe: &mut impl BitPipe, bit: c_int) {
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

/// A channel, numbered as in the library's `FSK_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// V.21, 980 and 1180 Hz: the calling end's transmit channel.
    V21Low = 0,
    /// V.21, 1650 and 1850 Hz.
    V21High = 1,
    /// V.23, 1300 and 2100 Hz, 1200 bit/s: the answering end's transmit channel.
    V23Forward = 2,
    /// V.23, 390 and 450 Hz, 75 bit/s.
    V23Backward = 3,
    /// Bell 103, 2025 and 2225 Hz. Unlike for V.21, the library lists the higher channel first.
    Bell103High = 4,
    /// Bell 103, 1070 and 1270 Hz: the calling end's transmit channel.
    Bell103Low = 5,
}

/// An FSK modem; its two halves share `P`.
pub(crate) struct Fsk<P: BitPipe> {
    tx: NonNull<raw::FskTxState>,
    rx: NonNull<raw::FskRxState>,
    /// From `Box::into_raw`; the callbacks of `tx` and `rx` work on it.
    pipe: NonNull<P>,
}

impl<P: BitPipe> Fsk<P> {
    /// Creates a modem that sends on one channel and receives on another.
    pub(crate) fn new(sends: Channel, receives: Channel, pipe: P) -> Result<Self, OutOfMemory> {
        let pipe = NonNull::from(Box::leak(Box::new(pipe)));
        let user = pipe.as_ptr().cast::<c_void>();
        // SAFETY: the table is constant data of the library, and a `Channel` is one of its first
        // six indices. Null states ask the library to allocate. `user` points to a live `P` until
        // `Drop`, after both halves are freed, and both callbacks take exactly a `P`.
        let (tx, rx) = unsafe {
            let specs = (&raw const raw::preset_fsk_specs).cast::<raw::FskSpec>();
            let spec = |channel: Channel| specs.add(channel as usize);
            (
                raw::fsk_tx_init(ptr::null_mut(), spec(sends), get_bit::<P>, user),
                raw::fsk_rx_init(ptr::null_mut(), spec(receives), ASYNC, put_bit::<P>, user),
            )
        };
        match (NonNull::new(tx), NonNull::new(rx)) {
            (Some(tx), Some(rx)) => {
                if receives == Channel::V23Backward {
                    // SAFETY: the receiver is live and ours alone.
                    unsafe { raw::fsk_rx_signal_cutoff(rx.as_ptr(), BACKWARD_CUTOFF_DBM0) };
                }
                Ok(Self { tx, rx, pipe })
            }
            (tx, rx) => {
                // SAFETY: each object that was allocated is freed once. After that no pointer to
                // `pipe`, which came from a `Box`, is left.
                unsafe {
                    if let Some(tx) = tx {
                        raw::fsk_tx_free(tx.as_ptr());
                    }
                    if let Some(rx) = rx {
                        raw::fsk_rx_free(rx.as_ptr());
                    }
                    drop(Box::from_raw(pipe.as_ptr()));
                }
                Err(OutOfMemory)
            }
        }
    }

    /// Demodulates samples received.
    pub(crate) fn rx(&mut self, samples: &[i16]) {
        let len = c_len(samples.len());
        // SAFETY: the receiver is live and ours alone (`&mut self`); it reads `len` samples from a
        // slice of that length and keeps no pointer to it.
        unsafe { raw::fsk_rx(self.rx.as_ptr(), samples.as_ptr(), len) };
    }

    /// Modulates as many samples as fit in `samples`.
    pub(crate) fn tx(&mut self, samples: &mut [i16]) {
        let len = c_len(samples.len());
        // SAFETY: the transmitter is live and ours alone (`&mut self`); it writes at most `len`
        // samples to a slice of that length and keeps no pointer to it.
        let made = unsafe { raw::fsk_tx(self.tx.as_ptr(), samples.as_mut_ptr(), len) };
        samples[usize::try_from(made).unwrap_or(0)..].fill(0);
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

impl<P: BitPipe> Drop for Fsk<P> {
    fn drop(&mut self) {
        // SAFETY: both halves came from their `init` and are freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `pipe`, which came from a `Box`.
        unsafe {
            raw::fsk_tx_free(self.tx.as_ptr());
            raw::fsk_rx_free(self.rx.as_ptr());
            drop(Box::from_raw(self.pipe.as_ptr()));
        }
    }
}

// SAFETY: two heap objects without thread-local or shared mutable parts (see the module above; the
// table of channels is constant), exclusively owned; `pipe` is an owned `P`, which is `Send`.
unsafe impl<P: BitPipe + Send> Send for Fsk<P> {}
