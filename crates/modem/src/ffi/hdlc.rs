//! Owned HDLC framers: flags, bit stuffing and the 32-bit CRC.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use super::raw::{self, OutOfMemory};

/// Flags between two frames. One is enough; the second helps a receiver that lost synchronisation.
const FLAGS_BETWEEN: c_int = 2;

/// The consumer of good frames.
pub(crate) trait FrameSink {
    /// Takes a frame whose CRC is right; `bytes` excludes the CRC.
    fn frame(&mut self, bytes: &[u8]);
}

/// The sending half: sends one frame at a time, and flags while there is none.
pub(crate) struct HdlcTx {
    framer: NonNull<raw::HdlcTxState>,
    /// True if the framer can take a frame. From `Box::into_raw`, set by the underflow callback.
    idle: NonNull<bool>,
}

impl HdlcTx {
    /// Creates a framer that sends flags.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        let idle = NonNull::from(Box::leak(Box::new(true)));
        let user = idle.as_ptr().cast::<c_void>();
        // SAFETY: a null state asks the library to allocate one. `user` points to a live `bool`
        // until `Drop`, after the framer is freed, and the callback takes exactly that.
        let framer = unsafe {
            raw::hdlc_tx_init(
                ptr::null_mut(),
                raw::TRUE,
                FLAGS_BETWEEN,
                raw::FALSE,
                underflow,
                user,
            )
        };
        match NonNull::new(framer) {
            Some(framer) => Ok(Self { framer, idle }),
            None => {
                // SAFETY: `idle` came from a `Box` above, and no framer exists that points to it.
                drop(unsafe { Box::from_raw(idle.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Returns true if the last frame has been sent to its end, so that the next can be given.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: `idle` is live until `Drop`; its only writer, the underflow callback, runs under
        // `&mut self`.
        unsafe { *self.idle.as_ref() }
    }

    /// Begins a frame; call only when idle. Returns whether the framer took it.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        // SAFETY: the framer is live and ours alone (`&mut self`); it copies `len` bytes from a
        // slice of that length.
        let taken =
            unsafe { raw::hdlc_tx_frame(self.framer.as_ptr(), frame.as_ptr(), frame.len()) } == 0;
        if taken {
            // SAFETY: as in `is_idle`, and `&mut self` makes this the only access.
            unsafe { *self.idle.as_mut() = false };
        }
        taken
    }

    /// Returns the next bit for the modem.
    pub(crate) fn get_bit(&mut self) -> bool {
        // SAFETY: the framer is live and ours alone (`&mut self`).
        let bit = unsafe { raw::hdlc_tx_get_bit(self.framer.as_ptr()) };
        bit & 1 == 1
    }
}

impl Drop for HdlcTx {
    fn drop(&mut self) {
        // SAFETY: the framer came from `hdlc_tx_init` and is freed once. Freeing calls no callback,
        // and after it only this value has a pointer to `idle`, which came from a `Box`.
        unsafe {
            raw::hdlc_tx_free(self.framer.as_ptr());
            drop(Box::from_raw(self.idle.as_ptr()));
        }
    }
}

// SAFETY: one heap object without thread-local or shared mutable parts (see the module above),
// exclusively owned, and an owned `bool`.
unsafe impl Send for HdlcTx {}

extern "C" fn underflow(user: *mut c_void) {
    // SAFETY: `user` is the live `bool` given to `hdlc_tx_init`; we are inside `HdlcTx::get_bit`
    // with `&mut self`, so no other reference to it exists.
    unsafe { *user.cast::<bool>() = true };
}

/// The receiving half: takes bits and gives good frames to `S`.
pub(crate) struct HdlcRx<S: FrameSink> {
    deframer: NonNull<raw::HdlcRxState>,
    /// From `Box::into_raw`; the callback of `deframer` works on it.
    sink: NonNull<S>,
}

impl<S: FrameSink> HdlcRx<S> {
    /// Creates a deframer that looks for its first flag.
    pub(crate) fn new(sink: S) -> Result<Self, OutOfMemory> {
        let sink = NonNull::from(Box::leak(Box::new(sink)));
        let user = sink.as_ptr().cast::<c_void>();
        // SAFETY: a null state asks the library to allocate one. `user` points to a live `S` until
        // `Drop`, after the deframer is freed, and the callback takes exactly an `S`.
        let deframer = unsafe {
            raw::hdlc_rx_init(ptr::null_mut(), raw::TRUE, raw::FALSE, 1, on_frame::<S>, user)
        };
        match NonNull::new(deframer) {
            Some(deframer) => Ok(Self { deframer, sink }),
            None => {
                // SAFETY: `sink` came from a `Box` above, and no deframer exists that points to it.
                drop(unsafe { Box::from_raw(sink.as_ptr()) });
                Err(OutOfMemory)
            }
        }
    }

    /// Takes a bit from the modem.
    pub(crate) fn put_bit(&mut self, bit: bool) {
        // SAFETY: the deframer is live and ours alone (`&mut self`).
        unsafe { raw::hdlc_rx_put_bit(self.deframer.as_ptr(), c_int::from(bit)) };
    }

    /// Returns the number of frames dropped for a wrong CRC since the start.
    pub(crate) fn crc_errors(&self) -> u64 {
        let mut stats = raw::HdlcRxStats::default();
        // SAFETY: the deframer is live; the call only reads it (no other call runs: `self` is
        // neither `Sync` nor borrowed mutably) and writes a struct of the layout it declares.
        unsafe { raw::hdlc_rx_get_stats(self.deframer.as_ptr(), &mut stats) };
        #[allow(clippy::useless_conversion)] // C's unsigned long is 32 bits wide on some targets
        u64::from(stats.crc_errors)
    }

    /// Returns the consumer of the frames.
    pub(crate) fn sink(&self) -> &S {
        // SAFETY: `sink` is live until `Drop`. Only the callback touches it otherwise, and it runs
        // only under `&mut self`, so not while this borrow lasts.
        unsafe { self.sink.as_ref() }
    }
}

impl<S: FrameSink> Drop for HdlcRx<S> {
    fn drop(&mut self) {
        // SAFETY: the deframer came from `hdlc_rx_init` and is freed once. Freeing calls no
        // callback, and after it only this value has a pointer to `sink`, which came from a `Box`.
        unsafe {
            raw::hdlc_rx_free(self.deframer.as_ptr());
            drop(Box::from_raw(self.sink.as_ptr()));
        }
    }
}

// SAFETY: one heap object without thread-local or shared mutable parts (see the module above),
// exclusively owned; `sink` is an owned `S`, which is `Send` itself.
unsafe impl<S: FrameSink + Send> Send for HdlcRx<S> {}

extern "C" fn on_frame<S: FrameSink>(user: *mut c_void, packet: *const u8, len: c_int, ok: c_int) {
    // A null packet or a negative length is a status report of the deframer, not a frame.
    let (Ok(len), false, true) = (usize::try_from(len), packet.is_null(), ok != 0) else {
        return;
    };
    // SAFETY: `user` is the live `S` given to `hdlc_rx_init`; we are inside `HdlcRx::put_bit` with
    // `&mut self`, so no other reference to it exists. The library guarantees `len` readable bytes
    // at `packet`, inside its own buffer, for the duration of this call.
    let (sink, bytes) =
        unsafe { (&mut *user.cast::<S>(), core::slice::from_raw_parts(packet, len)) };
    sink.frame(bytes);
}
