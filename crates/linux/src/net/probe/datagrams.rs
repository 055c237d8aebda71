//! Probes of datagram sockets, and of XDP and AF_XDP below them.

use std::num::NonZeroU16;
use std::os::fd::AsFd as _;

use punctual_model::time::Duration;
use rustix::io::Errno;

use super::finding::{Attempt, Feature, Finding, Loop, PATIENCE, Seen};
use crate::clock;
use crate::net::early::{XdpMode, attach_xdp};
use crate::net::filter::{Filter, Flow, PayloadByte, Verdict};
use crate::net::interface::Interface;
use crate::net::xdp::Action;
use crate::net::{Notice, Readiness, Stamps, WallOffset, xdp};

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

/// Checks that nothing arrives while a program discards everything, and that datagrams arrive
/// after.
pub(super) fn generic_drops() -> Attempt {
    let lo = Interface::named("lo")?;
    let program = xdp::always(Action::Drop).map_err(explained)?;
    let mut wire = Loop::open()?;
    let link = attach_xdp(program.as_fd(), &lo, XdpMode::Generic).map_err(explained)?;
    wire.send(&[1])?;
    // A datagram that has not arrived over the loopback when `send` returns arrives within
    // milliseconds.
    let during = wire.receive(1, Duration::from_millis(20))?.len();
    drop(link);
    // Detaching takes effect once all CPUs have seen it.
    let until = clock::now().saturating_add(PATIENCE);
    let mut after = 0;
    while after == 0 && clock::now() < until {
        wire.send(&[2])?;
        after = wire.receive(1, Duration::from_millis(5))?.len();
    }
    Ok(match (during, after) {
        (0, 1..) => Seen::Works("it discarded a datagram while attached".to_owned()),
        (0, _) => Seen::Ignored("nothing came after it was detached either".to_owned()),
        _ => Seen::Ignored("attached, and a datagram came all the same".to_owned()),
    })
}

/// Attaches a program that lets everything pass to an interface of this namespace, in each mode,
/// and sends one frame (to an unused address) through AF_XDP, with and without copying. Needs root.
///
/// In [`XdpMode::Native`] some drivers reset the interface, so do not probe a link that is in use.
/// The probe shows that the driver accepts the program, not what it does with packets.
pub fn xdp_on(interface: &Interface) -> Vec<Finding> {
    let attach = |mode| super::attempt(|| attaches(interface, mode));
    let send = |zero_copy| super::attempt(|| sends(interface, zero_copy));
    vec![
        Finding::new(Feature::XdpGeneric, attach(XdpMode::Generic)),
        Finding::new(Feature::XdpNative, attach(XdpMode::Native)),
        Finding::new(Feature::AfXdpCopy, send(false)),
        Finding::new(Feature::AfXdpZeroCopy, send(true)),
    ]
}

fn attaches(interface: &Interface, mode: XdpMode) -> Attempt {
    let program = xdp::always(Action::Pass).map_err(explained)?;
    let link = attach_xdp(program.as_fd(), interface, mode).map_err(|errno| match errno {
        Errno::BUSY => format!("{} already has a program of another owner", interface.name),
        Errno::OPNOTSUPP | Errno::INVAL => {
            format!("the driver of {} does not take programs ({errno})", interface.name)
        }
        errno => explained(errno),
    })?;
    drop(link);
    Ok(Seen::Works(format!("{} took a program", interface.name)))
}

fn sends(interface: &Interface, zero_copy: bool) -> Attempt {
    let until = clock::now().saturating_add(PATIENCE);
    let sent = xdp::send_one(interface.index, zero_copy, until).map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::INVAL if zero_copy => {
            format!("the driver of {} copies ({errno})", interface.name)
        }
        Errno::AFNOSUPPORT => "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
        errno => explained(errno),
    })?;
    Ok(if sent {
        Seen::Works(format!("{} sent a frame", interface.name))
    } else {
        Seen::Ignored(format!("{} never gave a frame back", interface.name))
    })
}

fn explained(errno: Errno) -> String {
    match errno {
        Errno::PERM | Errno::ACCESS => "takes CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW".to_owned(),
        Errno::NOSYS => "this kernel has no bpf(2)".to_owned(),
        errno => format!("refused: {errno}"),
    }
}
