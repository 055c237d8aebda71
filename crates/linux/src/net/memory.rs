//! Bytes for the kernel to read or write: slices, or memory shared with another process.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use crate::memfd::{Readable, Writable};

/// Bytes to send: a slice, or memory shared with another process. No Rust reference to shared
/// memory may exist. The kernel copies it, so concurrent writes of the other process may or may not
/// be in the datagram.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Place<'a>(libc::iovec, PhantomData<&'a [u8]>);

// SAFETY: this is an address and a length through which only the kernel reads; `of` borrows a
// `Sync` slice, and `at` makes its caller responsible.
unsafe impl Send for Place<'_> {}
// SAFETY: as above; no method writes.
unsafe impl Sync for Place<'_> {}

impl<'a> Place<'a> {
    /// Takes the bytes of a slice.
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self(
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            PhantomData,
        )
    }

    /// Takes `len` bytes from `start`.
    ///
    /// # Safety
    /// For all of `'a` these bytes are mapped readable and hold no secret of this process. Other
    /// threads and processes may write to them at any time.
    pub const unsafe fn at(start: *const u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len }, PhantomData)
    }

    /// Takes these bytes of shared memory, counted from its beginning.
    ///
    /// # Panics
    /// If the memory is shorter.
    pub fn within(memory: &'a Readable, bytes: Range<usize>) -> Self {
        let whole = memory.count() * size_of::<u64>();
        assert!(bytes.start <= bytes.end && bytes.end <= whole, "{bytes:?} of {whole} bytes");
        // Not `address(bytes.start / 8)`: one past the end is not a word of the memory.
        let start = memory.address(0).wrapping_add(bytes.start);
        // SAFETY: the memory stays mapped as long as it is borrowed; it is shared with another
        // process on purpose, so it holds no secret.
        unsafe { Self::at(start, bytes.len()) }
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Returns true if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({} bytes)", self.len())
    }
}

/// Room for received bytes: as [`Place`], but written by the kernel.
#[repr(transparent)]
pub struct Room<'a>(libc::iovec, PhantomData<&'a mut [u8]>);

// SAFETY: as for `Place`: only the kernel writes through it, while the caller holds it mutably.
unsafe impl Send for Room<'_> {}

impl<'a> Room<'a> {
    /// Takes the bytes of a slice.
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        Self(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }, PhantomData)
    }

    /// Takes `len` bytes from `start`.
    ///
    /// # Safety
    /// For all of `'a` these bytes are mapped writable, and no Rust reference to them exists except
    /// to atomics. Other threads and processes may read and write them at any time.
    pub const unsafe fn at(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast(), iov_len: len }, PhantomData)
    }

    /// Takes these bytes of shared memory, counted from its beginning.
    ///
    /// # Panics
    /// If the memory is shorter.
    pub fn within(memory: &'a Writable, bytes: Range<usize>) -> Self {
        let whole = size_of_val(memory.words());
        assert!(bytes.start <= bytes.end && bytes.end <= whole, "{bytes:?} of {whole} bytes");
        let start = memory.words().as_ptr().cast::<u8>().cast_mut().wrapping_add(bytes.start);
        // SAFETY: the memory stays mapped for writing as long as it is borrowed, and is accessed
        // only as atomics, which may change at any time.
        unsafe { Self::at(start, bytes.len()) }
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Returns true if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }

    /// Returns the same room, for a shorter time.
    pub const fn reborrow(&mut self) -> Room<'_> {
        Room(self.0, PhantomData)
    }

    pub(super) const fn into_iovec(self) -> libc::iovec {
        self.0
    }
}

impl fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Room({} bytes)", self.len())
    }
}
