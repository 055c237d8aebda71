//! Bytes that the kernel reads or writes: slices, or memory that another process has mapped too.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use crate::memfd::{Readable, Writable};

/// Bytes to send. A slice, or memory shared with another process, of which no Rust reference may
/// exist: the kernel copies it, and what the other process writes meanwhile is what is sent.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Place<'a>(libc::iovec, PhantomData<&'a [u8]>);

// SAFETY: it is an address and a length that nobody here reads through but the kernel; `of` borrows
// a `Sync` slice, and `at` puts the obligation on its caller.
unsafe impl Send for Place<'_> {}
// SAFETY: as above; it has no method that writes.
unsafe impl Sync for Place<'_> {}

impl<'a> Place<'a> {
    /// The bytes of a slice.
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self(
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            PhantomData,
        )
    }

    /// `len` bytes from `start`.
    ///
    /// # Safety
    /// For all of `'a` these bytes are mapped readable and hold no secret of this process. Others
    /// may write to them at any time.
    pub const unsafe fn at(start: *const u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len }, PhantomData)
    }

    /// These bytes of shared memory, counted from its beginning.
    ///
    /// # Panics
    /// If it has not as many.
    pub fn within(memory: &'a Readable, bytes: Range<usize>) -> Self {
        let whole = memory.count() * size_of::<u64>();
        assert!(bytes.start <= bytes.end && bytes.end <= whole, "{bytes:?} of {whole} bytes");
        // One past the end is no word of it.
        let start = memory.address(0).wrapping_add(bytes.start);
        // SAFETY: the memory stays mapped as long as it is borrowed; it is shared with another process
        // on purpose, so nothing in it is a secret.
        unsafe { Self::at(start, bytes.len()) }
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({} bytes)", self.len())
    }
}

/// Room for what is received: as [`Place`], but written by the kernel.
#[repr(transparent)]
pub struct Room<'a>(libc::iovec, PhantomData<&'a mut [u8]>);

// SAFETY: as for `Place`: only the kernel writes through it, on behalf of who holds it mutably.
unsafe impl Send for Room<'_> {}

impl<'a> Room<'a> {
    /// The bytes of a slice.
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        Self(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }, PhantomData)
    }

    /// `len` bytes from `start`.
    ///
    /// # Safety
    /// For all of `'a` these bytes are mapped writable, and no Rust reference to them exists but to
    /// atomics. Others may read and write them at any time.
    pub const unsafe fn at(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast(), iov_len: len }, PhantomData)
    }

    /// These bytes of shared memory, counted from its beginning.
    ///
    /// # Panics
    /// If it has not as many.
    pub fn within(memory: &'a Writable, bytes: Range<usize>) -> Self {
        let whole = size_of_val(memory.words());
        assert!(bytes.start <= bytes.end && bytes.end <= whole, "{bytes:?} of {whole} bytes");
        let start = memory.words().as_ptr().cast::<u8>().cast_mut().wrapping_add(bytes.start);
        // SAFETY: the memory stays mapped, for writing, as long as it is borrowed, and is only ever
        // seen as atomics, which anybody may write at any time.
        unsafe { Self::at(start, bytes.len()) }
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }

    /// The same room, for a shorter time.
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
