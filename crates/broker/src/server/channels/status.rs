//! The answers to status requests about channels.

use punctual_channel::account::{Account, DelayCounts, ReceivedAccount, Verdict};
use punctual_linux::clock;
use punctual_model::Duration;

use super::super::Server;
use super::{Carried, LiveChannel};
use crate::kernel::peer::Peer;
use punctual_client::grant::GrantId;
use punctual_client::wire::{
    ChannelStatus, ChannelTotals, ChannelsStatus, Counts, MAX_MESSAGE, to_bytes,
};

/// Channels on a page: with the longest words it stays below the longest message.
const PAGE: usize = 48;

impl Server {
    /// Returns a page of the channels that a peer may see, by the same rule as for grants.
    pub(in super::super) fn channels_status(
        &self,
        peer: &Peer,
        after: Option<GrantId>,
    ) -> ChannelsStatus {
        let Some(all) = &self.channels else {
            return ChannelsStatus { totals: None, channels: Vec::new(), more: false };
        };
        let sees = Self::sees(peer);
        let first = after.map_or(GrantId(0), |after| GrantId(after.0.saturating_add(1)));
        let mut channels = Vec::new();
        let mut more = false;
        // The accounts lack everything that a stalled thread has not seen.
        let unheard = all.carriers.sender.unheard(clock::now());
        for (id, live) in all.live.range(first..).filter(|(_, live)| sees(live.record.uid)) {
            if channels.len() == PAGE {
                more = true;
                break;
            }
            let held = self.held.get(&live.record.process);
            let connected = held.is_some_and(|held| held.disconnected_since.is_none());
            channels.push(of_channel(*id, live, connected, unheard));
        }
        let (kept, promised, _) = self.admission.link_bps();
        let config = &all.config;
        let totals = ChannelTotals {
            link_bps: config.link.bits_per_second(),
            promised_bps: promised,
            best_effort_bps: kept,
            // At most the room.
            channels: self.admission.channel_count() as u32,
            room: config.room,
            cpu: config.cpu.to_string(),
            cpu_ppm: self.admission.channels_ppm(),
            refused: all.refused,
            early_discard: all.early_discard.clone(),
        };
        let mut page = ChannelsStatus { totals: Some(totals), channels, more };
        while to_bytes(&page).is_none_or(|bytes| bytes.len() > MAX_MESSAGE - 64)
            && page.channels.len() > 1
        {
            page.channels.truncate(page.channels.len() / 2);
            page.more = true;
        }
        page
    }
}

fn of_channel(
    id: GrantId,
    live: &LiveChannel,
    connected: bool,
    unheard: Duration,
) -> ChannelStatus {
    let (verdict, broken, counts) = match &live.carried {
        Carried::Not | Carried::Made(_) | Carried::Sealing(_) => {
            ("no queue is attached".into(), false, None)
        }
        Carried::Sent { account, .. } => {
            let verdict = account.snapshot().verdict_unheard(clock::now(), unheard);
            let broken = matches!(verdict, Verdict::Broken(_));
            (verdict.to_string(), broken, Some(sent(account)))
        }
        Carried::Received { account } => {
            ("promised by its sender".into(), false, Some(received(account)))
        }
    };
    ChannelStatus {
        grant: id,
        uid: live.record.uid,
        pid: live.record.process.pid,
        channel: live.record.channel.clone(),
        since: live.record.since,
        connected,
        attached: counts.is_some(),
        verdict,
        broken,
        counts,
    }
}

fn named<const N: usize>(causes: [(&str, u64); N]) -> Vec<(String, u64)> {
    let some = causes.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(cause, count)| (cause.into(), count)).collect()
}

fn percentile(delays: &DelayCounts, percent: f64, worst: Duration) -> u64 {
    // The end of a step may be beyond the worst.
    delays.percentile(percent).map_or(0, |delay| delay.min(worst).as_nanos())
}

fn sent(account: &Account) -> Counts {
    let seen = account.snapshot();
    let losses = seen.losses;
    Counts {
        offered: seen.offered,
        taken: seen.taken,
        not_conforming: seen.not_conforming,
        done: seen.sent,
        bytes: seen.sent_bytes,
        late: seen.late,
        lost: named([
            ("too early", losses.too_early),
            ("wrong size", losses.wrong_size),
            ("refused", losses.refused),
            ("unreachable", losses.unreachable),
            ("closed", losses.closed),
        ]),
        worst_delay_ns: seen.worst_delay.as_nanos(),
        p50_delay_ns: percentile(&seen.delays, 50.0, seen.worst_delay),
        p99_delay_ns: percentile(&seen.delays, 99.0, seen.worst_delay),
        worst_jitter_ns: seen.worst_jitter.as_nanos(),
    }
}

fn received(account: &ReceivedAccount) -> Counts {
    let seen = account.snapshot();
    let losses = seen.losses;
    Counts {
        offered: seen.received + losses.total(),
        taken: seen.received,
        not_conforming: 0,
        done: seen.received,
        bytes: seen.received_bytes,
        late: 0,
        lost: named([
            ("network", losses.network.unwrap_or(0)),
            ("socket", losses.socket),
            ("discarded", losses.discarded),
            ("reassembly", losses.reassembly),
            ("ring full", losses.ring_full),
        ]),
        worst_delay_ns: seen.worst_residence.as_nanos(),
        p50_delay_ns: percentile(&seen.residences, 50.0, seen.worst_residence),
        p99_delay_ns: percentile(&seen.residences, 99.0, seen.worst_residence),
        worst_jitter_ns: 0,
    }
}
