//! An owned FSK modem: a transmitter on one channel and a receiver on another.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use super::v22bis::{c_len, deliver};
use super::{BitPipe, OutOfMemory, raw};

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

/// `FSK_FRAME_MODE_ASYNC`: each transition is taken at face value, because characters can begin at
/// any time.
const ASYNC: c_int = 0;

/// The receive threshold for the slow channel. The library's own suits the fast channels; the slow
/// one is narrow and receives less energy.
const BACKWARD_CUTOFF_DBM0: f32 = -48.0;

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

extern "C" fn get_bit<P: BitPipe>(user: *mut c_void) -> c_int {
    // SAFETY: `user` is the live `P` given to `fsk_tx_init`; we are inside `Fsk::tx` with
    // `&mut self`, so no other reference to it exists.
    let pipe = unsafe { &mut *user.cast::<P>() };
    c_int::from(pipe.get_bit())
}

extern "C" fn put_bit<P: BitPipe>(user: *mut c_void, bit: c_int) {
    // SAFETY: `user` is the live `P` given to `fsk_rx_init`; we are inside `Fsk::rx` with
    // `&mut self`, so no other reference to it exists.
    deliver(unsafe { &mut *user.cast::<P>() }, bit);
}
