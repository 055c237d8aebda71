//! A turn of a channel whose messages come in fragments: put together in memory of this process, for
//! a client may scribble over its own at any time, then written into the client's slot once.

use punctual_linux::net::{Inbox, ReceiveError};
use punctual_model::Instant;

use super::channel::{Channel, Clocks, Served, delay};
use super::error::Ended;
use crate::account::Outcome;
use crate::fragment::{Message, Taken};

/// Reads as many datagrams as `inbox` has rooms for.
pub(super) fn serve(channel: &mut Channel, clocks: &Clocks, inbox: &mut Inbox) -> Served {
    let mut served = Served::default();
    match read(channel, inbox) {
        Ok(drained) => served.drained = drained,
        Err(ended) => return Served { ended: Some(ended), ..served },
    }
    for datagram in inbox.datagrams() {
        served.read += 1;
        let arrived = channel.arrived(clocks, datagram.arrival);
        if let Err(conforms_at) = channel.police.datagram(arrived) {
            channel.opening.receipts.policed();
            channel.broke(conforms_at);
        } else if let Err(ended) = take(channel, clocks.now, arrived, datagram.bytes) {
            served.ended = Some(ended);
            break;
        }
    }
    let opening = &mut channel.opening;
    if let Some(reassembly) = &opening.reassembly {
        opening.receipts.reassembly(reassembly.counts(), reassembly.open());
    }
    if let Err(ended) = channel.publish() {
        served.ended = served.ended.or(Some(ended));
    }
    served
}

/// Whether the socket is empty afterwards.
fn read(channel: &Channel, inbox: &mut Inbox) -> Result<bool, Ended> {
    let socket = &channel.opening.socket;
    let mut tries = 0;
    loop {
        match socket.receive(inbox) {
            Ok(got) => return Ok(got < inbox.rooms()),
            // See `datagrams::receive`.
            Err(ReceiveError::Pending(_)) if tries < 4 => {
                let _ = socket.take_notice();
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A datagram; the message that it completes goes to the client.
fn take(
    channel: &mut Channel,
    now: Instant,
    arrived: Instant,
    datagram: &[u8],
) -> Result<(), Ended> {
    let Some(reassembly) = &mut channel.opening.reassembly else { return Ok(()) };
    // What is refused is counted by the reassembly.
    let Ok(Taken::Complete(message)) = reassembly.take(arrived, datagram) else { return Ok(()) };
    let Message { bytes, first_sent, .. } = message;
    // Not longer than a message of this contract.
    let length = bytes.len() as u32;
    let shared = channel.opening.terms.shared_clock;
    let lost = match channel.police.message(arrived) {
        Err(conforms_at) => Some((Outcome::NonConforming, Some(conforms_at))),
        Ok(()) => match channel.opening.puts.claim()? {
            None => Some((Outcome::RingFull, None)),
            Some(mut slot) => {
                slot.write(0, bytes);
                slot.push(bytes.len(), arrived.as_nanos());
                None
            }
        },
    };
    if let Some(delay) = delay(first_sent, arrived).filter(|_| shared) {
        channel.opening.receipts.delayed(delay);
    }
    match lost {
        None => channel.received(length, now, arrived),
        Some((outcome, conforms_at)) => {
            channel.opening.receipts.message(length, outcome);
            if let Some(conforms_at) = conforms_at {
                channel.broke(conforms_at);
            }
        }
    }
    Ok(())
}
