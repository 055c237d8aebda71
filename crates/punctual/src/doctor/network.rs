//! Checks the network features that the communication server uses, by trying them.

use std::thread::{self, JoinHandle};

use punctual_linux::net::interface::Interface;
use punctual_linux::net::probe::{self, Feature, Finding, Seen};

use super::check::Check;

/// The probes, which run beside the other checks. Together they take a third of a second and mostly
/// wait.
pub(super) struct Probes(JoinHandle<Vec<Finding>>);

impl Probes {
    /// Starts the probes on the loopback, on a network of their own, and on `interface` if one is
    /// given.
    pub(super) fn start(interface: Option<&str>) -> Self {
        let interface = interface.map(str::to_owned);
        Self(thread::spawn(move || {
            let mut findings = probe::all();
            findings.extend(interface.iter().flat_map(|name| on(name)));
            findings
        }))
    }

    /// Waits for the probes and returns their checks.
    pub(super) fn checks(self) -> Vec<Check> {
        // A probe that panics has found nothing.
        self.0.join().unwrap_or_default().into_iter().map(check).collect()
    }
}

/// Returns the findings for which the driver of an interface is decisive.
fn on(name: &str) -> Vec<Finding> {
    match Interface::named(name) {
        Ok(interface) => probe::xdp_on(&interface),
        Err(why) => {
            let seen = Seen::Untried(why.to_string());
            let features = [
                Feature::XdpGeneric,
                Feature::XdpNative,
                Feature::AfXdpCopy,
                Feature::AfXdpZeroCopy,
            ];
            features.map(|feature| Finding { feature, seen: seen.clone() }).to_vec()
        }
    }
}

fn check(Finding { feature, seen }: Finding) -> Check {
    let name = feature.name();
    match seen {
        Seen::Works(what) => Check::ok(name, what),
        Seen::Ignored(what) | Seen::Missing(what) => Check::warning(name, what, remedy(feature)),
        Seen::Untried(why) => Check::unknown(name, "not tried", why),
    }
}

/// Returns a way to make the feature work, or what is done without it.
fn remedy(feature: Feature) -> &'static str {
    match feature {
        Feature::Trains => "Linux 4.18; without it each datagram takes a system call's time",
        Feature::ReceivedTrains => "Linux 5.0; without it each datagram is received for itself",
        Feature::ReceiveStamps => "Linux 4.0; without them arrivals are timed when they are read",
        Feature::SentStamps => {
            "Linux 4.0; without them the time when a driver took a datagram is unknown"
        }
        Feature::Drops => "Linux 4.12; without them losses here look like losses on the way",
        Feature::Filter => {
            "a kernel with socket filters; without them a flood is read to be discarded"
        }
        Feature::Tbf => "modprobe sch_tbf, or a kernel with CONFIG_NET_SCH_TBF",
        Feature::Htb => {
            "modprobe sch_htb, or a kernel with CONFIG_NET_SCH_HTB; without it best effort of other \
             programs shares the driver's queue with guaranteed traffic"
        }
        Feature::DepartureTimes | Feature::Pacing => {
            "modprobe sch_fq, or a kernel with CONFIG_NET_SCH_FQ; without it the sender sleeps until \
             each departure itself"
        }
        Feature::Etf => {
            "modprobe sch_etf, or a kernel with CONFIG_NET_SCH_ETF; without it the sender sleeps until \
             each departure itself"
        }
        Feature::XdpGeneric => {
            "a kernel with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and Linux 5.9; without it \
             floods are discarded at the socket"
        }
        Feature::XdpNative => "a driver with XDP; the generic one works behind any driver",
        Feature::AfXdpCopy => "a kernel with CONFIG_XDP_SOCKETS; without it sockets are used",
        Feature::AfXdpZeroCopy => "a driver with AF_XDP; without it frames are copied once",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::State;

    #[test]
    fn an_ignored_feature_is_a_warning_with_a_remedy() {
        let seen = Seen::Ignored("left early".to_owned());
        let check = check(Finding { feature: Feature::DepartureTimes, seen });
        assert_eq!((check.state, check.found.as_str()), (State::Warning, "left early"));
        assert!(check.remedy.is_some_and(|remedy| remedy.text().contains("sch_fq")));
    }

    #[test]
    fn an_interface_that_is_not_there_is_unknown() {
        let checks: Vec<Check> = on("no such").into_iter().map(check).collect();
        assert_eq!(checks.len(), 4);
        assert!(checks.iter().all(|check| check.state == State::Unknown));
        assert!(checks[0].remedy.as_ref().is_some_and(|why| why.text().contains("no such")));
    }
}
