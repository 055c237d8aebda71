use std::collections::BTreeMap;

use punctual_analysis::{Resource, Steps, UpcallOrder};
use punctual_model::channel::Framing;
use punctual_model::channel::{LinearBounded, Packetisation, TooEarly};
use punctual_model::host::{Calibration, DeadlineLimits};
use punctual_model::{Duration, HostProfile, Instant, Reservation, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::config::{Quota, QuotaOf};
use punctual_client::want::{Guarantee, Kind};

const NOW: Instant = Instant::from_nanos(1);

/// Returns an empty state on a host with room for the threads of the channels and for reservations.
fn on_link(config: ChannelsConfig) -> AdmissionState {
    let mut admission = AdmissionState::new(HostProfile::ideal(2), UpcallOrder::LevelOrder);
    admission.carry_channels(config).expect("room for the threads");
    admission
}

fn config(bits: u64) -> ChannelsConfig {
    let cpu = Reservation::new(Service::from_millis(8), Duration::from_millis(10)).expect("valid");
    let config = ChannelsConfig::of(BitRate::new(bits).expect("valid"));
    let cut = Packetisation::new(1_440, 1).expect("valid");
    ChannelsConfig { cpu, cut, per_packet: Service::from_micros(5), ..config }
}

fn requester(uid: u32) -> Requester {
    let quota = Quota {
        link_ppm: 1_000_000,
        max_grants: 100_000,
        queue_memory: u64::MAX,
        ..Quota::default()
    };
    Requester { uid, quota: QuotaOf { quota, group: None } }
}

fn want(bytes: u32, spacing_us: u64, bound_us: u64) -> WantedChannel {
    let spacing = Duration::from_micros(spacing_us);
    let arrivals = LinearBounded::fixed(bytes, spacing, 1).expect("valid");
    let bound = Some(Duration::from_micros(bound_us)).filter(|_| bound_us > 0);
    WantedChannel::sending("c", arrivals, bound, "192.0.2.7:9".parse().expect("an address"))
}

#[test]
fn channels_are_admitted_until_the_link_the_processor_or_a_delay_bound_says_no() {
    let mut admission = on_link(config(100_000_000));
    let mut admitted = 0;
    let denied = loop {
        // 12.464 Mbit/s each, with headers.
        match admission.admit_channel(GrantId(admitted), &requester(1), &want(1_440, 1_000, 5_000))
        {
            Ok(()) => admitted += 1,
            Err(denied) => break denied,
        }
    };
    // Five of the 100 Mbit/s are kept for best effort.
    assert_eq!((admitted, denied.test), (7, "link"), "{denied}");
    assert!(denied.why.contains("best effort"), "{denied}");
    let urgent = want(1_440, 1_000, 400);
    let denied = on_link(config(100_000_000)).admit_channel(GrantId(0), &requester(1), &urgent);
    assert_eq!(denied.expect_err("two packets take 250us").test, "channel-delay");
    let many = want(10, 20, 5_000);
    let denied = on_link(config(1_000_000_000)).admit_channel(GrantId(0), &requester(1), &many);
    assert!(denied.is_ok(), "a quarter of a CPU");
    let too_many = want(10, 6, 5_000);
    let denied = on_link(config(1_000_000_000)).admit_channel(GrantId(0), &requester(1), &too_many);
    let denied = denied.expect_err("more than eight tenths");
    assert_eq!((denied.test, denied.resource), ("channel-delay", Resource::Cpu), "{denied}");
    let all_of_it = want(10, 7, 5_000);
    let denied =
        on_link(config(1_000_000_000)).admit_channel(GrantId(0), &requester(1), &all_of_it);
    assert_eq!(denied.expect_err("nothing is left for best effort").test, "processor");
}

/// A host on which sending takes 8 us a packet.
const PROFILE: &str = r#"
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
    switch = "2us"
    cache = "2us"
    first_packet = "2us"
    packet = "1us"
    link_scheduling = "2us"
    "#;

/// Returns a state on that host with these costs of receiving.
fn on_host(receiving: &str) -> AdmissionState {
    let text = format!("{PROFILE}{receiving}");
    let profile = Calibration::parse("host.toml", text.as_bytes()).expect("valid");
    let host = profile.profile(DeadlineLimits::DEFAULT);
    let leaving = host.send_costs.map(|costs| costs.per_packet());
    let mut config = config(1_000_000_000);
    config.take_measured(leaving, host.receive_costs.map(|costs| costs.per_packet()));
    assert_eq!(config.per_packet, Service::from_micros(8));
    on_link(config)
}

#[test]
fn what_receiving_was_measured_to_cost_decides_which_channels_may_receive() {
    let steps = |step: u32| {
        format!(
            "[receiving]\nswitch = \"{step}us\"\ncache = \"{step}us\"\nfirst_packet = \"{step}us\"\n\
             packet = \"1us\"\n"
        )
    };
    let sends = want(1_000, 250, 5_000);
    let receives = WantedChannel { direction: Direction::Receive, ..sends.clone() };
    // 45 packets in 10 ms, one of a burst and one more, and those that were begun before, of 7.6 ms:
    // at most 148 us each.
    let mut dear = on_host(&steps(50));
    let denied = dear.admit_channel(GrantId(0), &requester(1), &receives).expect_err("150 us each");
    assert_eq!(denied.test, "processor", "{denied}");
    assert!(denied.why.contains("7.673"), "{denied}");
    for (text, offer) in dear.channel_offers(GrantId(0), &requester(1), &receives, NOW) {
        assert_eq!(dear.clone().admit_channel(GrantId(1), &requester(1), &offer), Ok(()), "{text}");
    }
    assert_eq!(
        dear.admit_channel(GrantId(0), &requester(1), &sends),
        Ok(()),
        "sending costs what it did"
    );
    let mut cheap = on_host(&steps(49));
    assert_eq!(cheap.admit_channel(GrantId(0), &requester(1), &receives), Ok(()));
    // Rounded up.
    assert_eq!(cheap.channels_ppm(), 661_501);
    // A profile without costs of receiving: as for a packet that leaves.
    let mut unknown = on_host("");
    assert_eq!(unknown.admit_channel(GrantId(0), &requester(1), &receives), Ok(()));
    assert_eq!(unknown.channels_ppm(), 36_001);
    let empty = format!("{:?}", on_host(&steps(49)));
    cheap.withdraw_channel(GrantId(0));
    assert_eq!(format!("{cheap:?}"), empty);
}

#[test]
fn quota_room_and_datagrams_are_looked_at_first() {
    let mut few = requester(1);
    few.quota.quota.max_grants = 1;
    few.quota.quota.link_ppm = 100_000;
    let mut admission = on_link(ChannelsConfig { room: 2, ..config(100_000_000) });
    let test = |outcome: Result<(), Box<Refusal>>| outcome.expect_err("too much").test;
    assert_eq!(
        test(admission.admit_channel(GrantId(0), &few, &want(1_440, 1_000, 5_000))),
        "quota"
    );
    let large = want(1_441, 10_000, 50_000);
    assert_eq!(test(admission.admit_channel(GrantId(0), &few, &large)), "datagram");
    let pieces = WantedChannel { framing: Framing::Fragments, ..large };
    assert_eq!(admission.admit_channel(GrantId(0), &few, &pieces), Ok(()));
    assert_eq!(test(admission.admit_channel(GrantId(1), &few, &want(1, 100_000, 0))), "quota");
    assert_eq!(admission.admit_channel(GrantId(1), &requester(2), &want(1, 100_000, 0)), Ok(()));
    assert_eq!(
        test(admission.admit_channel(GrantId(2), &requester(2), &want(1, 100_000, 0))),
        "room"
    );
    few.quota.quota.allow.clear();
    admission.withdraw_channel(GrantId(0));
    assert_eq!(test(admission.admit_channel(GrantId(0), &few, &pieces)), "quota");
}

#[test]
fn best_effort_has_what_is_left_and_never_less_than_its_minimum() {
    let mut admission = on_link(config(100_000_000));
    for id in 0..2 {
        admission
            .admit_channel(GrantId(id), &requester(1), &want(1_000, 1_000, 0))
            .expect("nothing is promised");
    }
    assert_eq!(admission.best_effort_bps(), 50_000_000);
    for id in 2..9 {
        admission
            .admit_channel(GrantId(id), &requester(1), &want(1_440, 1_000, 5_000))
            .expect("room");
    }
    assert_eq!(admission.link_bps(), (5_000_000, 87_248_000, 7_752_000));
    assert_eq!(admission.best_effort_bps(), 6_376_000);
    admission.withdraw_channel(GrantId(0));
    assert_eq!(admission.best_effort_bps(), 12_752_000);
}

#[test]
fn reservations_that_would_make_channels_late_are_not_entered() {
    let mut admission = on_link(config(100_000_000));
    admission.admit_channel(GrantId(0), &requester(1), &want(1_440, 10_000, 4_000)).expect("room");
    let mut reserver = requester(2);
    reserver.quota.quota.share_ppm = 1_000_000;
    reserver.quota.quota.allow = [Kind::Reservation].into();
    let reservation = |text: &str| Guarantee::Reservation(text.parse().expect("valid"));
    let long = admission.admit(GrantId(2), &reserver, &reservation("5ms/20ms"), NOW);
    let long = long.expect_err("longer than the delay bound");
    assert_eq!(long.test, "channel-delay");
    assert!(long.why.starts_with("beneath it, a channel admitted before may take "), "{long}");
    assert!(long.shortfall.is_some(), "{long}");
    assert_eq!(admission.admit(GrantId(2), &reserver, &reservation("1ms/20ms"), NOW), Ok(None));
    let longer = admission.change(GrantId(2), &reserver, &reservation("5ms/20ms"), NOW);
    assert_eq!(longer.expect_err("as before").why, long.why);
    for (text, offer) in admission.offers(GrantId(2), &reserver, &reservation("5ms/20ms"), NOW) {
        admission.clone().change(GrantId(2), &reserver, &offer, NOW).expect(&text);
    }
    // Counted for later requests.
    let tight = admission.admit_channel(GrantId(1), &requester(1), &want(1_440, 10_000, 1_200));
    assert_eq!(tight.expect_err("beneath the reservation").test, "channel-delay");
    admission.release(GrantId(2), NOW);
    assert!(admission.settle(NOW + Duration::from_millis(20)), "a period later");
    assert_eq!(
        admission.admit_channel(GrantId(1), &requester(1), &want(1_440, 10_000, 1_200)),
        Ok(())
    );
}

/// A thread that has not left its class when its reservation ended still runs before the channels.
#[test]
fn channels_are_beneath_what_ended_reservations_leave() {
    let mut admission = on_link(config(100_000_000));
    let had: Reservation = "1ms/20ms".parse().expect("valid");
    admission.remains(GrantId(7), &requester(2), had, had, NOW);
    let tight = want(1_440, 10_000, 1_200);
    let refused = admission.admit_channel(GrantId(1), &requester(1), &tight);
    assert_eq!(refused.expect_err("beneath the remnant").test, "channel-delay");
    admission.has_left(GrantId(7), NOW);
    assert!(admission.settle(NOW + Duration::from_millis(20)), "a period later");
    assert_eq!(admission.admit_channel(GrantId(1), &requester(1), &tight), Ok(()));
}

/// Channels that are carried stay entered when the host changes, even if it no longer has room for
/// their threads.
#[test]
fn channels_are_taken_over_by_other_books() {
    let mut before = on_link(config(100_000_000));
    for id in 0..5 {
        let bound = if id == 4 { 0 } else { 5_000 };
        let wanted = want(1_440, 1_000, bound);
        before.admit_channel(GrantId(id), &requester(id as u32 % 2), &wanted).expect("room");
    }
    let figures = |admission: &AdmissionState| {
        let (link, share) = (admission.link_bps(), admission.best_effort_share());
        (
            link,
            share,
            admission.channels_ppm(),
            admission.channels_of_user(0),
            admission.channel_count(),
        )
    };
    for (reservable_ppm, broken) in [(950_000, 0), (500_000, 1)] {
        let host = HostProfile { reservable_ppm, ..HostProfile::ideal(1) };
        let mut after = AdmissionState::new(host, UpcallOrder::LevelOrder);
        assert_eq!(after.take_over_channels(&before).len(), broken);
        assert_eq!(figures(&after), figures(&before));
        assert_eq!(after.granted_ppm(), if broken == 0 { 800_000 } else { 0 });
        (0..5).for_each(|id| after.withdraw_channel(GrantId(id)));
        assert_eq!(after.channel_count(), 0);
    }
}

/// A message of the closed channel may be in front of those of the others, and its successor's
/// come on top of it.
#[test]
fn a_closed_channel_counts_until_others_feel_it_no_more() {
    let mut admission = on_link(config(10_000_000));
    let long = want(1_440, 20_000, 12_000);
    let granted = (0..)
        .take_while(|id| admission.admit_channel(GrantId(*id), &requester(1), &long).is_ok())
        .count();
    assert!(granted > 1, "{granted}");
    let of_user = admission.channels_of_user(1);
    admission.release_channel(GrantId(0), NOW);
    assert_ne!(admission.channels_of_user(1), of_user, "the quota is free at once");
    let refused = admission.admit_channel(GrantId(1_000), &requester(1), &long);
    assert!(refused.expect_err("it is felt").why.contains("what has left counts for up to"));
    let by = admission.system.free_by().expect("it still counts");
    assert!(by > NOW && by < NOW + Duration::from_secs(1), "{by}");
    assert!(admission.settle(by));
    assert_eq!(admission.admit_channel(GrantId(1_000), &requester(1), &long), Ok(()));
}

/// After any sequence of operations, the entered channels are those that demand analysis admits;
/// each offer is admitted as it is; and a refused change changes nothing.
#[test]
fn the_books_are_those_of_a_list_that_is_analysed_anew() {
    let (mut admitted, mut refused, mut offered) = (0, 0, 0);
    for seed in 0..24 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut admission = on_link(config([10, 100, 1_000][seed as usize % 3] * 1_000_000));
        let egress = admission.system.carried().expect("channels").carrier().egress;
        let mut list: BTreeMap<GrantId, WantedChannel> = BTreeMap::new();
        for second in 0..60 {
            // So that what left or changed before is felt no more.
            let now = NOW + Duration::from_secs(100 * second);
            _ = admission.settle(now);
            assert_eq!(admission.system.free_by(), None, "seed {seed}");
            let id = GrantId(rng.random_range(0..20));
            let bytes = rng.random_range(1..=6_000);
            let time = egress.time_of(bytes).as_nanos() / 1_000 + 1;
            let spacing = time * rng.random_range(2..40);
            let bound = 300 + spacing * rng.random_range(1..30) / 10;
            let mut wanted = want(bytes, spacing, if rng.random_bool(0.1) { 0 } else { bound });
            wanted.framing = Framing::Fragments;
            wanted.too_early = TooEarly::Discard;
            let before = format!("{admission:?}");
            let outcome = match (list.contains_key(&id), rng.random_bool(0.3)) {
                (true, true) => {
                    admission.release_channel(id, now);
                    list.remove(&id);
                    continue;
                }
                (true, false) => {
                    let before = format!("{admission:?}");
                    let change = admission.change_channel(id, &requester(1), &wanted, now);
                    let changed = format!("{admission:?}");
                    change.map(|change| {
                        admission.undo_channel(change);
                        assert_eq!(format!("{admission:?}"), before, "seed {seed}");
                        let again = admission.change_channel(id, &requester(1), &wanted, now);
                        again.map(drop).expect("as before");
                        assert_eq!(format!("{admission:?}"), changed, "seed {seed}");
                    })
                }
                (false, _) => admission.admit_channel(id, &requester(1), &wanted),
            };
            match outcome {
                Ok(()) => {
                    admitted += 1;
                    list.insert(id, wanted);
                }
                Err(_) => {
                    refused += 1;
                    assert_eq!(format!("{admission:?}"), before, "seed {seed}");
                    for (text, offer) in admission.channel_offers(id, &requester(1), &wanted, now) {
                        offered += 1;
                        let mut trial = admission.clone();
                        let taken = match list.contains_key(&id) {
                            true => trial.change_channel(id, &requester(1), &offer, now).map(drop),
                            false => trial.admit_channel(id, &requester(1), &offer),
                        };
                        assert_eq!(taken, Ok(()), "seed {seed}: {text}");
                    }
                }
            }
            let channels: Vec<Channel> = list
                .values()
                .filter_map(|want| Channel::new("c", &want.arrivals.into(), want.delay_bound?).ok())
                .collect();
            assert!(egress.all_in_time(&channels, &[], &mut Steps::default()), "seed {seed}");
            assert_eq!(admission.channel_count(), list.len(), "seed {seed}");
        }
    }
    assert!(admitted > 200 && refused > 80 && offered > 80, "{admitted} {refused} {offered}");
}

/// Every request that the wire allows gets a decision, and leaves no trace when it is gone.
#[test]
fn extremes_are_decided_about() {
    let day = 86_400_000_000_000;
    for bits in [10_000, 1_000_000_000_000] {
        let mut admission = on_link(config(bits));
        let empty = format!("{admission:?}");
        let mut id = 0;
        for (least, most) in [(1, 1), (1, 1 << 20), (1 << 20, 1 << 20)] {
            for spacing in [1, 1_000, 1_000_000, day] {
                for burst in [1, u32::MAX] {
                    for bound in [1, 300_001, 1_000_000, day, u64::MAX] {
                        let spacing = Duration::from_nanos(spacing);
                        let arrivals = LinearBounded::new(least, most, spacing, burst);
                        let wanted = WantedChannel {
                            arrivals: arrivals.expect("valid"),
                            delay_bound: Some(Duration::from_nanos(bound)),
                            framing: Framing::Fragments,
                            ..want(1, 1, 1)
                        };
                        let _ = admission.admit_channel(GrantId(id), &requester(1), &wanted);
                        let _ =
                            admission.channel_offers(GrantId(id + 1), &requester(1), &wanted, NOW);
                        id += 1;
                    }
                }
            }
        }
        assert!(bits == 10_000 || admission.channel_count() > 0);
        (0..id).for_each(|id| admission.withdraw_channel(GrantId(id)));
        assert_eq!(format!("{admission:?}"), empty);
    }
}

/// Returns how many of `want` are granted one after another with the default configuration, and the
/// refusal and the offers for the next one; each offer is admitted as it is.
fn granted_by_default(bits: u64, want: &WantedChannel) -> (u64, Box<Refusal>, Vec<ChannelOffer>) {
    let mut admission = on_link(ChannelsConfig::of(BitRate::new(bits).expect("valid")));
    let empty = format!("{admission:?}");
    let mut granted = 0;
    let (denied, offers) = loop {
        match admission.admit_channel(GrantId(granted), &requester(1), want) {
            Ok(()) => granted += 1,
            Err(denied) => {
                break (
                    denied,
                    admission.channel_offers(GrantId(granted), &requester(1), want, NOW),
                );
            }
        }
    };
    for (text, offer) in &offers {
        assert_eq!(
            admission.clone().admit_channel(GrantId(granted), &requester(1), offer),
            Ok(()),
            "{text}"
        );
    }
    (0..granted).for_each(|id| admission.withdraw_channel(GrantId(id)));
    assert_eq!(format!("{admission:?}"), empty);
    (granted, denied, offers)
}

/// Calls of 160 bytes every 20 ms. All of them may send at once; the analysis of that alone granted
/// 10 and 11 on these links.
#[test]
fn by_default_a_link_carries_165_phone_calls() {
    for bits in [100_000_000, 1_000_000_000] {
        for (bound_ms, least) in [(5, 47), (10, 103), (20, 165)] {
            let call = want(160, 20_000, bound_ms * 1_000);
            let (granted, denied, offers) = granted_by_default(bits, &call);
            assert!(granted >= least, "{granted} within {bound_ms} ms on {bits} bit/s: {denied}");
            let told = match denied.test {
                "channel-delay" => !offers.is_empty(),
                _ => denied.test == "processor" && denied.why.contains("`cpu = \"510us/1ms\"`"),
            };
            assert!(told, "{denied} {offers:?}");
        }
    }
}

/// If the rate does not fit, a longer spacing is offered.
#[test]
fn who_sends_more_often_than_the_pace_allows_is_offered_a_longer_spacing() {
    let often = want(160, 2_000, 100_000);
    let (granted, denied, offers) = granted_by_default(1_000_000_000, &often);
    assert_eq!((granted, denied.test), (21, "processor"), "{denied}");
    assert!(offers.iter().any(|(text, _)| text.starts_with("messages every")), "{offers:?}");
}

/// The budget that the refusal names is enough, and a hundredth less is not.
#[test]
fn a_refusal_names_the_budget_that_would_do() {
    let call = want(160, 20_000, 40_000);
    let config = ChannelsConfig::of(BitRate::new(100_000_000).expect("valid"));
    let granted = |cpu: &str| {
        let mut admission =
            on_link(ChannelsConfig { cpu: cpu.parse().expect("valid"), ..config.clone() });
        (0..)
            .take_while(|id| admission.admit_channel(GrantId(*id), &requester(1), &call).is_ok())
            .count()
    };
    assert_eq!((granted("500us/1ms"), granted("510us/1ms") > 165), (165, true));
}

/// If two blocks would exceed the budget, pacing does not help, and none is applied.
#[test]
fn blocks_that_a_budget_does_not_hold_are_not_paced() {
    let config = ChannelsConfig::of(BitRate::new(100_000_000).expect("valid"));
    let paced = |packets| {
        let cut = Packetisation::new(1_420, packets).expect("valid");
        ChannelsConfig { cut, ..config.clone() }.egress().pace().map(Duration::as_nanos)
    };
    // 40 us at nine tenths of a half.
    assert_eq!((paced(1), paced(4), paced(5)), (Some(88_889), Some(88_889), None));
    let whole = "1ms/1ms".parse().expect("valid");
    assert_eq!(ChannelsConfig { cpu: whole, ..config.clone() }.egress().pace(), None);
}

#[test]
fn as_many_channels_receive_as_their_reads_leave_room_for() {
    let receiving = |spacing, per_packet_received| {
        let link = BitRate::new(1_000_000_000).expect("valid");
        let config = ChannelsConfig { per_packet_received, ..ChannelsConfig::of(link) };
        let mut admission = on_link(config);
        let direction = Direction::Receive;
        let wanted = WantedChannel { direction, ..want(160, spacing, 20_000) };
        let admits =
            |id: &u64| admission.admit_channel(GrantId(*id), &requester(1), &wanted).is_ok();
        (0..).take_while(admits).count()
    };
    // As `docs/channels.md` says.
    let measured = Some(Service::from_micros(7));
    let calls = (receiving(20_000, None), receiving(20_000, measured));
    let streams = (receiving(1_000, None), receiving(1_000, measured));
    assert_eq!((calls, streams), ((5, 32), (3, 19)));
}

/// The densest load of channels, nanosecond by nanosecond in steps of an eighth of a packet's work:
/// all rings are examined together, sent packets leave block by block at their pace, the first as
/// late and the others as early as possible, and received packets come in bursts. No window exceeds
/// what a reservation of the budget may take.
#[test]
fn no_window_of_channels_that_were_admitted_exceeds_their_reservation() {
    let (mut admitted, mut many, mut closest) = (0, 0, 0.0_f64);
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let period = rng.random_range(1_000_000..20_000_000_u64);
        let budget = (period as f64 * rng.random_range(0.1..0.9)) as u64;
        let cpu = Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period));
        let cut = Packetisation::new(1_420, rng.random_range(1..=2)).expect("valid");
        let per_packet = Service::from_micros(rng.random_range(5..60));
        let link = BitRate::new([100_000_000, 1_000_000_000][seed as usize % 2]).expect("valid");
        let config = ChannelsConfig {
            cpu: cpu.expect("valid"),
            cut,
            per_packet,
            room: 100_000,
            ..ChannelsConfig::of(link)
        };
        let Some(pace) = config.egress().pace() else { continue };
        let mut admission = on_link(config);
        let mut received = Vec::new();
        let receives = rng.random_range(0.0..0.1);
        for id in 0..400 {
            let spacing = rng.random_range(5_000..100_000);
            let mut wanted = want(rng.random_range(1..1_420), spacing, 200_000);
            if rng.random_bool(receives) {
                wanted.direction = Direction::Receive;
            }
            if admission.admit_channel(GrantId(id), &requester(1), &wanted).is_ok()
                && wanted.direction == Direction::Receive
            {
                let packet = cut.packet_bytes();
                received.push(ReadLimit::of(wanted.arrivals, wanted.framing, packet));
            }
        }
        admitted += admission.channel_count();
        let sending = admission.channel_count() - received.len();
        if sending == 0 || per_packet.as_nanos() * sending as u64 <= budget {
            // As few fit into one window.
            continue;
        }
        many += 1;
        let work = per_packet.as_nanos();
        let block = u64::from(cut.packets_per_block()) * work;
        let every = u64::from(cut.packets_per_block()) * pace.as_nanos();
        // The start and the length of each piece of work; the window begins with the first.
        let mut happens = vec![(0, sending as u64 * 1_000), (0, block), (block, block)];
        // One packet is made up for.
        let due = |n: u64| (block + n * every - pace.as_nanos()).max((n + 1) * block);
        happens.extend((1..40).map(|n| (due(n), block)));
        let until = block + 40 * every;
        for limit in &received {
            let spacing = limit.spacing().as_nanos();
            happens.extend((0..limit.burst()).map(|_| (0, work)));
            happens.extend((1..).map(|n| (n * spacing, work)).take_while(|(at, _)| *at < until));
        }
        happens.sort_unstable();
        for step in 1..=8 * until / work {
            let window = step * work / 8;
            let used: u64 = happens
                .iter()
                .take_while(|(at, _)| *at < window)
                .map(|(at, length)| (window - at).min(*length))
                .sum();
            // Never more than the length of the window.
            let used = used.min(window) as f64;
            let (x, y, t) = (budget as f64, period as f64, window as f64);
            let most = x / y * t + x * (1.0 - x / y);
            assert!(used <= most + 1.0, "seed {seed}: {used} in {window}, {most}");
            closest = closest.max(used / most);
        }
    }
    assert!(admitted > 10_000 && many > 50 && closest > 0.8, "{admitted} {many} {closest}");
}
