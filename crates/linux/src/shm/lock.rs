//! Locks on single bytes of a file, which the kernel drops when their holder ends (fcntl(2), open
//! file description locks).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

/// Locks all `places`, or fails with `WouldBlock` if another file description holds one of them.
pub(super) fn lock(file: &File, places: Range<usize>) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_WRLCK, places))
}

/// Unlocks `place`.
pub(super) fn unlock(file: &File, place: usize) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, place..place + 1))
}

/// Returns true if another file description holds one of `places`.
pub(super) fn is_taken(file: &File, places: Range<usize>) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, places);
    call(file, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

fn range(kind: libc::c_int, places: Range<usize>) -> libc::flock {
    // SAFETY: `flock` is a structure of integers, for which all zeroes is a valid value (and
    // `l_pid` must be 0).
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = places.start as libc::off_t;
    range.l_len = places.len() as libc::off_t;
    range
}

/// Makes the call, which never waits: EAGAIN becomes `WouldBlock`.
fn call(file: &File, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open because `file` is borrowed; `range` is a `struct flock` that
    // outlives the call, which reads it and, for F_OFD_GETLK, writes it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
