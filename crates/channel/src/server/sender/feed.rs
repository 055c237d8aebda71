//! Takes the next message of a channel out of its ring.

use std::cmp::Reverse;

use punctual_model::{Duration, Instant};
use punctual_policy::egress::Offered;
use punctual_ring::frames::Rest;

use super::channel::Head;
use super::{Ended, Opening, Sender};
use crate::account::Loss;
use crate::transport::Transport;

/// The number of messages of a wrong size that one channel loses in one go; then the other channels
/// have their turn.
pub(super) const LOST_AT_A_GO: u32 = 8;

/// The time for which a channel is left alone that loses more than that.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

impl<T: Transport<To = u32>> Sender<T> {
    /// Takes the next message of a channel that has none under way, or lets the channel rest.
    pub(super) fn feed(&mut self, now: Instant, key: u32) {
        self.feed_since(now, key, now);
    }

    /// Does the same for a resting channel whose bell may have rung at any time from `since` on.
    pub(super) fn feed_since(&mut self, now: Instant, key: u32, since: Instant) {
        let Some(channel) = self.channels[key as usize].as_mut() else { return };
        if channel.head.is_some() || channel.ended || channel.again {
            return;
        }
        let Opening { terms, takes, recorder, bell, .. } = &mut channel.opening;
        let room = &mut channel.room;
        let mut came_while_resting = false;
        for _ in 0..LOST_AT_A_GO {
            let is_known = takes.known() > 0 && !std::mem::take(&mut came_while_resting);
            let frame = match takes.take() {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    channel.looked = now;
                    match takes.rest() {
                        // Messages that came before the client's end are sent before the channel
                        // ends.
                        Ok(Rest::Sleep) if channel.gone => {
                            return self.end(key, Ended::ClientGone);
                        }
                        Ok(Rest::Sleep) => {
                            room.wake(now, bell);
                            channel.rested = true;
                            return;
                        }
                        // The message became known by that look, and is seen only now.
                        Ok(Rest::Work) => {
                            came_while_resting = true;
                            continue;
                        }
                        Err(corrupt) => return self.end(key, Ended::Corrupt(corrupt)),
                    }
                }
                Err(corrupt) => return self.end(key, Ended::Corrupt(corrupt)),
            };
            if !is_known {
                // A message that came while the previous one was under way may have come at any
                // time in between.
                channel.since = if channel.rested { since } else { channel.seen };
                (channel.seen, channel.rested) = (now, false);
                channel.absent = std::mem::replace(&mut channel.looked, now);
            }
            // At most `Geometry::MAX_MESSAGE`.
            let (position, bytes) = (frame.position(), frame.len() as u32);
            let number = takes.released();
            // The time that the client reports.
            let published = Instant::from_nanos(frame.user());
            recorder.offered(bytes);
            let (since, seen) = (channel.since, channel.seen);
            match self.egress.offer_since(now, channel.egress, since, seen, bytes) {
                Offered::Taken { logical, conforming } => {
                    channel.vain = 0;
                    let spacing = terms.arrivals.min_inter_arrival();
                    let arrived = channel.judge.arrival(spacing, channel.absent, seen, published);
                    recorder.taken(bytes, arrived, conforming);
                    channel.next = logical.saturating_add(spacing);
                    let begun = false;
                    channel.head = Some(Head { position, bytes, number, logical, arrived, begun });
                    return;
                }
                Offered::TooEarly { conforms_at } => {
                    recorder.lost(Loss::TooEarly);
                    // All messages that were seen with it came as early.
                    let mut lost = 1;
                    while takes.known() > 0 {
                        match takes.take() {
                            Ok(Some(frame)) => recorder.offered(frame.len() as u32),
                            Ok(None) => break,
                            Err(corrupt) => return self.end(key, Ended::Corrupt(corrupt)),
                        }
                        recorder.lost(Loss::TooEarly);
                        lost += 1;
                    }
                    room.release(now, takes, bell, lost);
                    // The channel does not rest until then: messages that come too early cost no
                    // look of their own.
                    return self.look_again(conforms_at, key);
                }
                Offered::WrongSize => {
                    recorder.lost(Loss::WrongSize);
                    room.release(now, takes, bell, 1);
                }
            }
        }
        self.look_again(now.saturating_add(PAUSE), key);
    }

    fn look_again(&mut self, at: Instant, key: u32) {
        if let Some(channel) = self.channels[key as usize].as_mut()
            && !std::mem::replace(&mut channel.again, true)
        {
            channel.rested = true;
            self.again.push(Reverse((at, key)));
        }
    }

    /// Stops carrying a channel.
    pub(super) fn end(&mut self, key: u32, why: Ended) {
        let Some(channel) = self.channels[key as usize].as_mut() else { return };
        if std::mem::replace(&mut channel.ended, true) {
            return;
        }
        let _was_open = self.egress.close(channel.egress);
        if channel.head.take().is_some() {
            channel.opening.recorder.lost(Loss::Closed);
        }
        self.ended.push((key, why));
    }
}
