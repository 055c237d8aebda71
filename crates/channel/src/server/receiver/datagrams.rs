//! Serves a channel whose messages are datagrams: from the kernel into the client's slot.

use punctual_linux::net::{Arrival, ReceiveError, Room, UdpSocket};
use punctual_model::Instant;
use punctual_policy::ingress::QUANTUM;

use super::channel::{Channel, Clocks, Served};
use super::terms::Ended;
use crate::account::Outcome;

/// Reads up to `most` datagrams, at most [`QUANTUM`].
pub(super) fn serve(channel: &mut Channel, clocks: &Clocks, most: u32) -> Served {
    let mut served = Served::default();
    if let Err(ended) = read(channel, clocks, most, &mut served) {
        served.ended = Some(ended);
    }
    channel.publish();
    served
}

fn read(
    channel: &mut Channel,
    clocks: &Clocks,
    most: u32,
    served: &mut Served,
) -> Result<(), Ended> {
    while served.read < most && !served.drained {
        let left = (most - served.read).min(QUANTUM);
        let mut arrivals = [Arrival::default(); QUANTUM as usize];
        let Some(Got { asked, got }) = receive_several(channel, left, &mut arrivals)? else {
            if channel.opening.terms.delay_bound.is_none() {
                // Nothing was promised: the datagram waits in the socket, where it costs nothing,
                // and is lost if there is no room there either.
                served.held = true;
                return Ok(());
            }
            return discard(channel, clocks, most, served);
        };
        served.drained = got < asked;
        served.read += got as u32;
        hand_on(channel, clocks, &arrivals[..got])?;
    }
    Ok(())
}

/// The number of datagrams requested and received by a call.
struct Got {
    asked: usize,
    got: usize,
}

/// Receives into the next slots, with one call for all. Returns `None` if the ring is full.
fn receive_several(
    channel: &mut Channel,
    most: u32,
    arrivals: &mut [Arrival; QUANTUM as usize],
) -> Result<Option<Got>, Ended> {
    let opening = &mut channel.opening;
    let slots = opening.puts.claim_several(most)?;
    if slots.is_empty() {
        return Ok(None);
    }
    // No more bytes than the longest message, so that a longer one is recognised as truncated.
    let bytes = slots.capacity().min(opening.arrivals.max_message() as usize);
    let mut rooms: [Room<'_>; QUANTUM as usize] = std::array::from_fn(|at| {
        if at >= slots.len() {
            return Room::of(&mut []);
        }
        let from = slots.position(at);
        Room::within(slots.memory(), from..from + bytes)
    });
    let asked = slots.len();
    let got = receive(&opening.socket, &mut rooms[..asked], arrivals)?;
    Ok(Some(Got { asked, got }))
}

/// Puts the datagrams in the slots that were claimed just before into the queue, as far as they
/// conform to the contract.
fn hand_on(channel: &mut Channel, clocks: &Clocks, arrivals: &[Arrival]) -> Result<(), Ended> {
    let mut kept = [None; QUANTUM as usize];
    for (arrival, kept) in arrivals.iter().zip(&mut kept) {
        let (bytes, arrived, outcome) = judge(channel, clocks, arrival);
        match outcome {
            Outcome::Received => {
                *kept = Some((bytes, arrived));
                channel.received(bytes, clocks.now, arrived);
            }
            lost => channel.opening.receipts.message(bytes, lost),
        }
    }
    // These are the same slots: nothing was pushed since.
    let mut slots = channel.opening.puts.claim_several(arrivals.len() as u32)?;
    for (at, kept) in kept.iter().enumerate().take(slots.len()) {
        if let Some((bytes, arrived)) = kept {
            slots.push(at, *bytes as usize, arrived.as_nanos());
        }
    }
    Ok(())
}

/// Takes datagrams out of the socket that have no room in the ring. So they are counted, and later
/// ones are not stale when there is room. None of their bytes is copied.
fn discard(
    channel: &mut Channel,
    clocks: &Clocks,
    most: u32,
    served: &mut Served,
) -> Result<(), Ended> {
    let mut rooms: [Room<'_>; QUANTUM as usize] = std::array::from_fn(|_| Room::of(&mut []));
    let mut arrivals = [Arrival::default(); QUANTUM as usize];
    let count = (most - served.read).min(QUANTUM) as usize;
    let (rooms, arrivals) = (&mut rooms[..count], &mut arrivals[..count]);
    let got = receive(&channel.opening.socket, rooms, arrivals)?;
    served.drained = got < count;
    served.read += got as u32;
    for arrival in &mut arrivals[..got] {
        let arrived = channel.arrived(clocks, arrival);
        let conforms = channel.police.message(arrived);
        let outcome = if conforms { Outcome::RingFull } else { Outcome::NonConforming };
        channel.opening.receipts.message(0, outcome);
    }
    Ok(())
}

/// Decides on a datagram that is in a slot.
fn judge(channel: &mut Channel, clocks: &Clocks, arrival: &Arrival) -> (u32, Instant, Outcome) {
    let arrived = channel.arrived(clocks, arrival);
    // A datagram has at most 65,535 bytes.
    let bytes = arrival.bytes as u32;
    if arrival.cut || bytes == 0 {
        return (bytes, arrived, Outcome::Misfit);
    }
    let conforms = channel.police.message(arrived);
    (bytes, arrived, if conforms { Outcome::Received } else { Outcome::NonConforming })
}

/// Receives as many datagrams as there are. Pending errors of earlier sends do not matter to a
/// socket that only receives, and are cleared.
fn receive(
    socket: &UdpSocket,
    rooms: &mut [Room<'_>],
    arrivals: &mut [Arrival],
) -> Result<usize, Ended> {
    let mut tries = 0;
    loop {
        match socket.receive_into(rooms, arrivals) {
            Ok(got) => return Ok(got),
            Err(ReceiveError::Pending(_)) if tries < 4 => {
                let _ = socket.take_notice();
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
