//! Best effort that arrives too fast beside a guaranteed channel, and which mechanism discards it,
//! as configured.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_bpf::Policer;
use punctual_client::want::WantedChannel;
use punctual_client::wire::Counts;
use punctual_linux::net::early::XdpMode;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use system_tests::live;
use system_tests::network::{Network, higher, lower};

use crate::host::{Broker, CONFIG, alone, arrivals, numbered, open_receiving};

/// Ends the thread that checks this flag, even when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts a broker at the higher end. Also returns what its status says about early discard.
fn configured<'a>(network: &'a Network, more: &str) -> (Broker<'a>, String) {
    let config = CONFIG.replace("room = 64", &format!("room = 64\n{more}"));
    let broker = Broker::start_in(Some(network.node_of(higher(0))), &config);
    let how = broker.channels().totals.expect("channels").early_discard;
    (broker, how)
}

/// Floods a best-effort channel: most of the flood is discarded, and all guaranteed messages
/// arrive.
fn floods(network: &Network, broker: &Broker<'_>) {
    let mut connection = broker.connect();
    let [plain_at, promised_at] = [4_001, 4_002].map(|port| higher(0).port(false, port));
    let spaced = |us, burst| arrivals(200, us, burst);
    let plain = WantedChannel {
        framing: Framing::Datagram,
        ..WantedChannel::receiving("plain", spaced(1_000, 1), None, plain_at)
    };
    let bound = Some(Duration::from_millis(500));
    let promised = WantedChannel {
        framing: Framing::Datagram,
        ..WantedChannel::receiving("promised", spaced(5_000, 40), bound, promised_at)
    };
    let (flooded, _kept) = open_receiving(&mut connection, &plain);
    let (_granted, mut receiving) = open_receiving(&mut connection, &promised);
    let sender = |to| {
        let socket = network.node_of(lower(0)).run(|| UdpSocket::bind(lower(0).port(false, 0)));
        let socket = socket.expect("a socket");
        socket.connect(to).expect("an address");
        socket
    };
    let (to_plain, to_promised) = (sender(plain_at), sender(promised_at));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..50 {
                    // The link's own queue may be full.
                    let _ = to_plain.send(&[0; 64]);
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let mut buffer = [0; 200];
        for number in 0..100_u32 {
            to_promised.send(&numbered(number, 100)).expect("sent");
            let got = receiving.receive(&mut buffer).expect("a server");
            assert_eq!((got.number, got.bytes), (number.into(), 100));
            std::thread::sleep(std::time::Duration::from_millis(6));
        }
        let discarded = |counts: &Counts| {
            counts.lost.iter().find(|(cause, _)| cause == "discarded").map_or(0, |(_, lost)| *lost)
        };
        let counts = || broker.channel(&flooded).counts.expect("attached");
        let most = || discarded(&counts()) > 200 && counts().done > 0;
        assert!(live::eventually(most), "{:?}", counts());
    });
}

#[test]
fn an_xdp_program_discards_where_it_can_be_attached() {
    let Some(_alone) = alone() else { return };
    let Some(network) = Network::line(2) else { return };
    let device = higher(0).device();
    let there = network.node_of(higher(0)).run(|| {
        let mut policer = Policer::load(1)?;
        policer.attach(&network.interface(higher(0)), XdpMode::Native)
    });
    if let Err(why) = there {
        println!("skipped: {why}");
        return;
    }
    for asked in ["", "early_discard = \"xdp\""] {
        let (broker, how) = configured(&network, &format!("interface = \"{device}\"\n{asked}"));
        assert_eq!(how, format!("by XDP on {device}"));
        floods(&network, &broker);
    }
}

#[test]
fn a_socket_filter_discards_if_configured_or_if_xdp_is_unavailable() {
    let Some(_alone) = alone() else { return };
    let Some(network) = Network::line(2) else { return };
    let filter = "by a filter at each socket";
    let device = higher(0).device();
    let asked = format!("interface = \"{device}\"\nearly_discard = \"filter\"");
    let (broker, how) = configured(&network, &asked);
    assert_eq!(how, filter);
    floods(&network, &broker);
    drop(broker);
    // Another owner's program is attached.
    let mut others = Policer::load(1).expect("not less than the broker may");
    let attached = network
        .node_of(higher(0))
        .run(|| others.attach(&network.interface(higher(0)), XdpMode::Native));
    if let Err(why) = attached {
        println!("skipped: {why}");
        return;
    }
    let (broker, how) =
        configured(&network, &format!("interface = \"{device}\"\nearly_discard = \"xdp\""));
    assert!(how.starts_with(filter) && how.contains("has another XDP program"), "{how}");
    assert!(broker.log().contains("no early discard by XDP"), "{}", broker.log());
    floods(&network, &broker);
}
