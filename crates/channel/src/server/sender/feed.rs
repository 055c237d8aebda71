//! The next message of a channel, out of its ring.

use std::cmp::Reverse;

use punctual_model::{Duration, Instant};
use punctual_policy::egress::Offered;
use punctual_ring::frames::Rest;

use super::channel::Head;
use super::{Ended, Opening, Sender};
use crate::account::Loss;
use crate::transport::Transport;

/// Messages of a wrong size of one channel that are lost in one go; the others have their turn then.
pub(super) const LOST_AT_A_GO: u32 = 8;

/// For how long a channel is left alone that loses more than that because they have a wrong size.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

impl<T: Transport<To = u32>> Sender<T> {
    /// Takes the next message of a channel that has none on its way, or goes to rest.
    pub(super) fn feed(&mut self, now: Instant, key: u32) {
        self.feed_since(now, key, now);
    }

    /// The same for a channel at rest whose bell may have rung at any time from `since` on.
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
                        // What came before the end is sent before it.
                        Ok(Rest::Sleep) if channel.gone => {
                            return self.end(key, Ended::ClientGone);
                        }
                        Ok(Rest::Sleep) => {
                            room.tell(now, bell);
                            channel.rested = true;
                            return;
                        }
                        // Known by that look, and seen only now.
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
                // What came while the message before it was on its way may have come at any time in it.
                channel.since = if channel.rested { since } else { channel.seen };
                (channel.seen, channel.rested) = (now, false);
                channel.absent = std::mem::replace(&mut channel.looked, now);
            }
            // At most `Geometry::MAX_MESSAGE`.
            let (position, bytes) = (frame.position(), frame.len() as u32);
            let number = takes.released();
            // As its client says.
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
                    // Whatever was seen with it came as early.
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
                    // Not at rest until then: what comes too early costs nobody a look of its own.
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

    /// Nothing more of this channel is carried.
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
