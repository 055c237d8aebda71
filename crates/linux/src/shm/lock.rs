//! Locks on single bytes of a file, which the kernel drops when their holder ends (fcntl(2), open
//! file description locks).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

/// Takes all `places`, unless somebody else has one of them (`WouldBlock`).
pub(super) fn lock(file: &File, places: Range<usize>) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_WRLCK, places))
}

/// Gives `place` back.
pub(super) fn unlock(file: &File, place: usize) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, place..place + 1))
}

/// Whether somebody else has one of `places`.
pub(super) fn is_taken(file: &File, places: Range<usize>) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, places);
    call(file, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

fn range(kind: libc::c_int, places: Range<usize>) -> libc::flock {
    // SAFETY: a structure of integers, for which all zeroes is a value (and `l_pid` must be 0).
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = places.start as libc::off_t;
    range.l_len = places.len() as libc::off_t;
    range
}

/// Never waits: EAGAIN is `WouldBlock`.
fn call(file: &File, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: an open file; `range` is a `struct flock` that outlives the call, which reads it and
    // for F_OFD_GETLK writes it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
