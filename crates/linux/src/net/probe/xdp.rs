//! Probes of XDP and AF_XDP.

use std::os::fd::AsFd as _;

use punctual_model::time::Duration;
use rustix::io::Errno;

use super::{Attempt, Feature, Finding, Loop, PATIENCE, Seen};
use crate::clock;
use crate::net::af_xdp;
use crate::net::bpf::{self, Action};
use crate::net::early::{XdpMode, attach_xdp};
use crate::net::interface::Interface;

/// Checks that nothing arrives while a program discards everything, and that datagrams arrive
/// after.
pub(super) fn generic_drops() -> Attempt {
    let lo = Interface::named("lo")?;
    let program = bpf::always(Action::Drop).map_err(explained)?;
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
    let program = bpf::always(Action::Pass).map_err(explained)?;
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
    let sent =
        af_xdp::send_one(interface.index, zero_copy, until).map_err(|errno| match errno {
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
