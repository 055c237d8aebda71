//! Resource limits of other processes.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use rustix::io::Errno;

use crate::thread::Tid;

/// A resource limit of the real-time classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `RLIMIT_RTPRIO`.
    Rtprio,
    /// `RLIMIT_RTTIME`, in microseconds.
    Rttime,
}

/// Returns the soft and the hard limit of a process (prlimit(2)); `None` is unlimited.
///
/// # Errors
/// `PERM` about processes of other users without CAP_SYS_RESOURCE, `SRCH` if there is no such
/// process.
///
/// # Examples
/// ```
/// use punctual_linux::process::{Limit, limit_of};
/// use punctual_linux::thread::Tid;
///
/// let us = Tid::from_raw(std::process::id() as i32).expect("positive");
/// assert!(limit_of(us, Limit::Rtprio).is_ok());
/// ```
pub fn limit_of(process: Tid, limit: Limit) -> Result<(Option<u64>, Option<u64>), Errno> {
    let resource = match limit {
        Limit::Rtprio => libc::RLIMIT_RTPRIO,
        Limit::Rttime => libc::RLIMIT_RTTIME,
    };
    let mut found = MaybeUninit::<libc::rlimit64>::uninit();
    // SAFETY: without new limits the kernel only writes a `struct rlimit64` to `found`, which is
    // that large, outlives the call and is not aliased.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            process.as_raw(),
            resource,
            core::ptr::null::<libc::rlimit64>(),
            found.as_mut_ptr(),
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the call has succeeded, so the kernel wrote both numbers.
    let libc::rlimit64 { rlim_cur, rlim_max } = unsafe { found.assume_init() };
    let number = |number| (number != libc::RLIM64_INFINITY).then_some(number);
    Ok((number(rlim_cur), number(rlim_max)))
}
