//! Serves a channel whose messages come in fragments. They are reassembled in memory of this
//! process, because a client may overwrite its own at any time, and then written into the client's
//! slot once.

use punctual_linux::net::{Inbox, ReceiveError};
use punctual_model::Instant;

use super::channel::{Channel, Clocks, Served, delay};
use super::terms::Ended;
use crate::account::Outcome;
use crate::fragment::{Message, Taken};

/// Reads up to `most` datagrams, as far as `inbox` has room for them.
pub(super) fn serve(
    channel: &mut Channel,
    clocks: &Clocks,
    most: u32,
    inbox: &mut Inbox,
) -> Served {
    let mut served = Served::default();
    let most = match room_for(channel, most) {
        Ok(0) => return Served { held: true, ..served },
        Ok(most) => most as usize,
        Err(ended) => return Served { ended: Some(ended), ..served },
    };
    match read(channel, most, inbox) {
        Ok(drained) => served.drained = drained,
        Err(ended) => return Served { ended: Some(ended), ..served },
    }
    for datagram in inbox.datagrams() {
        served.read += 1;
        let arrived = channel.arrived(clocks, datagram.arrival);
        if !channel.police.datagram(arrived) {
            channel.opening.receipts.policed();
        } else if let Err(ended) = take(channel, clocks.now, arrived, datagram.bytes) {
            served.ended = Some(ended);
            break;
        }
    }
    let opening = &mut channel.opening;
    if let Some(reassembly) = &opening.reassembly {
        opening.receipts.reassembly(reassembly.counts(), reassembly.open());
    }
    channel.publish();
    served
}

/// Returns for how many of `most` datagrams there is room if each completes a message. If nothing
/// was promised, the others wait in the socket, as in `datagrams`.
fn room_for(channel: &mut Channel, most: u32) -> Result<u32, Ended> {
    if channel.opening.terms.delay_bound.is_some() {
        return Ok(most);
    }
    // At most `most`.
    Ok(channel.opening.puts.claim_several(most)?.len() as u32)
}

/// Reads datagrams; returns whether the socket is empty afterwards.
fn read(channel: &Channel, most: usize, inbox: &mut Inbox) -> Result<bool, Ended> {
    let socket = &channel.opening.socket;
    let mut tries = 0;
    loop {
        match socket.receive_up_to(inbox, most) {
            Ok(got) => return Ok(got < most.min(inbox.rooms())),
            // See `datagrams::receive`.
            Err(ReceiveError::Pending(_)) if tries < 4 => {
                let _ = socket.take_notice();
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes a datagram; if it completes a message, the message goes to the client.
fn take(
    channel: &mut Channel,
    now: Instant,
    arrived: Instant,
    datagram: &[u8],
) -> Result<(), Ended> {
    let Some(reassembly) = &mut channel.opening.reassembly else { return Ok(()) };
    // The reassembly counts refused fragments.
    let Ok(Taken::Complete(message)) = reassembly.take(arrived, datagram) else { return Ok(()) };
    let Message { bytes, first_sent, .. } = message;
    // Not longer than a message of this contract.
    let length = bytes.len() as u32;
    let shared = channel.opening.terms.shared_clock;
    let lost = if channel.police.message(arrived) {
        match channel.opening.puts.claim()? {
            None => Some(Outcome::RingFull),
            Some(mut slot) => {
                slot.write(0, bytes);
                slot.push(bytes.len(), arrived.as_nanos());
                None
            }
        }
    } else {
        Some(Outcome::NonConforming)
    };
    if let Some(delay) = delay(first_sent, arrived).filter(|_| shared) {
        channel.opening.receipts.delayed(delay);
    }
    match lost {
        None => channel.received(length, now, arrived),
        Some(outcome) => channel.opening.receipts.message(length, outcome),
    }
    Ok(())
}
