//! The metrics of channels: their contracts, and how they were kept.

use std::fmt;

use prometheus_client::registry::Unit;
use punctual_client::wire::{ChannelStatus, ChannelsStatus, Counts};

use super::families::{Families, Label, MOST_ROWS, seconds};

/// A value of a channel's account: its name, its help text and its getter.
type Count = (&'static str, &'static str, fn(&Counts) -> u64);

/// Writes the metrics of channels, or nothing if the broker carries none.
pub(super) fn write(to: &mut Families, channels: &ChannelsStatus) -> fmt::Result {
    let Some(totals) = &channels.totals else { return Ok(()) };
    let (second, bytes) = (Unit::Seconds, Unit::Other("bytes_per_second".into()));
    to.gauge("punctual_channels", "Channels that are granted.", f64::from(totals.channels))?;
    let rate = |bps: u64| [([], bps as f64 / 8.0)];
    let help = "The capacity of the link.";
    to.gauges("punctual_link", help, Some(&bytes), rate(totals.link_bps))?;
    let help = "The promised part of the link.";
    to.gauges("punctual_link_promised", help, Some(&bytes), rate(totals.promised_bps))?;

    let all = &channels.channels;
    let shown = &all[..all.len().min(MOST_ROWS)];
    let rows = || shown.iter().filter_map(|one| Some((labels(one), one.counts.as_ref()?)));
    let bounds =
        shown.iter().filter_map(|one| Some((labels(one), seconds(one.channel.delay_bound_ns?))));
    let help = "From a message's logical arrival to its last packet's hand-over, as promised.";
    to.gauges("punctual_channel_delay_bound", help, Some(&second), bounds)?;
    let delays = rows().flat_map(|(labels, counts)| {
        let [channel, name, direction] = labels;
        let of = [
            ("p50", counts.p50_delay_ns),
            ("p99", counts.p99_delay_ns),
            ("worst", counts.worst_delay_ns),
        ];
        of.map(move |(of, nanos)| {
            let of = ("of", of.to_owned());
            ([channel.clone(), name.clone(), direction.clone(), of], seconds(nanos))
        })
    });
    let help = "The same as measured since its queue was attached.";
    to.gauges("punctual_channel_delay", help, Some(&second), delays)?;
    let counts: [Count; 3] = [
        ("punctual_channel_messages_offered", "Messages that were offered.", |counts| {
            counts.offered
        }),
        ("punctual_channel_messages", "Messages that were handed over.", |counts| counts.done),
        ("punctual_channel_messages_late", "Those of them that were late.", |counts| counts.late),
    ];
    for (name, help, of) in counts {
        to.counters(name, help, rows().map(|(labels, counts)| (labels, of(counts))))?;
    }
    let lost = rows().flat_map(|(labels, counts)| {
        counts.lost.iter().map(move |(cause, count)| {
            let [channel, name, direction] = labels.clone();
            ([channel, name, direction, ("cause", cause.clone())], *count)
        })
    });
    to.counters("punctual_channel_messages_lost", "Messages that were lost, by cause.", lost)?;
    let broken = shown.iter().map(|one| (labels(one), f64::from(u8::from(one.broken))));
    let help = "Whether a promise to it was broken.";
    to.gauges("punctual_channel_broken", help, None, broken)?;
    let left_out = (all.len() - shown.len()) as f64;
    let help = "Channels without rows of their own here, because there are too many.";
    to.gauge("punctual_channels_left_out", help, left_out)
}

fn labels(one: &ChannelStatus) -> [Label; 3] {
    let (number, name) = (one.grant.to_string(), one.channel.name.clone());
    [("channel", number), ("name", name), ("direction", one.channel.direction.clone())]
}
