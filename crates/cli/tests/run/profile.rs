//! A broker's promises depend on the measured costs of the host.

use std::net::SocketAddr;

use punctual_client::want::WantedChannel;
use punctual_client::{Broker, ChannelError};
use punctual_model::Duration;
use punctual_model::channel::{Direction, LinearBounded};

use super::broker::Serving;
use super::live::alone;

/// Half of a CPU for the channels' threads: 500 us in every millisecond.
const CONFIG: &str = r#"
    [channels]
    link = "1gbit/s"
    cpu = "500us/1ms"
    [default]
    share = "60%"
    link = "90%"
    allow = ["channels"]
"#;

/// Returns a profile in which each step of sending takes `step`. A packet that needs a wake-up is
/// charged four steps.
fn profile(step: &str) -> String {
    format!(
        r#"
        format = 1
        [host]
        cpu_model = "of a test"
        kernel_release = "0"
        cpus = 1
        [run]
        at_unix_s = 0
        duration = "1s"
        version = "0"
        [sending]
        switch = "{step}"
        cache = "{step}"
        first_packet = "{step}"
        packet = "{step}"
        link_scheduling = "{step}"
        "#
    )
}

/// Returns a profile in which each step of receiving takes `step`. An incoming packet is charged
/// three steps.
fn with_receiving(step: &str) -> String {
    let sending = profile("2us");
    format!(
        r#"{sending}
        [receiving]
        switch = "{step}"
        cache = "{step}"
        first_packet = "{step}"
        packet = "{step}"
        "#
    )
}

/// Returns a channel with four packets in a millisecond.
fn voice() -> WantedChannel {
    let to: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let arrivals = LinearBounded::new(1, 1_000, Duration::from_micros(250), 1).expect("valid");
    WantedChannel::sending("voice", arrivals, Some(Duration::from_millis(50)), to)
}

fn on(profile: &str) -> Option<(Serving, Broker)> {
    let serving = Serving::start_on(CONFIG, Some(profile))?;
    let broker = Broker::connect_to(&serving.socket()).expect("it answers");
    Some((serving, broker))
}

#[test]
fn the_measured_cost_of_sending_decides_which_channels_are_granted() {
    let _alone = alone();
    let Some((_serving, mut broker)) = on(&profile("2us")) else { return };
    let granted = broker.open_channel(&voice()).expect("8 us a packet");
    broker.release_channel(granted).expect("ours");

    let Some((_serving, mut broker)) = on(&profile("30us")) else { return };
    let refused = match broker.open_channel(&voice()) {
        Err(ChannelError::Refused(refused)) => refused,
        other => panic!("120 us a packet do not fit: {other:?}"),
    };
    assert!(!refused.offers.is_empty(), "{refused}");
    let offered = broker.accept_channel_offer(&refused).expect("as offered");
    assert_ne!(offered.want(), &voice());
    broker.release_channel(offered).expect("ours");
    // The refusal says in numbers what would fit.
    assert!(refused.to_string().contains("it would be admitted with"), "{refused}");
}

#[test]
fn the_measured_cost_of_receiving_decides_which_channels_may_receive() {
    let _alone = alone();
    let hear = WantedChannel { direction: Direction::Receive, ..voice() };
    // Where receiving was not measured, an incoming packet costs as much as an outgoing one.
    for cheap in [profile("2us"), with_receiving("2us")] {
        let Some((_serving, mut broker)) = on(&cheap) else { return };
        let granted = broker.open_channel(&hear).expect("8 or 6 us a packet");
        broker.release_channel(granted).expect("ours");
    }
    let Some((_serving, mut broker)) = on(&with_receiving("50us")) else { return };
    let sent = broker.open_channel(&voice()).expect("what leaves costs what it did");
    broker.release_channel(sent).expect("ours");
    let refused = match broker.open_channel(&hear) {
        Err(ChannelError::Refused(refused)) => refused,
        other => panic!("150 us a packet do not fit: {other:?}"),
    };
    assert!(refused.to_string().contains("it would be admitted with"), "{refused}");
}
