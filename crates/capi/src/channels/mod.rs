//! Exports channels: messages with a promised delay.
//!
//! In the order of the header:
//! - `records`: the request, and the state of a channel.
//! - `life`: open, rejoin, close.
//! - `messages`: send, receive, drain.
//! - `polling`: use in an event loop.
//!
//! `failures` maps errors to error numbers.

mod failures;

mod records;

mod life;

mod messages;

mod polling;

pub use life::{
    punctual_channel, punctual_channel_close, punctual_channel_get, punctual_channel_open,
    punctual_channel_rejoin,
};
pub use messages::{
    punctual_channel_drain, punctual_channel_receive, punctual_channel_send,
    punctual_channel_try_receive, punctual_channel_try_send,
};
pub use polling::{punctual_channel_after_poll, punctual_channel_before_poll, punctual_channel_fd};
pub use records::{
    punctual_channel_info, punctual_channel_request, punctual_direction, punctual_framing,
    punctual_policing, punctual_received, punctual_too_early,
};
