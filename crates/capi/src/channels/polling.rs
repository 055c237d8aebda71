//! Supports the use of a channel in an event loop.

use std::ffi::c_int;
use std::os::fd::{AsFd as _, AsRawFd as _};

use ::punctual_channel::client::Rest;

use super::life::{End, channel, punctual_channel};
use crate::error::{guarded, punctual_error};
use crate::sized::out;

/// Writes the file descriptor to poll for reading, between `punctual_channel_before_poll` and
/// `punctual_channel_after_poll`. It changes with `punctual_channel_rejoin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_fd(
    channel: *mut punctual_channel,
    fd: *mut c_int,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (channel, to) = unsafe { (self::channel(channel)?, out(fd, "fd")?) };
        to.write(match &channel.end {
            End::Sends(sending) => sending.as_fd().as_raw_fd(),
            End::Receives(receiving) => receiving.as_fd().as_raw_fd(),
        });
        Ok(())
    })
}

/// Announces that the program is going to poll. Sets `work` to a value other than 0 if there is
/// already room, or a message; then do not sleep. Without this call the server does not wake the
/// program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_before_poll(
    channel: *mut punctual_channel,
    work: *mut u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (mut channel, to) = unsafe { (self::channel(channel)?, out(work, "work")?) };
        let rest = match &mut channel.end {
            End::Sends(sending) => sending.before_poll()?,
            End::Receives(receiving) => receiving.before_poll()?,
        };
        to.write(u32::from(rest == Rest::Work));
        Ok(())
    })
}

/// Announces that the program has polled, with any result. Afterwards send or receive until
/// PUNCTUAL_EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_after_poll(
    channel: *mut punctual_channel,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        match &mut unsafe { self::channel(channel) }?.end {
            End::Sends(sending) => sending.after_poll()?,
            End::Receives(receiving) => receiving.after_poll()?,
        }
        Ok(())
    })
}
