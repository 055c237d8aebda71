//! Probes of datagram sockets.

use std::num::NonZeroU16;

use punctual_model::time::Duration;

use super::{Attempt, Loop, PATIENCE, Seen};
use crate::clock;
use crate::net::filter::{Filter, Flow, PayloadByte, Verdict};
use crate::net::{Notice, Readiness, Stamps, WallOffset};

/// Four datagrams and a shorter one.
const TRAIN: usize = 4_500;
const SEGMENT: NonZeroU16 = NonZeroU16::new(1_000).unwrap();

fn train() -> Vec<u8> {
    (0..TRAIN).map(|at| (at / 100) as u8).collect()
}

/// Checks that a train arrives as separate datagrams, complete and in order.
pub(super) fn trains() -> Attempt {
    let mut wire = Loop::open()?;
    wire.send_train(&train(), SEGMENT)?;
    let got = wire.receive(5, PATIENCE)?;
    Ok(if got == train().chunks(1_000).collect::<Vec<_>>() {
        Seen::Works("a train arrived as 5 datagrams in order".to_owned())
    } else {
        Seen::Ignored(format!("a train of 5 arrived as {}", got.len()))
    })
}

/// Checks that a train is received as one.
pub(super) fn received_trains() -> Attempt {
    let mut wire = Loop::open()?;
    wire.receiver.set_receive_trains(true)?;
    wire.send_train(&train(), SEGMENT)?;
    let got = wire.receive(5, PATIENCE)?;
    let arrivals = wire.inbox.arrivals();
    Ok(match arrivals {
        [one] if one.segment == Some(1_000) && got.len() == 5 => {
            Seen::Works("5 datagrams were received as one".to_owned())
        }
        _ => Seen::Ignored(format!("5 datagrams were received as {}", arrivals.len())),
    })
}

/// Checks that a stamp lies between sending and having received. The kernel turns stamps on in the
/// background, so the first datagrams may have none.
pub(super) fn receive_stamps() -> Attempt {
    let mut wire = Loop::open()?;
    wire.receiver.set_stamps(Stamps { receive: true, ..Stamps::default() })?;
    let until = clock::now().saturating_add(PATIENCE);
    while clock::now() < until {
        let offset = WallOffset::measure();
        let before = clock::now();
        wire.send(&[1])?;
        wire.receive(1, PATIENCE)?;
        let after = clock::now();
        let stamp = wire.inbox.arrivals().first().and_then(|arrival| arrival.stamp);
        let Some(at) = stamp.and_then(|stamp| offset.monotonic(stamp)) else {
            clock::sleep(Duration::from_millis(1));
            continue;
        };
        let error = offset.error();
        let between = at.saturating_add(error) >= before && at <= after.saturating_add(error);
        return Ok(if between {
            let seen = "between sending and receiving; as CLOCK_MONOTONIC, exact to";
            Seen::Works(format!("{seen} {error}"))
        } else {
            Seen::Ignored("a stamp outside of the time in which it was made".to_owned())
        });
    }
    Ok(Seen::Ignored("datagrams came without stamps".to_owned()))
}

/// Checks that a stamp comes back for a sent datagram, and lies after sending began.
pub(super) fn sent_stamps() -> Attempt {
    let mut wire = Loop::open()?;
    wire.sender.set_stamps(Stamps { sent: true, ..Stamps::default() })?;
    let offset = WallOffset::measure();
    let before = clock::now();
    wire.send(&[1])?;
    wire.receive(1, PATIENCE)?;
    let until = clock::now().saturating_add(PATIENCE);
    while clock::now() < until && wire.sender.wait(Readiness::Readable, until)? {
        if let Some(Notice::Sent(sent)) = wire.sender.take_notice()? {
            let at = offset.monotonic(sent.at).map(|at| at.saturating_add(offset.error()));
            return Ok(if at.is_some_and(|at| at >= before) {
                Seen::Works("a stamp came back for a datagram sent".to_owned())
            } else {
                Seen::Ignored("a stamp from before the datagram was sent".to_owned())
            });
        }
    }
    Ok(Seen::Ignored("no stamp came back for a datagram sent".to_owned()))
}

/// Checks that received and dropped datagrams add up to those sent.
pub(super) fn drops() -> Attempt {
    const SENT: usize = 60;
    let mut wire = Loop::open()?;
    wire.receiver.set_receive_buffer(8_192)?;
    for _ in 0..SENT {
        wire.send(&[0; 1_000])?;
    }
    let mut got = 0;
    // Datagrams still on their way are neither.
    let until = clock::now().saturating_add(PATIENCE);
    loop {
        got += wire.receiver.receive(&mut wire.inbox)?;
        let dropped = wire.receiver.drops()? as usize;
        if got + dropped == SENT && dropped > 0 {
            return Ok(Seen::Works(format!("{got} received and {dropped} dropped of {SENT} sent")));
        }
        if clock::now() > until {
            return Ok(Seen::Ignored(format!(
                "{got} received and {dropped} dropped of {SENT} sent"
            )));
        }
        clock::sleep(Duration::from_millis(1));
    }
}

/// Checks that a filter discards one datagram and keeps another.
pub(super) fn filter() -> Attempt {
    let mut wire = Loop::open()?;
    let marked = Some(PayloadByte { at: 0, mask: 0xff, value: 7 });
    let filter =
        Filter::new(Verdict::Drop).rule(Flow { byte: marked, ..Flow::default() }, Verdict::Keep);
    wire.receiver.attach(&filter.compile(false)?)?;
    wire.send(&[6])?;
    wire.send(&[7])?;
    let got = wire.receive(1, PATIENCE)?;
    Ok(if got == [[7]] {
        Seen::Works("one of two datagrams was discarded, as it said".to_owned())
    } else {
        Seen::Ignored(format!("{} datagrams came where one was to", got.len()))
    })
}
