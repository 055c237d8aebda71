//! Probes detect the features of a host, and leave nothing behind.

use std::process::{Command, Stdio};

use punctual_linux::net::Outgoing;
use punctual_linux::net::probe::{self, Feature, Finding, Seen};
use punctual_linux::net::route::Discipline;
use punctual_linux::net::{OptionError, Setup, UdpSocket};
use system_tests::live::eventually;
use system_tests::network::{Network, higher, lower};

#[test]
fn sockets_do_on_the_loopback_what_they_say() {
    // A busy host may make a datagram late for one attempt.
    let mut findings = Vec::new();
    let all_work = eventually(|| {
        findings = probe::sockets();
        findings.iter().all(Finding::works)
    });
    assert!(all_work, "{findings:?}");
    assert_eq!(findings.len(), 6);
}

#[test]
fn a_discipline_is_there_and_works_or_is_not_there() {
    let Some(_) = Network::line(2) else { return };
    let of = |findings: &[Finding], feature| {
        let found = findings.iter().find(|finding| finding.feature == feature);
        found.map(|finding| finding.seen.clone()).expect("probed")
    };
    let mut findings = Vec::new();
    let clear = eventually(|| {
        findings = probe::disciplines();
        [Feature::Tbf, Feature::Htb, Feature::XdpGeneric]
            .iter()
            .all(|&feature| matches!(of(&findings, feature), Seen::Works(_) | Seen::Missing(_)))
    });
    assert!(clear, "{findings:?}");
    // Where fq is missing, the kernel accepts both options nevertheless; the probe must report that
    // they are missing.
    for feature in [Feature::DepartureTimes, Feature::Pacing] {
        let seen = of(&findings, feature);
        assert!(matches!(seen, Seen::Works(_) | Seen::Ignored(_)), "{seen:?}");
    }
}

#[test]
fn departure_times_are_believed_only_where_they_are_kept() {
    let Some(network) = Network::line(2) else { return };
    let (here, there) = (lower(0), higher(0).port(false, 9));
    let look = || {
        network
            .node_of(here)
            .run(|| (probe::departure_times("right", there), probe::pacing("right", there)))
    };
    let (departures, pacing) = look();
    assert!(matches!(departures, Err(Seen::Ignored(_))), "{departures:?}");
    assert!(matches!(pacing, Err(Seen::Ignored(_))), "{pacing:?}");
    if let Err(why) = network.set_discipline(here, Discipline::Fq) {
        println!("skipped: {why}");
        return;
    }
    let mut evidence = None;
    assert!(eventually(|| {
        evidence = look().0.ok();
        evidence.is_some()
    }));
    let evidence = evidence.expect("seen");
    let open = |setup: Setup| network.node_of(here).run(|| UdpSocket::open(&setup)).expect("opens");
    let bound = open(Setup::to(there).on("right"));
    assert_eq!(bound.set_departure_times(&evidence), Ok(()));
    let free = open(Setup::to(there));
    let refused = Err(OptionError::NotSeen { option: "SO_TXTIME" });
    assert_eq!(free.set_departure_times(&evidence), refused);
    bound.send(&Outgoing::default()).expect("sent");
}

#[test]
fn an_interface_is_as_it_was_after_a_probe_of_its_driver() {
    let Some(network) = Network::line(2) else { return };
    let end = lower(0);
    let interface = network.interface(end);
    let shown = || {
        let mut command = Command::new("ip");
        command.args(["-details", "link", "show", "right"]).stdout(Stdio::piped());
        let output = network.node_of(end).start(&mut command).wait_with_output().expect("waits");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let before = shown();
    let findings = network.node_of(end).run(|| probe::xdp_on(&interface));
    assert_eq!(shown(), before);
    for Finding { feature, seen } in &findings {
        let fits = match feature {
            // veth shares no memory of its own.
            Feature::AfXdpZeroCopy => matches!(seen, Seen::Missing(_)),
            _ => matches!(seen, Seen::Works(_) | Seen::Missing(_)),
        };
        assert!(fits, "{feature}: {seen:?}");
        println!("{feature}: {seen:?}");
    }
    assert_eq!(findings.len(), 4);
}
