//! Any bytes as a message to the broker: an answer with a place, or something valid; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_analysis::UpcallOrder;
use punctual_broker::admission::{AdmissionState, Requester};
use punctual_broker::config::{ChannelsConfig, Quota, QuotaOf};
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, MAX_UPCALLS, RawChannel, RawWant, Want, WantedChannel};
use punctual_client::wire::{ClientMessage, parse_ask, parse_said, to_bytes};
use punctual_model::HostProfile;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_said(bytes);
    if let Ok(envelope) = parse_ask(bytes) {
        // What was understood is understood again.
        let written = to_bytes(&envelope);
        if let Some(written) = written {
            assert_eq!(parse_ask(&written).expect("we wrote it"), envelope);
        }
        if let ClientMessage::OpenChannel { channel }
        | ClientMessage::ChangeChannel { channel, .. } = &envelope.ask
        {
            wanted(channel);
        }
        if let ClientMessage::Request { want } | ClientMessage::Change { want, .. } = envelope.ask
            && let Ok(valid) = Want::try_from(want.clone())
        {
            assert!(valid.thread.as_raw() > 0);
            assert!(valid.what.share_ppm() > 0);
            let _ = (valid.what.burst(), valid.what.to_string());
            if let Guarantee::Upcalls(upcalls) = &valid.what {
                assert!((1..=MAX_UPCALLS).contains(&upcalls.len()));
            }
            assert_eq!(RawWant::from(&valid), want);
        }
    }
});

/// A channel that is understood can be decided about, however odd it is, and leaves no trace when it
/// is gone.
fn wanted(channel: &RawChannel) {
    let Ok(valid) = WantedChannel::try_from(channel.clone()) else { return };
    let again = WantedChannel::try_from(RawChannel::from(&valid)).expect("we wrote it");
    assert_eq!(again, valid);
    let _ = (valid.geometry(), valid.to_string());
    let link = punctual_model::channel::BitRate::new(100_000_000).expect("a link");
    let mut admission = AdmissionState::new(HostProfile::ideal(1), UpcallOrder::FixedLevel);
    admission.carry_channels(ChannelsConfig::of(link)).expect("half of a CPU");
    let quota = Quota { link_ppm: 1_000_000, ..Quota::default() };
    let requester = Requester { uid: 1, quota: QuotaOf { quota, group: None } };
    for id in 0..3 {
        let _ = admission.admit_channel(GrantId(id), &requester, &valid);
    }
    for id in 0..3 {
        admission.withdraw_channel(GrantId(id));
    }
    assert_eq!(
        (admission.channel_count(), admission.channels_ppm(), admission.link_bps().1),
        (0, 0, 0)
    );
}
