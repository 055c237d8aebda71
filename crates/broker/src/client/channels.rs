//! Asking for channels.

use std::time::Duration as Time;

use punctual_channel::client::{Attach, RejoinError};
use punctual_channel::rings::Passed;
use punctual_linux::clock;
use punctual_model::Duration;
use thiserror::Error;

use super::{Broker, ClientError};
use crate::grant::{GrantId, Token};
use crate::want::{RawChannel, WantedChannel};
use crate::wire::{Answer, Ask, ChannelsStatus, Opened, RefusedChannel};

/// The longest pause before a queue is asked for again; each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(512);

/// Why there is no channel.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// With the numbers, and what would be admitted.
    #[error(transparent)]
    Refused(#[from] RefusedChannel),
    /// No answer, or no valid request.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A channel that was granted. It is open once its queue is attached, and until it is released,
/// revoked, or its process ends.
///
/// Dropping it releases nothing: the connection's end does, after the grace period.
#[derive(Clone, Debug)]
pub struct GrantedChannel {
    id: GrantId,
    token: Token,
    want: WantedChannel,
    delay_bound: Option<Duration>,
    share: Option<u64>,
}

impl GrantedChannel {
    /// Its number.
    pub fn id(&self) -> GrantId {
        self.id
    }

    /// What was granted.
    pub fn want(&self) -> &WantedChannel {
        &self.want
    }

    /// What is promised: from logical arrival to the end of the transmission. None to best effort.
    pub fn delay_bound(&self) -> Option<Duration> {
        self.delay_bound
    }

    /// What best effort had when this was last asked, in bits a second.
    pub fn share(&self) -> Option<u64> {
        self.share
    }

    fn told(&mut self, opened: &Opened) {
        self.delay_bound = opened.delay_bound_ns.map(Duration::from_nanos);
        self.share = opened.share_bps;
    }
}

impl Broker {
    /// Asks for a channel. When it is granted it is this process's, and carries nothing before its
    /// queue is [attached](Self::attach_channel).
    pub fn open_channel(&mut self, want: &WantedChannel) -> Result<GrantedChannel, ChannelError> {
        let opened = self.opened(Ask::OpenChannel { channel: RawChannel::from(want) })?;
        let (id, token) = (opened.grant, opened.token);
        let mut granted =
            GrantedChannel { id, token, want: want.clone(), delay_bound: None, share: None };
        granted.told(&opened);
        Ok(granted)
    }

    /// Asks for the first counter-offer of a refusal; the refusal itself where there is none.
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

    /// Opens a channel that was granted: its queue is made, mapped and attached. `E` is this process's end,
    /// `punctual_channel::client::Sending` or `Receiving`.
    pub fn attach_channel<E: Attach>(
        &mut self,
        granted: &GrantedChannel,
    ) -> Result<E, ClientError> {
        let queue = self.make_queue(granted, 0)?;
        let end = E::map(queue, granted.want.geometry())?;
        self.say_mapped(granted)?;
        Ok(end)
    }

    /// Goes on with a channel after the broker was replaced, once it was
    /// [resumed](Self::resume_channel): what had not left, or was not received, is not lost.
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

    /// The first step of [`Self::attach_channel`]: has the broker make a queue whose first message has this
    /// number. For clients that map it themselves.
    pub fn make_queue(
        &mut self,
        granted: &GrantedChannel,
        first: u64,
    ) -> Result<Passed, ClientError> {
        let mut pause = Duration::from_millis(1);
        loop {
            self.files.clear();
            match self.ask(Ask::AttachChannel { grant: granted.id, first })? {
                Answer::Queue { .. } => {
                    return Passed::of(std::mem::take(&mut self.files)).map_err(|files| {
                        let what = format!("a queue of {} descriptors", files.len());
                        ClientError::NotUnderstood(what)
                    });
                }
                // The broker may have to let go of some itself: it does that soon.
                Answer::Kept { .. } if pause <= LONGEST_PAUSE => {
                    clock::sleep(pause);
                    pause = pause + pause;
                }
                Answer::Kept { bytes } => return Err(ClientError::Kept { bytes }),
                other => return Err(super::unexpected(other)),
            }
        }
    }

    /// The last step of [`Self::attach_channel`]: the queue is mapped, and is sealed and attached now.
    pub fn say_mapped(&mut self, granted: &GrantedChannel) -> Result<(), ClientError> {
        let (mut pause, longest) = (Duration::from_micros(50), Duration::from_millis(10));
        let mut waited = Duration::ZERO;
        loop {
            match self.ask(Ask::MappedChannel { grant: granted.id })? {
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

    /// Asks for another contract for a channel, whose direction, address, framing and queue stay. Until
    /// it is granted, and where it is refused, everything stays as it is.
    pub fn change_channel(
        &mut self,
        granted: &mut GrantedChannel,
        want: &WantedChannel,
    ) -> Result<(), ChannelError> {
        let channel = RawChannel::from(want);
        let opened = self.opened(Ask::ChangeChannel { grant: granted.id, channel })?;
        granted.want = want.clone();
        granted.told(&opened);
        Ok(())
    }

    /// Goes on with a channel after a reconnection. If the broker was replaced its queue is to be
    /// attached again.
    pub fn resume_channel(&mut self, granted: &mut GrantedChannel) -> Result<(), ChannelError> {
        let opened = self.opened(Ask::Resume { grant: granted.id, token: granted.token })?;
        granted.told(&opened);
        Ok(())
    }

    /// Gives a channel back. What is in its queue is lost.
    pub fn release_channel(&mut self, granted: GrantedChannel) -> Result<(), ClientError> {
        self.release(granted.id)
    }

    /// The channels that are granted, and what was measured: this user's, or for root everything.
    pub fn channels(&mut self) -> Result<ChannelsStatus, ClientError> {
        let mut all: Option<ChannelsStatus> = None;
        loop {
            let after = all.as_ref().and_then(|all| all.channels.last()).map(|last| last.grant);
            let mut page = match self.ask(Ask::Channels { after })? {
                Answer::Channels(page) => page,
                other => return Err(super::unexpected(other)),
            };
            // A page that says "more" and brings nothing would never end.
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

    fn opened(&mut self, ask: Ask) -> Result<Opened, ChannelError> {
        match self.ask(ask)? {
            Answer::Opened(opened) => Ok(opened),
            Answer::ChannelRefused(refused) => Err(refused.into()),
            other => Err(super::unexpected(other).into()),
        }
    }
}
