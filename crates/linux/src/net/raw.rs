//! The system calls that rustix lacks, or offers without the control messages needed here.
#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

use super::address::Name;
use super::control::{Control, ROOM};
use super::memory::{Place, Room};

/// The most datagrams in one call; `UIO_MAXIOV` would allow 1,024, on a larger stack.
pub(super) const BATCH: usize = 64;
/// Room for a segment's length (24 bytes) and a departure time (24).
pub(super) const SEND_ROOM: usize = 48;
/// Room for stamps (64 bytes), drops (24), a segment's length (24) and the traffic class (24).
pub(super) const RECEIVE_ROOM: usize = 144;

/// The address and control messages of one datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<const N: usize> {
    pub(super) name: Name,
    pub(super) control: Control<N>,
}

impl<const N: usize> Envelope<N> {
    pub(super) const EMPTY: Self = Self { name: Name::EMPTY, control: Control::EMPTY };
}

/// The kernel's results for one received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) bytes: usize,
    pub(super) name_len: u32,
    pub(super) control_len: usize,
    pub(super) flags: i32,
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Returns a header of zeroes: no name, no parts, no control messages.
fn blank() -> libc::msghdr {
    // SAFETY: `msghdr` consists of integers and pointers, for which all zeroes is a valid value.
    unsafe { std::mem::zeroed() }
}

/// Returns a header that points into its arguments. It must not be used after they end.
fn outgoing(envelope: &mut Envelope<SEND_ROOM>, parts: &[Place<'_>]) -> libc::msghdr {
    let mut header = blank();
    if envelope.name.len() > 0 {
        header.msg_name = envelope.name.as_mut_ptr();
        header.msg_namelen = envelope.name.len();
    }
    // `Place` is a transparent `iovec`; sendmsg(2) does not write to it.
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len() as _;
    if envelope.control.len() > 0 {
        header.msg_control = envelope.control.as_mut_ptr();
        header.msg_controllen = envelope.control.len() as _;
    }
    header
}

/// Calls sendmsg(2), without waiting.
pub(super) fn send(
    fd: BorrowedFd<'_>,
    mut envelope: Envelope<SEND_ROOM>,
    parts: &[Place<'_>],
) -> Result<usize, Errno> {
    let header = outgoing(&mut envelope, parts);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `header` points into `envelope` and `parts`, which outlive the call, and each `Place`
    // is readable by its contract.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| last())
}

/// Calls sendmmsg(2) for the first [`BATCH`] datagrams, without waiting. Returns how many were
/// sent.
pub(super) fn send_many<'a, 'b: 'a>(
    fd: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = (Envelope<SEND_ROOM>, &'a [Place<'b>])>,
) -> Result<usize, Errno> {
    let mut envelopes = [const { MaybeUninit::<Envelope<SEND_ROOM>>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    let slots = envelopes.iter_mut().zip(&mut headers);
    for ((envelope, parts), (slot, header)) in datagrams.zip(slots) {
        let msg_hdr = outgoing(slot.write(envelope), parts);
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the first `count` headers are written. Each points into its envelope, which is not
    // accessed until the call returns, and into `parts`, which outlive the call (`'a`).
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count, flags) };
    usize::try_from(sent).map_err(|_| last())
}

/// Calls recvmmsg(2) for up to [`BATCH`] messages, one room each, without waiting. Calls `each`
/// with every message in order, and returns their number.
pub(super) fn receive_many<'a>(
    fd: BorrowedFd<'_>,
    rooms: impl Iterator<Item = Room<'a>>,
    mut each: impl FnMut(usize, &Envelope<RECEIVE_ROOM>, Outcome),
) -> Result<usize, Errno> {
    let mut envelopes = [const { MaybeUninit::<Envelope<RECEIVE_ROOM>>::uninit() }; BATCH];
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    let slots = envelopes.iter_mut().zip(&mut vectors).zip(&mut headers);
    for (((slot, vector), header), room) in slots.zip(rooms) {
        let msg_hdr = incoming(slot.write(Envelope::EMPTY), vector.write(room.into_iovec()));
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers are written. Each points to an envelope and a vector of its
    // own, which outlive the call. Each `Room` is writable by its contract for `'a`, which outlives
    // the call.
    let got = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let got = usize::try_from(got).map_err(|_| last())?;
    for (at, (slot, header)) in envelopes.iter().zip(&headers).take(got).enumerate() {
        // SAFETY: `got` is at most `count`, and the first `count` were written above.
        let (envelope, header) = unsafe { (slot.assume_init_ref(), header.assume_init_ref()) };
        each(at, envelope, outcome(&header.msg_hdr, header.msg_len as usize));
    }
    Ok(got)
}

/// Returns a header to receive one message into one `iovec`.
fn incoming<const N: usize>(envelope: &mut Envelope<N>, room: &mut libc::iovec) -> libc::msghdr {
    let mut header = blank();
    header.msg_name = envelope.name.as_mut_ptr();
    header.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
    header.msg_iov = room;
    header.msg_iovlen = 1;
    header.msg_control = envelope.control.as_mut_ptr();
    header.msg_controllen = N as _;
    header
}

fn outcome(header: &libc::msghdr, bytes: usize) -> Outcome {
    Outcome {
        bytes,
        name_len: header.msg_namelen,
        control_len: header.msg_controllen,
        flags: header.msg_flags,
    }
}

/// Calls recvmsg(2) on the error queue. Returns `None` if it is empty.
pub(super) fn receive_error(
    fd: BorrowedFd<'_>,
    payload: &mut [u8],
) -> Result<Option<(Envelope<ROOM>, Outcome)>, Errno> {
    let mut envelope = Envelope::<ROOM>::EMPTY;
    let mut vector = Room::of(payload).into_iovec();
    let mut header = incoming(&mut envelope, &mut vector);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `header` points into `envelope` and `payload`, which outlive the call.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
    match usize::try_from(got) {
        Ok(bytes) => Ok(Some((envelope, outcome(&header, bytes)))),
        Err(_) => match last() {
            Errno::AGAIN => Ok(None),
            errno => Err(errno),
        },
    }
}

/// Calls setsockopt(2) with plain bytes.
pub(super) fn set(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let len = value.len() as u32;
    // SAFETY: `value` is valid for reads of `len` bytes, and the kernel copies it.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// Calls setsockopt(2) with an `int`.
pub(super) fn set_int(fd: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    set(fd, level, name, &value.to_ne_bytes())
}

/// Calls getsockopt(2) for 32-bit words; returns how many the kernel wrote.
pub(super) fn get(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    words: &mut [u32],
) -> Result<usize, Errno> {
    let mut len = size_of_val(words) as u32;
    // SAFETY: `words` is valid for writes of `len` bytes, and any bits are a valid `u32`.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, words.as_mut_ptr().cast(), &raw mut len)
    };
    if done == 0 { Ok(len as usize / size_of::<u32>()) } else { Err(last()) }
}

/// Attaches a filter (SO_ATTACH_FILTER, socket(7)).
pub(super) fn attach_filter(
    fd: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` is valid for reads of `len` instructions during the call; the kernel keeps a
    // copy and does not write.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    };
    if done == 0 { Ok(()) } else { Err(last()) }
}

/// Calls unshare(2) for the network namespace alone.
pub(super) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: only CLONE_FILES can break other threads' use of descriptors, and it is not passed.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
}
