//! Probes of which kernel features work on this host. The kernel accepts and ignores some
//! (SO_TXTIME without a queueing discipline that supports departure times), so a probe uses each
//! feature and checks its effect.
//!
//! A probe takes less than 300 ms and leaves nothing behind: its settings are in a network
//! namespace of its own, or end with a descriptor.

mod datagrams;
mod disciplines;
mod finding;

use super::namespace::Namespace;
use finding::attempt;

pub use datagrams::xdp_on;
pub use disciplines::{DepartureTimes, Pacing, departure_times, pacing};
pub use finding::{Feature, Finding, Seen};

/// Probes everything that leaves the host's interfaces alone. Probes without privilege use the
/// loopback of this namespace, the others that of a namespace of their own. Takes less than a
/// second, mostly waiting.
pub fn all() -> Vec<Finding> {
    let mut findings = sockets();
    findings.extend(disciplines());
    findings
}

/// Probes that a train of datagrams arrives whole (UDP_SEGMENT), on the loopback of the calling
/// thread's namespace. Needs no privilege.
pub fn trains() -> Finding {
    Finding::new(Feature::Trains, attempt(datagrams::trains))
}

/// Probes sockets, on the loopback of the calling thread's namespace. Needs no privilege.
pub fn sockets() -> Vec<Finding> {
    vec![
        trains(),
        Finding::new(Feature::ReceivedTrains, attempt(datagrams::received_trains)),
        Finding::new(Feature::ReceiveStamps, attempt(datagrams::receive_stamps)),
        Finding::new(Feature::SentStamps, attempt(datagrams::sent_stamps)),
        Finding::new(Feature::Drops, attempt(datagrams::drops)),
        Finding::new(Feature::Filter, attempt(datagrams::filter)),
    ]
}

/// Probes the layers below sockets, on the loopback of a namespace made for it. Needs root.
pub fn disciplines() -> Vec<Finding> {
    type Probe = fn() -> Seen;
    let probes: [(Feature, Probe); 6] = [
        (Feature::Tbf, || attempt(disciplines::tbf)),
        (Feature::Htb, || attempt(disciplines::htb)),
        (Feature::DepartureTimes, || attempt(disciplines::with_fq)),
        (Feature::Pacing, || attempt(disciplines::paced_with_fq)),
        (Feature::Etf, || attempt(disciplines::with_etf)),
        (Feature::XdpGeneric, || attempt(datagrams::generic_drops)),
    ];
    let run = |network: &Namespace| {
        network.run(|| {
            let finding = |(feature, probe): (Feature, Probe)| Finding::new(feature, probe());
            probes.map(finding).to_vec()
        })
    };
    match Namespace::make().and_then(|network| run(&network)) {
        Ok(findings) => findings,
        Err(why) => {
            let seen = Seen::Untried(why.to_string());
            probes.map(|(feature, _)| Finding::new(feature, seen.clone())).to_vec()
        }
    }
}
