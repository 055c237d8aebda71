//! Channels from the client's side.

use std::time::Duration as Time;

use punctual_channel::client::{Attach, RejoinError};
use punctual_channel::rings::Passed;
use punctual_linux::clock;
use punctual_model::Duration;
use thiserror::Error;

use super::{Broker, ClientError};
use crate::grant::{GrantId, Token};
use crate::want::{RawChannel, WantedChannel};
use crate::wire::{Answer, ChannelsStatus, ClientMessage, Opened, RefusedChannel};

/// The longest pause before a queue is requested again; each pause is twice as long as the one
/// before.
const LONGEST_PAUSE: Duration = Duration::from_millis(512);

/// The reason why there is no channel.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The refusal with its numbers, and with what would be admitted.
    #[error(transparent)]
    Refused(#[from] RefusedChannel),
    /// There is no answer, or the request is not valid.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A channel that was granted. It is open once its queue is attached, and until it is released,
/// revoked, or its process ends.
///
/// Dropping it releases nothing: the end of the connection does, after the grace period.
#[derive(Clone, Debug)]
pub struct GrantedChannel {
    id: GrantId,
    token: Token,
    want: WantedChannel,
    delay_bound: Option<Duration>,
    share: Option<u64>,
}

impl GrantedChannel {
    /// Returns its number.
    pub fn id(&self) -> GrantId {
        self.id
    }

    /// Returns the request that was granted.
    pub fn want(&self) -> &WantedChannel {
        &self.want
    }

    /// Returns the promised bound from logical arrival to the end of the transmission; `None` for
    /// best effort.
    pub fn delay_bound(&self) -> Option<Duration> {
        self.delay_bound
    }

    /// Returns the rate of best effort in bits a second, as of the last answer.
    pub fn share(&self) -> Option<u64> {
        self.share
    }

    fn update(&mut self, opened: &Opened) {
        self.delay_bound = opened.delay_bound_ns.map(Duration::from_nanos);
        self.share = opened.share_bps;
    }
}

impl Broker {
    /// Requests a channel. A granted channel belongs to this process, and carries nothing before
    /// its queue is [attached](Self::attach_channel).
    ///
    /// # Errors
    /// [`ChannelError::Refused`] with the numbers and counter-offers if the channel is not
    /// admitted; [`ChannelError::Client`] if there is no answer.
    pub fn open_channel(&mut self, want: &WantedChannel) -> Result<GrantedChannel, ChannelError> {
        let opened = self.opened(ClientMessage::OpenChannel { channel: RawChannel::from(want) })?;
        let (id, token) = (opened.grant, opened.token);
        let mut granted =
            GrantedChannel { id, token, want: want.clone(), delay_bound: None, share: None };
        granted.update(&opened);
        Ok(granted)
    }

    /// Requests the first counter-offer of a refusal.
    ///
    /// # Errors
    /// As [`Self::open_channel`]; `refused` itself if it has no counter-offer.
    pub fn accept_channel_offer(
        &mut self,
        refused: &RefusedChannel,
    ) -> Result<GrantedChannel, ChannelError> {
        let Some(offer) = refused.offers.first() else { return Err(refused.clone().into()) };
        let want = WantedChannel::try_from(offer.channel.clone()).map_err(|why| {
            ClientError::NotUnderstood(format!("an offer that is no request: {why}"))
        })?;
        self.open_channel(&want)
    }

    /// Opens a channel that was granted: its queue is made, mapped and attached. `E` is this
    /// process's end, `punctual_channel::client::Sending` or `Receiving`.
    ///
    /// # Errors
    /// If the broker makes no queue ([`ClientError::Kept`]: the user's quota of queues is used up),
    /// or the queue cannot be mapped, or there is no answer.
    pub fn attach_channel<E: Attach>(
        &mut self,
        granted: &GrantedChannel,
    ) -> Result<E, ClientError> {
        let queue = self.make_queue(granted, 0)?;
        let end = E::map(queue, granted.want.geometry())?;
        self.say_mapped(granted)?;
        Ok(end)
    }

    /// Continues a channel after the broker was replaced, once it was
    /// [resumed](Self::resume_channel): messages that were not sent, or not received, are not lost.
    ///
    /// # Errors
    /// As [`Self::attach_channel`]; also if the messages left cannot be carried over.
    pub fn reattach_channel(
        &mut self,
        granted: &GrantedChannel,
        end: &mut impl Attach,
    ) -> Result<(), ClientError> {
        let first = end.next_number().map_err(RejoinError::from)?;
        let queue = self.make_queue(granted, first)?;
        end.rejoin(queue, first)?;
        self.say_mapped(granted)
    }

    /// Requests a queue whose first message has the number `first`. This is the first step of
    /// [`Self::attach_channel`], for clients that map the queue themselves.
    ///
    /// # Errors
    /// [`ClientError::Kept`] if the user's quota of queues is still used up after a second of
    /// attempts; otherwise if there is no answer.
    pub fn make_queue(
        &mut self,
        granted: &GrantedChannel,
        first: u64,
    ) -> Result<Passed, ClientError> {
        let mut pause = Duration::from_millis(1);
        loop {
            self.files.clear();
            match self.ask(ClientMessage::AttachChannel { grant: granted.id, first })? {
                Answer::Queue { .. } => {
                    return Passed::of(std::mem::take(&mut self.files)).map_err(|files| {
                        let what = format!("a queue of {} descriptors", files.len());
                        ClientError::NotUnderstood(what)
                    });
                }
                // The broker itself may still hold some of the memory, and frees it soon.
                Answer::Kept { .. } if pause <= LONGEST_PAUSE => {
                    clock::sleep(pause);
                    pause = pause + pause;
                }
                Answer::Kept { bytes } => return Err(ClientError::Kept { bytes }),
                other => return Err(super::unexpected(other)),
            }
        }
    }

    /// Reports that the queue is mapped, so that the broker seals and attaches it: the last step of
    /// [`Self::attach_channel`].
    ///
    /// # Errors
    /// If the broker has not sealed the queue in time, or there is no answer.
    pub fn say_mapped(&mut self, granted: &GrantedChannel) -> Result<(), ClientError> {
        let (mut pause, longest) = (Duration::from_micros(50), Duration::from_millis(10));
        let mut waited = Duration::ZERO;
        loop {
            match self.ask(ClientMessage::MappedChannel { grant: granted.id })? {
                Answer::Attached => return Ok(()),
                Answer::Sealing if u128::from(waited.as_nanos()) < self.patience.as_nanos() => {
                    clock::sleep(pause);
                    waited += pause;
                    pause = longest.min(pause + pause);
                }
                Answer::Sealing => {
                    let waited = Time::from_nanos(waited.as_nanos());
                    return Err(ClientError::NoAnswer { waited });
                }
                other => return Err(super::unexpected(other)),
            }
        }
    }

    /// Requests another contract for a channel, with the same direction, address, framing and
    /// queue. Until it is granted, and if it is refused, everything stays as it is.
    ///
    /// # Errors
    /// As [`Self::open_channel`].
    pub fn change_channel(
        &mut self,
        granted: &mut GrantedChannel,
        want: &WantedChannel,
    ) -> Result<(), ChannelError> {
        let channel = RawChannel::from(want);
        let opened = self.opened(ClientMessage::ChangeChannel { grant: granted.id, channel })?;
        granted.want = want.clone();
        granted.update(&opened);
        Ok(())
    }

    /// Continues a channel after a reconnection. If the broker was replaced its queue is to be
    /// attached again.
    ///
    /// # Errors
    /// If the broker does not know the channel or its token, or there is no answer.
    pub fn resume_channel(&mut self, granted: &mut GrantedChannel) -> Result<(), ChannelError> {
        let opened =
            self.opened(ClientMessage::Resume { grant: granted.id, token: granted.token })?;
        granted.update(&opened);
        Ok(())
    }

    /// Gives a channel back. The contents of its queue are lost.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn release_channel(&mut self, granted: GrantedChannel) -> Result<(), ClientError> {
        self.release(granted.id)
    }

    /// Returns the channels that are granted with their measurements: this user's, or all of them
    /// for root.
    ///
    /// # Errors
    /// If the broker is gone or does not answer in time.
    pub fn channels(&mut self) -> Result<ChannelsStatus, ClientError> {
        let mut all: Option<ChannelsStatus> = None;
        loop {
            let after = all.as_ref().and_then(|all| all.channels.last()).map(|last| last.grant);
            let mut page = match self.ask(ClientMessage::Channels { after })? {
                Answer::Channels(page) => page,
                other => return Err(super::unexpected(other)),
            };
            // A broker that sends empty pages with `more` set would never end this loop.
            let more = page.more && !page.channels.is_empty();
            let mut status = match all.take() {
                None => page,
                Some(mut all) => {
                    all.channels.append(&mut page.channels);
                    all
                }
            };
            status.more = more;
            if !more {
                return Ok(status);
            }
            all = Some(status);
        }
    }

    fn opened(&mut self, ask: ClientMessage) -> Result<Opened, ChannelError> {
        match self.ask(ask)? {
            Answer::Opened(opened) => Ok(opened),
            Answer::ChannelRefused(refused) => Err(refused.into()),
            other => Err(super::unexpected(other).into()),
        }
    }
}
