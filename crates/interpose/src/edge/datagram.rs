//! Datagrams as C passes them, and their routing.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use punctual_channel::client::Slot;

use super::start::{Inside, is_requested, process};
use crate::fds::Fds;
use crate::process::Sent;
use crate::route::Datagram;
use crate::{address, route};

/// The number of descriptors that are tracked; sockets with larger numbers bypass the channel.
const NUMBERS: usize = 1 << 14;

/// The known state of this program's descriptors.
pub(super) static FDS: Fds<NUMBERS> = Fds::new();

/// The most parts of a datagram, and datagrams of a call, that the kernel accepts (UIO_MAXIOV).
pub(super) const MOST_PARTS: usize = 1_024;

/// The length of the longest `sockaddr`.
const LONGEST_ADDRESS: usize = size_of::<libc::sockaddr_storage>();

/// The arguments of a call that sends, except for the bytes.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) fd: c_int,
    /// The destination, or null for that of a connected socket.
    pub(super) to: *const sockaddr,
    pub(super) length: socklen_t,
    pub(super) flags: c_int,
    /// True if there is control data.
    pub(super) control: bool,
}

impl Call {
    pub(super) fn to_peer(fd: c_int, flags: c_int) -> Self {
        Self { fd, to: ptr::null(), length: 0, flags, control: false }
    }

    /// Sends the bytes if they are for the channel, and returns the call's result; otherwise
    /// returns `None`.
    ///
    /// # Safety
    /// `count` bytes are readable at `bytes`, and `length` at `to` unless that is null.
    pub(super) unsafe fn of(self, bytes: *const c_void, count: size_t) -> Option<ssize_t> {
        let part = iovec { iov_base: bytes.cast_mut(), iov_len: count };
        // SAFETY: the caller guarantees the bytes and the address; `part` is one part.
        unsafe { self.of_parts(&part, 1) }
    }

    /// Sends the parts if they are for the channel, and returns the call's result; otherwise
    /// returns `None`.
    ///
    /// # Safety
    /// As for [`Self::of`], for each of `count` parts.
    pub(super) unsafe fn of_parts(self, parts: *const iovec, count: size_t) -> Option<ssize_t> {
        // For a descriptor that is not tracked this costs two loads, and nothing is read.
        if !FDS.is_socket(self.fd) || count > MOST_PARTS || parts.is_null() {
            return None;
        }
        let _inside = Inside::enter()?;
        let taken = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller guarantees that `parts` is valid for reads of `count` parts.
            let parts = unsafe { slice::from_raw_parts(parts, count) };
            // SAFETY: the caller guarantees that each part and the address are readable.
            unsafe { self.taken(parts) }
        }));
        // If our code panics, the datagram is still sent without the channel.
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

    /// Sends the parts if they are for the channel.
    ///
    /// # Safety
    /// As for [`Self::of_parts`].
    unsafe fn taken(self, parts: &[iovec]) -> Option<(Sent, usize)> {
        let process = process()?;
        let bytes = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len))?;
        // SAFETY: the caller guarantees that the address is readable.
        let to = unsafe { self.address() };
        // SAFETY: the descriptor is not -1, because it is in the table. It is borrowed only for
        // this call: if another thread closes it meanwhile, the kernel returns an error or it is
        // another socket, as with the C library's call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let Self { flags, control, .. } = self;
        if !route::is_for_channel(process, &FDS, fd, Datagram { to, bytes, flags, control }) {
            return None;
        }
        let mut fill = |slot: &mut Slot<'_>| {
            let mut at = 0;
            for part in parts.iter().filter(|part| part.iov_len > 0) {
                // SAFETY: the caller guarantees that each part is readable.
                let bytes = unsafe { slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
                slot.write(at, bytes);
                at += bytes.len();
            }
        };
        Some((process.send(bytes, &mut fill, &|| route::patience(fd, flags)), bytes))
    }

    /// Parses the destination, if the call has one.
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
        // SAFETY: the caller guarantees that `length` bytes are readable.
        let bytes = unsafe { slice::from_raw_parts(self.to.cast(), length) };
        address::parse(bytes).map(Some).ok_or(())
    }
}

/// Sends the message if it is for the channel, and returns sendmsg(2)'s result; otherwise returns
/// `None`.
///
/// # Safety
/// `message` is valid as sendmsg(2) requires.
pub(super) unsafe fn message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if !FDS.is_socket(fd) {
        return None;
    }
    // SAFETY: the caller guarantees that the pointer is null or a valid message.
    let message = unsafe { message.as_ref() }?;
    let call = Call {
        fd,
        to: message.msg_name.cast(),
        length: message.msg_namelen,
        flags,
        control: message.msg_controllen > 0,
    };
    // SAFETY: the caller guarantees that the message's parts and address are readable.
    unsafe { call.of_parts(message.msg_iov, message.msg_iovlen as size_t) }
}

/// Notes a descriptor made by socket(2) with these arguments.
pub(super) fn was_made(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    if fd < 0 {
        return;
    }
    let is_udp = [libc::AF_INET, libc::AF_INET6].contains(&domain)
        && kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_DGRAM
        && [0, libc::IPPROTO_UDP].contains(&protocol);
    // Inside the library, sockets are our own.
    let inside = Inside::enter();
    if !is_udp || inside.is_none() || !is_requested() {
        FDS.forget(fd);
        return;
    }
    // SAFETY: the descriptor is open, because the program has not got its number yet and so cannot
    // have closed it.
    match route::inode(unsafe { BorrowedFd::borrow_raw(fd) }) {
        Some(inode) => FDS.made(fd, inode),
        None => FDS.forget(fd),
    }
}

pub(super) fn fails_with(error: c_int) {
    // SAFETY: the pointer is to the calling thread's own errno.
    unsafe { *libc::__errno_location() = error };
}
