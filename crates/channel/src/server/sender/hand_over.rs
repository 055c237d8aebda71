//! Hands one block over to the transport from the client's memory.

use std::num::NonZeroU16;

use punctual_linux::net::Place;
use punctual_model::channel::Framing;
use punctual_model::{Duration, Instant};
use punctual_policy::egress::{Block, Sent};
use punctual_trace::Kind;

use super::channel::Head;
use super::{Channel, Opening, Sender};
use crate::account::{Delivered, Loss};
use crate::fragment::{Fragments, HEADER_BYTES};
use crate::rings::View;
use crate::transport::{HandedOver, NotTaken, Packet, Piece, Transport};

/// The most packets of a block that are handed over in one go: what one system call takes.
const MOST: usize = 64;

/// The time after which a transport that has no room, and does not say when it will, is tried
/// again.
const RETRY: Duration = Duration::from_micros(50);

/// The consequence for the message of a block.
enum Outcome {
    More,
    Sent { leaves_by: Instant },
    Lost(Loss),
}

impl<T: Transport<To = u32>> Sender<T> {
    /// Hands over the block from the egress scheduler, and takes the channel's next message if that
    /// was the end of one.
    pub(super) fn hand_over(&mut self, now: Instant, block: Block, clock: impl Fn() -> Instant) {
        let key = self.of_egress[block.channel as usize];
        let Some(channel) = self.channels[key as usize].as_mut() else {
            // The scheduler gives no block of a channel that was closed.
            return self.egress.give_up();
        };
        let Some(head) = channel.head else { return self.egress.give_up() };
        let packet_bytes = self.cut.packet_bytes();
        let taken = match channel.opening.framing {
            Framing::Datagram => {
                let packet = Packet { head: &[], piece: piece(channel, head, 0..block.bytes) };
                self.transport.hand_over(now, key, &[packet])
            }
            Framing::Fragments => {
                fragments(&mut self.transport, now, key, channel, head, block, packet_bytes)
            }
        };
        let begins = !head.begun && taken.packets > 0;
        let outcome = match taken.stopped {
            None => of_sent(self.egress.sent(now)),
            // The taken packets are on the link. The reason for the stop comes again when the rest
            // is tried alone.
            Some(_) if taken.packets > 0 => {
                // At most as many as a block has.
                of_sent(self.egress.sent_part(now, taken.packets as u32))
            }
            Some(NotTaken::WouldBlock { until }) => {
                let until = until.unwrap_or_else(|| now.saturating_add(RETRY));
                self.egress.put_back(now, until);
                Outcome::More
            }
            Some(why) => {
                self.egress.give_up();
                Outcome::Lost(match why {
                    NotTaken::TooLarge { .. } => Loss::Refused,
                    _ => Loss::Unreachable,
                })
            }
        };
        let mut event = |at, kind| {
            if let Some(events) = &mut self.events {
                events.record(at, (key, head.number), head.logical, kind);
            }
        };
        if begins {
            event(now, Kind::Start);
        }
        let Opening { takes, recorder, bell, .. } = &mut channel.opening;
        let handed_over = match outcome {
            Outcome::More => {
                channel.head = Some(Head { begun: head.begun || begins, ..head });
                return;
            }
            Outcome::Sent { leaves_by: ends } => {
                let (bytes, arrived, handed_over) = (head.bytes, head.arrived, clock());
                recorder.sent(Delivered { bytes, arrived, handed_over, ends });
                event(handed_over, Kind::Complete);
                handed_over
            }
            Outcome::Lost(loss) => {
                recorder.lost(loss);
                let begun = head.begun || begins;
                event(now, if begun { Kind::Abort } else { Kind::Skip { jobs: 1 } });
                now
            }
        };
        channel.head = None;
        channel.room.release(handed_over, takes, bell, 1);
        self.feed(now, key);
    }
}

fn of_sent(sent: Sent) -> Outcome {
    match sent {
        Sent::Complete { leaves_by } => Outcome::Sent { leaves_by },
        Sent::MorePackets => Outcome::More,
        // Only this thread closes channels, and it is at work here.
        Sent::Closed => Outcome::Lost(Loss::Closed),
    }
}

/// Returns a part of the message in the client's memory.
fn piece(channel: &Channel, head: Head, bytes: std::ops::Range<u32>) -> Piece<'_> {
    let View(memory) = channel.opening.takes.memory();
    let at = |offset: u32| head.position + offset as usize;
    Piece::Shared(Place::within(memory, at(bytes.start)..at(bytes.end)))
}

/// Hands over a block whose packets have headers.
fn fragments<T: Transport<To = u32>>(
    transport: &mut T,
    now: Instant,
    key: u32,
    channel: &Channel,
    head: Head,
    block: Block,
    packet_bytes: u32,
) -> HandedOver {
    let fragment_bytes = u16::try_from(packet_bytes).ok().and_then(NonZeroU16::new);
    let message = Fragments {
        // The creator of the sender ensures this; a larger packet would fit into no datagram.
        fragment_bytes: fragment_bytes.unwrap_or(NonZeroU16::MAX),
        channel: channel.opening.number,
        message: head.number,
        length: head.bytes,
    };
    let mut handed = 0;
    let mut pieces = message.within(block.offset..block.offset + block.bytes, Some(now));
    loop {
        let mut heads = [[0; HEADER_BYTES]; MOST];
        let mut ranges = [(0, 0); MOST];
        let mut count = 0;
        for one in pieces.by_ref().take(MOST) {
            heads[count] = one.header.to_bytes();
            ranges[count] = (one.bytes.start, one.bytes.end);
            count += 1;
        }
        if count == 0 {
            return HandedOver { packets: handed, stopped: None };
        }
        let mut packets = [Packet { head: &[], piece: Piece::Bytes(&[]) }; MOST];
        for at in 0..count {
            let (start, end) = ranges[at];
            packets[at] = Packet { head: &heads[at], piece: piece(channel, head, start..end) };
        }
        let taken = transport.hand_over(now, key, &packets[..count]);
        handed += taken.packets;
        if taken.stopped.is_some() {
            return HandedOver { packets: handed, ..taken };
        }
    }
}
