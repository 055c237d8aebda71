//! A turn of a channel whose messages are datagrams: from the kernel into the client's slot.

use punctual_linux::net::{Arrival, ReceiveError, Room, UdpSocket};
use punctual_model::Instant;

use super::QUANTUM;
use super::channel::{Channel, Clocks, Served};
use super::error::Ended;
use crate::account::Outcome;

/// Reads up to `most` datagrams, at most [`QUANTUM`].
pub(super) fn serve(channel: &mut Channel, clocks: &Clocks, most: u32) -> Served {
    let mut served = Served::default();
    if let Err(ended) = read(channel, clocks, most, &mut served) {
        served.ended = Some(ended);
    }
    if let Err(ended) = channel.publish() {
        served.ended = served.ended.or(Some(ended));
    }
    served
}

fn read(
    channel: &mut Channel,
    clocks: &Clocks,
    most: u32,
    served: &mut Served,
) -> Result<(), Ended> {
    while served.read < most {
        let Some(arrival) = receive_one(channel)? else {
            discard(channel, clocks, most, served)?;
            return Ok(());
        };
        let Some(arrival) = arrival else {
            served.drained = true;
            return Ok(());
        };
        served.read += 1;
        let (bytes, arrived, outcome) = judge(channel, clocks, &arrival);
        match outcome {
            Outcome::Received => {
                // The slot that was claimed and written just before: nothing was pushed since.
                if let Some(slot) = channel.opening.puts.claim()? {
                    slot.push(bytes as usize, arrived.as_nanos());
                }
                channel.received(bytes, clocks.now, arrived);
            }
            lost => channel.opening.receipts.message(bytes, lost),
        }
    }
    Ok(())
}

/// Into the next slot. Outer `None`: the ring is full; inner: the socket is empty.
fn receive_one(channel: &mut Channel) -> Result<Option<Option<Arrival>>, Ended> {
    let opening = &mut channel.opening;
    let Some(slot) = opening.puts.claim()? else { return Ok(None) };
    let from = slot.position();
    // No more than the longest message, so that a longer one is seen to be cut.
    let bytes = slot.capacity().min(opening.arrivals.max_message() as usize);
    let mut room = [Room::within(slot.memory(), from..from + bytes)];
    let mut arrival = [Arrival::default()];
    let got = receive(&opening.socket, &mut room, &mut arrival)?;
    let [arrival] = arrival;
    Ok(Some((got > 0).then_some(arrival)))
}

/// Takes what has no room in the ring out of the socket, so that it is counted and what comes when there
/// is room is not stale. None of its bytes is copied.
fn discard(
    channel: &mut Channel,
    clocks: &Clocks,
    most: u32,
    served: &mut Served,
) -> Result<(), Ended> {
    let mut rooms: [Room<'_>; QUANTUM as usize] = std::array::from_fn(|_| Room::of(&mut []));
    let mut arrivals = [Arrival::default(); QUANTUM as usize];
    let count = most.saturating_sub(served.read).min(QUANTUM) as usize;
    let (rooms, arrivals) = (&mut rooms[..count], &mut arrivals[..count]);
    let got = receive(&channel.opening.socket, rooms, arrivals)?;
    served.drained = got < count;
    served.read += got as u32;
    for arrival in &mut arrivals[..got] {
        let arrived = channel.arrived(clocks, arrival);
        let outcome = match channel.police.message(arrived) {
            Ok(()) => Outcome::RingFull,
            Err(conforms_at) => {
                channel.broke(conforms_at);
                Outcome::NonConforming
            }
        };
        channel.opening.receipts.message(0, outcome);
    }
    Ok(())
}

/// What is to become of a datagram that lies in a slot.
fn judge(channel: &mut Channel, clocks: &Clocks, arrival: &Arrival) -> (u32, Instant, Outcome) {
    let arrived = channel.arrived(clocks, arrival);
    // A datagram has at most 65,535 bytes.
    let bytes = arrival.bytes as u32;
    if arrival.cut || bytes == 0 {
        return (bytes, arrived, Outcome::Misfit);
    }
    match channel.police.message(arrived) {
        Ok(()) => (bytes, arrived, Outcome::Received),
        Err(conforms_at) => {
            channel.broke(conforms_at);
            (bytes, arrived, Outcome::NonConforming)
        }
    }
}

/// As many as there are. What something sent earlier met is nothing to a socket that only receives: it
/// is taken out of the way.
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
