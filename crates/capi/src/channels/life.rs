//! Opens, rejoins, describes and closes channels.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::punctual_channel::client::{Receiving, Sending};
use punctual_client::SOCKET;
use punctual_client::{Broker, ChannelError, ClientError, GrantedChannel};
use punctual_model::Duration;
use punctual_model::channel::Direction;

use super::records::{punctual_channel_info, punctual_channel_request};
use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{can_write, handle, out, read, text, write};

/// A channel. Its functions may be called from any thread, and wait for each other.
/// `punctual_channel_close` must be the last. After fork(2) the child must not use it.
pub struct punctual_channel(Mutex<Channel>);

pub(super) struct Channel {
    pub(super) end: End,
    path: PathBuf,
    broker: Broker,
    granted: GrantedChannel,
}

/// This program's end of the channel.
pub(super) enum End {
    Sends(Sending),
    Receives(Receiving),
}

impl End {
    fn rejoin(&mut self, broker: &mut Broker, granted: &GrantedChannel) -> Result<(), ClientError> {
        match self {
            Self::Sends(sending) => broker.reattach_channel(granted, sending),
            Self::Receives(receiving) => broker.reattach_channel(granted, receiving),
        }
    }

    pub(super) fn sends(&mut self) -> Result<&mut Sending, Failure> {
        match self {
            Self::Sends(sending) => Ok(sending),
            Self::Receives(_) => Err(Failure::invalid("the channel receives, and sends nothing")),
        }
    }

    pub(super) fn receives(&mut self) -> Result<&mut Receiving, Failure> {
        match self {
            Self::Receives(receiving) => Ok(receiving),
            Self::Sends(_) => Err(Failure::invalid("the channel sends, and receives nothing")),
        }
    }
}

/// Locks a channel.
///
/// # Safety
/// As for [`handle`].
pub(super) unsafe fn channel<'a>(
    channel: *mut punctual_channel,
) -> Result<MutexGuard<'a, Channel>, Failure> {
    // SAFETY: as promised.
    let channel = unsafe { handle(channel, "channel") }?;
    // A panic leaves the queue consistent: what was published stays published.
    Ok(channel.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Requests a channel from the broker. Returns PUNCTUAL_EREFUSED, with a counter-offer in the
/// sentence, if it is not admitted, and PUNCTUAL_EHOST if no broker answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_open(
    request: *const punctual_channel_request,
    channel: *mut *mut punctual_channel,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (request, to) = unsafe { (read(request)?, out(channel, "channel")?) };
        // SAFETY: as the caller promises.
        let (want, path) = unsafe { (request.want()?, text(request.broker)) };
        let path = PathBuf::from(if path.is_empty() { SOCKET.into() } else { path });
        let mut broker = Broker::connect_to(&path).map_err(ChannelError::from)?;
        let granted = broker.open_channel(&want)?;
        let end = match want.direction {
            Direction::Send => broker.attach_channel(&granted).map(End::Sends),
            Direction::Receive => broker.attach_channel(&granted).map(End::Receives),
        };
        let end = end.map_err(ChannelError::from)?;
        let opened = punctual_channel(Mutex::new(Channel { end, path, broker, granted }));
        to.write(Box::into_raw(Box::new(opened)));
        Ok(())
    })
}

/// Rejoins the channel after PUNCTUAL_EGONE: connects to the next broker and continues there, with
/// everything that was in the queue. Returns PUNCTUAL_EHOST while there is no broker; then try
/// again within the broker's grace period. Returns PUNCTUAL_EENDED if the broker has revoked the
/// channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_rejoin(channel: *mut punctual_channel) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let mut channel = unsafe { self::channel(channel) }?;
        let Channel { end, path, broker, granted } = &mut *channel;
        let mut next = Broker::connect_to(path).map_err(ChannelError::from)?;
        next.resume_channel(granted)?;
        end.rejoin(&mut next, granted).map_err(ChannelError::from)?;
        *broker = next;
        Ok(())
    })
}

/// Writes the state of a channel to `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_get(
    channel: *mut punctual_channel,
    info: *mut punctual_channel_info,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let mut channel = unsafe { self::channel(channel) }?;
        // SAFETY: as the caller promises.
        unsafe { can_write(info) }?;
        let Channel { end, granted, .. } = &mut *channel;
        let (geometry, unreleased) = match end {
            End::Sends(sending) => {
                let unreleased = sending.unreleased();
                (sending.geometry(), unreleased?)
            }
            End::Receives(receiving) => (receiving.geometry(), 0),
        };
        let found = punctual_channel_info {
            size: size_of::<punctual_channel_info>(),
            grant: granted.id().0,
            delay_bound_ns: granted.delay_bound().map_or(0, Duration::as_nanos),
            share_bps: granted.share().unwrap_or(0),
            unreleased,
            max_message: geometry.max_message(),
            slots: geometry.slots(),
        };
        // SAFETY: as the caller promises.
        unsafe { write(info, found) }
    })
}

/// Gives a channel back to the broker, and frees it in any case. Messages that were sent and have
/// not left are lost; call `punctual_channel_drain` before to avoid that. Does nothing for a null
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_close(channel: *mut punctual_channel) -> punctual_error {
    guarded(|| {
        if channel.is_null() {
            return Ok(());
        }
        // SAFETY: made by `punctual_channel_open`, and given up by the caller.
        let channel = unsafe { Box::from_raw(channel) };
        let channel = channel.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Channel { mut broker, granted, .. } = channel;
        // Without a broker the channel ends by itself, with its process or after the grace period.
        let _ = broker.release_channel(granted);
        Ok(())
    })
}
