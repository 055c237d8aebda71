//! Sends messages into a channel and receives messages from it.

use std::ffi::c_void;
use std::slice;

use ::punctual_channel::client::ReceiveError;

use super::life::{channel, punctual_channel};
use super::records::punctual_received;
use crate::error::{Failure, guarded, punctual_error};
use crate::sized::{can_write, list, room, write};
use crate::upcalls::after;

/// Sends a copy of `length` bytes. Waits for room, for at most `timeout_ns` (UINT64_MAX: without a
/// limit). Returns PUNCTUAL_ETIMEDOUT if there was none in time, and PUNCTUAL_EGONE if the server
/// is gone (`punctual_channel_rejoin`). If an error is returned, the message was not sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_send(
    channel: *mut punctual_channel,
    bytes: *const c_void,
    length: usize,
    timeout_ns: u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (mut channel, message) =
            unsafe { (self::channel(channel)?, list(bytes.cast::<u8>(), length, "bytes")?) };
        Ok(channel.end.sends()?.send_until(message, after(timeout_ns))?)
    })
}

/// Sends a message if there is room. Returns PUNCTUAL_EAGAIN if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_try_send(
    channel: *mut punctual_channel,
    bytes: *const c_void,
    length: usize,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (mut channel, message) =
            unsafe { (self::channel(channel)?, list(bytes.cast::<u8>(), length, "bytes")?) };
        Ok(channel.end.sends()?.try_send(message)?)
    })
}

/// Waits until all messages that were sent have left, for at most `timeout_ns`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_drain(
    channel: *mut punctual_channel,
    timeout_ns: u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let mut channel = unsafe { self::channel(channel) }?;
        Ok(channel.end.sends()?.drain_until(after(timeout_ns))?)
    })
}

/// Copies the next message to `into`, which has room for `length` bytes. Waits for a message, for
/// at most `timeout_ns` (UINT64_MAX: without a limit). If the message is longer than `length`,
/// returns PUNCTUAL_EINVAL, but writes `received`, and the message stays the next one. Returns
/// PUNCTUAL_EGONE if the server is gone and no message is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_receive(
    channel: *mut punctual_channel,
    into: *mut c_void,
    length: usize,
    timeout_ns: u64,
    received: *mut punctual_received,
) -> punctual_error {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { receive(channel, into, length, Some(timeout_ns), received) })
}

/// Copies the next message if there is one. Returns PUNCTUAL_EAGAIN if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_try_receive(
    channel: *mut punctual_channel,
    into: *mut c_void,
    length: usize,
    received: *mut punctual_received,
) -> punctual_error {
    // SAFETY: as the caller promises.
    guarded(|| unsafe { receive(channel, into, length, None, received) })
}

/// Receives for both functions above.
///
/// # Safety
/// As for them.
unsafe fn receive(
    channel: *mut punctual_channel,
    into: *mut c_void,
    length: usize,
    timeout_ns: Option<u64>,
    received: *mut punctual_received,
) -> Result<(), Failure> {
    // SAFETY: as promised for all three.
    let (mut channel, into) = unsafe {
        can_write(received)?;
        (self::channel(channel)?, room(into.cast::<u8>(), length, "into")?)
    };
    let receiving = channel.end.receives()?;
    if let Some(timeout_ns) = timeout_ns {
        receiving.wait_until(after(timeout_ns))?;
    }
    let message = receiving.message()?.ok_or(ReceiveError::Empty)?;
    let found = punctual_received {
        size: size_of::<punctual_received>(),
        bytes: message.len() as u64,
        number: message.number(),
        arrived_ns: message.arrived().as_nanos(),
    };
    // SAFETY: as promised.
    unsafe { write(received, found) }?;
    let (bytes, number) = (message.len(), message.number());
    if bytes > length {
        return Err(ReceiveError::TooSmall { number, bytes, room: length }.into());
    }
    if bytes > 0 {
        // The C program's buffer may be uninitialised, so it is not a slice of bytes yet.
        let into = into.as_mut_ptr().cast::<u8>();
        // SAFETY: the buffer has `length`, so at least `bytes`, bytes and is ours as promised. The
        // first call initialises them.
        message.read(0, unsafe {
            into.write_bytes(0, bytes);
            slice::from_raw_parts_mut(into, bytes)
        });
    }
    message.release();
    Ok(())
}
