//! The calls that a program gets instead of the C library's.
//!
//! Each has the C library's prototype and contract. So a pointer is valid for as many bytes as the
//! call's other arguments say, or the call would be wrong without us, too. A datagram's bytes are
//! read only once its descriptor is known to be one of the program's UDP sockets.

use std::ffi::{c_int, c_uint, c_void};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::datagram::{self, Call};
use super::start::Next;

/// Defines the C library's functions of these names, which ours call in turn.
macro_rules! next {
    ($($constant:ident: fn($($argument:ty),*) -> $result:ty = $name:literal;)*) => {
        $(
            static $constant: Next<unsafe extern "C" fn($($argument),*) -> $result> =
                // SAFETY: the type is the C library's prototype of that name (POSIX; dup3(2),
                // sendmmsg(2)).
                unsafe { Next::named($name) };
        )*

        /// Looks up all of them, so that no signal handler has to.
        pub(super) fn find_all() {
            $($constant.get();)*
        }
    };
}

next! {
    SOCKET: fn(c_int, c_int, c_int) -> c_int = c"socket";
    CONNECT: fn(c_int, *const sockaddr, socklen_t) -> c_int = c"connect";
    DUP: fn(c_int) -> c_int = c"dup";
    DUP2: fn(c_int, c_int) -> c_int = c"dup2";
    DUP3: fn(c_int, c_int, c_int) -> c_int = c"dup3";
    SETSOCKOPT: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int = c"setsockopt";
    WRITE: fn(c_int, *const c_void, size_t) -> ssize_t = c"write";
    WRITEV: fn(c_int, *const iovec, c_int) -> ssize_t = c"writev";
    SEND: fn(c_int, *const c_void, size_t, c_int) -> ssize_t = c"send";
    SENDTO: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t = c"sendto";
    SENDMSG: fn(c_int, *const msghdr, c_int) -> ssize_t = c"sendmsg";
    SENDMMSG: fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int = c"sendmmsg";
}

/// Makes the call that the program would have made without us; -1 and ENOSYS if the C library has
/// none.
macro_rules! plain {
    ($constant:ident($($argument:expr),*)) => {
        match $constant.get() {
            // SAFETY: the arguments are the program's own, for a function of this very prototype.
            Some(call) => unsafe { call($($argument),*) },
            None => {
                datagram::fails_with(libc::ENOSYS);
                -1
            }
        }
    };
}

/// Defines a function that replaces the C library's.
macro_rules! instead {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C library's.
        // Otherwise the tests, and programs that link the library, would get it.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> $result $body
    };
}

instead! {
    /// Replaces socket(2): notes UDP sockets.
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let fd = plain!(SOCKET(domain, kind, protocol));
        datagram::was_made(fd, domain, kind, protocol);
        fd
    }
}

instead! {
    /// Replaces connect(2): the socket may lead somewhere else.
    fn connect(fd: c_int, to: *const sockaddr, length: socklen_t) -> c_int {
        let connected = plain!(CONNECT(fd, to, length));
        datagram::FDS.reconnected(fd);
        connected
    }
}

instead! {
    /// Replaces dup(2): notes the same socket under another number.
    fn dup(fd: c_int) -> c_int {
        let copy = plain!(DUP(fd));
        datagram::FDS.copied(fd, copy);
        copy
    }
}

instead! {
    /// Replaces dup2(2).
    fn dup2(fd: c_int, number: c_int) -> c_int {
        let copy = plain!(DUP2(fd, number));
        datagram::FDS.copied(fd, copy);
        copy
    }
}

instead! {
    /// Replaces dup3(2).
    fn dup3(fd: c_int, number: c_int, flags: c_int) -> c_int {
        let copy = plain!(DUP3(fd, number, flags));
        datagram::FDS.copied(fd, copy);
        copy
    }
}

instead! {
    /// Replaces setsockopt(2): forgets a socket that makes one datagram of several calls, or
    /// several of one.
    fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t
    ) -> c_int {
        let set = plain!(SETSOCKOPT(fd, level, name, value, length));
        if level == libc::SOL_UDP && [libc::UDP_CORK, libc::UDP_SEGMENT].contains(&name) {
            datagram::FDS.forget(fd);
        }
        set
    }
}

instead! {
    /// Replaces write(2).
    fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
        // SAFETY: `bytes` is valid for reads of `count` bytes, as write(2) requires.
        let sent = unsafe { Call::to_peer(fd, 0).of(bytes, count) };
        sent.unwrap_or_else(|| plain!(WRITE(fd, bytes, count)))
    }
}

instead! {
    /// Replaces writev(2).
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: `parts` is valid for reads of `count` parts, as writev(2) requires; a negative
        // count is too many.
        let sent = unsafe { Call::to_peer(fd, 0).of_parts(parts, count as size_t) };
        sent.unwrap_or_else(|| plain!(WRITEV(fd, parts, count)))
    }
}

instead! {
    /// Replaces send(2).
    fn send(fd: c_int, bytes: *const c_void, count: size_t, flags: c_int) -> ssize_t {
        // SAFETY: `bytes` is valid for reads of `count` bytes, as send(2) requires.
        let sent = unsafe { Call::to_peer(fd, flags).of(bytes, count) };
        sent.unwrap_or_else(|| plain!(SEND(fd, bytes, count, flags)))
    }
}

instead! {
    /// Replaces sendto(2).
    fn sendto(
        fd: c_int,
        bytes: *const c_void,
        count: size_t,
        flags: c_int,
        to: *const sockaddr,
        length: socklen_t
    ) -> ssize_t {
        // SAFETY: `bytes` is valid for reads of `count` bytes, and `to`, if not null, of `length`,
        // as sendto(2) requires.
        let sent = unsafe { Call { fd, to, length, flags, control: false }.of(bytes, count) };
        sent.unwrap_or_else(|| plain!(SENDTO(fd, bytes, count, flags, to, length)))
    }
}

instead! {
    /// Replaces sendmsg(2).
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: `message` is valid, as sendmsg(2) requires.
        let sent = unsafe { datagram::message(fd, message, flags) };
        sent.unwrap_or_else(|| plain!(SENDMSG(fd, message, flags)))
    }
}

instead! {
    /// Replaces sendmmsg(2): each message is routed by itself.
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if !datagram::FDS.is_socket(fd) {
            return plain!(SENDMMSG(fd, messages, count, flags));
        }
        let count = count.min(datagram::MOST_PARTS as c_uint);
        let mut sent = 0;
        for at in 0..count as usize {
            // SAFETY: the element lies within the array of `count`, as sendmmsg(2) requires, and
            // nothing else uses it during the call.
            let one = unsafe { &mut *messages.add(at) };
            // SAFETY: the message is valid, as sendmmsg(2) requires.
            let bytes = unsafe { datagram::message(fd, &one.msg_hdr, flags) };
            let bytes = bytes.unwrap_or_else(|| plain!(SENDMSG(fd, &one.msg_hdr, flags)));
            // Messages sent before an error count; the next call returns the error.
            let Ok(bytes) = c_uint::try_from(bytes) else {
                return if sent > 0 { sent } else { -1 };
            };
            one.msg_len = bytes;
            sent += 1;
        }
        sent
    }
}
