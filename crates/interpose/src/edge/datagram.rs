//! A datagram as C passes it, and what becomes of it.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use punctual_channel::client::Slot;

use super::start::{Inside, is_asked, process};
use crate::address;
use crate::fds::Fds;
use crate::process::Sent;
use crate::route::{self, Datagram};

/// The numbers below this are looked at; sockets above it go the plain way.
const NUMBERS: usize = 1 << 14;

/// What is known of this program's descriptors.
pub(super) static FDS: Fds<NUMBERS> = Fds::new();

/// The most parts of a datagram, and datagrams of a call, that the kernel takes (UIO_MAXIOV).
pub(super) const MOST_PARTS: usize = 1_024;

/// The longest `sockaddr`.
const LONGEST_ADDRESS: usize = size_of::<libc::sockaddr_storage>();

/// A call that sends, but for the bytes.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) fd: c_int,
    /// Null: where the socket is connected.
    pub(super) to: *const sockaddr,
    pub(super) length: socklen_t,
    pub(super) flags: c_int,
    /// Whether there is control data.
    pub(super) control: bool,
}

impl Call {
    pub(super) fn to_peer(fd: c_int, flags: c_int) -> Self {
        Self { fd, to: ptr::null(), length: 0, flags, control: false }
    }

    /// What the call returns if it was for the channel.
    ///
    /// # Safety
    /// `count` bytes are readable at `bytes`, and `length` at `to` unless that is null.
    pub(super) unsafe fn of(self, bytes: *const c_void, count: size_t) -> Option<ssize_t> {
        let part = iovec { iov_base: bytes.cast_mut(), iov_len: count };
        // SAFETY: as promised, and one part.
        unsafe { self.of_parts(&part, 1) }
    }

    /// What the call returns if it was for the channel.
    ///
    /// # Safety
    /// As for [`Self::of`], for each of `count` parts.
    pub(super) unsafe fn of_parts(self, parts: *const iovec, count: size_t) -> Option<ssize_t> {
        // Two loads for all that is not ours, before anything is read.
        if !FDS.is_socket(self.fd) || count > MOST_PARTS || parts.is_null() {
            return None;
        }
        let _inside = Inside::enter()?;
        let taken = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: so many parts, as promised.
            let parts = unsafe { slice::from_raw_parts(parts, count) };
            // SAFETY: as promised.
            unsafe { self.taken(parts) }
        }));
        // A bug of ours is no reason not to send it.
        let (sent, bytes) = taken.ok().flatten()?;
        match sent {
            Sent::InChannel => ssize_t::try_from(bytes).ok(),
            Sent::Plain => None,
            Sent::NoRoom => {
                fails_with(libc::EAGAIN);
                Some(-1)
            }
        }
    }

    /// # Safety
    /// As for [`Self::of_parts`].
    unsafe fn taken(self, parts: &[iovec]) -> Option<(Sent, usize)> {
        let process = process()?;
        let bytes = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len))?;
        // SAFETY: as promised.
        let to = unsafe { self.address() };
        // SAFETY: not -1, as it is in the table. For the time of this call: if another thread closes it
        // meanwhile, the kernel says so or it is another socket's, as with the C library's call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let Self { flags, control, .. } = self;
        if !route::is_for_channel(process, &FDS, fd, Datagram { to, bytes, flags, control }) {
            return None;
        }
        let mut fill = |slot: &mut Slot<'_>| {
            let mut at = 0;
            for part in parts.iter().filter(|part| part.iov_len > 0) {
                // SAFETY: readable, as promised.
                let bytes = unsafe { slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
                slot.write(at, bytes);
                at += bytes.len();
            }
        };
        Some((process.send(bytes, &mut fill, &|| route::patience(fd, flags)), bytes))
    }

    /// Where to, if it says so.
    ///
    /// # Safety
    /// `length` bytes are readable at `to` unless that is null.
    unsafe fn address(self) -> Result<Option<SocketAddr>, ()> {
        let length = self.length as usize;
        if self.to.is_null() {
            return Ok(None);
        }
        if length > LONGEST_ADDRESS {
            return Err(());
        }
        // SAFETY: readable, as promised.
        let bytes = unsafe { slice::from_raw_parts(self.to.cast(), length) };
        address::parse(bytes).map(Some).ok_or(())
    }
}

/// What sendmsg(2) returns if it was for the channel.
///
/// # Safety
/// `message` is one as sendmsg(2) takes it.
pub(super) unsafe fn message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if !FDS.is_socket(fd) {
        return None;
    }
    // SAFETY: null or a message, as promised.
    let message = unsafe { message.as_ref() }?;
    let call = Call {
        fd,
        to: message.msg_name.cast(),
        length: message.msg_namelen,
        flags,
        control: message.msg_controllen > 0,
    };
    // SAFETY: as promised.
    unsafe { call.of_parts(message.msg_iov, message.msg_iovlen as size_t) }
}

/// A descriptor was made by socket(2), with these arguments.
pub(super) fn was_made(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    if fd < 0 {
        return;
    }
    let is_udp = [libc::AF_INET, libc::AF_INET6].contains(&domain)
        && kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_DGRAM
        && [0, libc::IPPROTO_UDP].contains(&protocol);
    // Our own are made inside.
    let inside = Inside::enter();
    if !is_udp || inside.is_none() || !is_asked() {
        FDS.forget(fd);
        return;
    }
    // SAFETY: it is open, and the program cannot have closed what it was not given yet.
    match route::inode(unsafe { BorrowedFd::borrow_raw(fd) }) {
        Some(inode) => FDS.made(fd, inode),
        None => FDS.forget(fd),
    }
}

pub(super) fn fails_with(error: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = error };
}
