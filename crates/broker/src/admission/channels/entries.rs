//! The channels that are entered, and the sums of each user.

use std::collections::BTreeMap;

use punctual_analysis::Refusal;
use punctual_channel::rings;
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;
use punctual_model::channel::{Direction, Framing};

use super::super::terms::denied;
use crate::config::ChannelsConfig;

/// The channels, with the user of each.
#[derive(Clone, Debug)]
pub(in super::super) struct ChannelEntries {
    pub(super) config: ChannelsConfig,
    pub(super) entries: BTreeMap<GrantId, Entry>,
    pub(super) users: BTreeMap<u32, Sum>,
    /// The number of channels that send and are promised nothing.
    pub(super) best_effort: u32,
}

/// A channel, with the user whose quota it counts in.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) uid: u32,
    pub(super) want: WantedChannel,
    /// The promised rate on the link; zero for a channel that receives, and for best effort.
    pub(super) bps: u64,
}

/// The channels of a user together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) bps: u64,
    /// The bytes of their queues.
    pub(super) bytes: u64,
    pub(super) channels: u32,
}

impl ChannelEntries {
    pub(super) fn new(config: ChannelsConfig) -> Self {
        Self { config, entries: BTreeMap::new(), users: BTreeMap::new(), best_effort: 0 }
    }

    pub(super) fn count(&mut self, id: GrantId, entry: Entry) {
        let sum = self.users.entry(entry.uid).or_default();
        sum.channels += 1;
        sum.bytes += rings::bytes(entry.want.geometry());
        sum.bps += entry.bps;
        self.best_effort += u32::from(entry.shares_the_rest());
        self.entries.insert(id, entry);
    }

    pub(super) fn uncount(&mut self, id: GrantId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.best_effort -= u32::from(entry.shares_the_rest());
        if let Some(sum) = self.users.get_mut(&entry.uid) {
            sum.channels -= 1;
            sum.bytes -= rings::bytes(entry.want.geometry());
            sum.bps -= entry.bps;
            if sum.channels == 0 {
                self.users.remove(&entry.uid);
            }
        }
        Some(entry)
    }

    pub(super) fn has_room(&self, want: &WantedChannel) -> Result<(), Box<Refusal>> {
        if self.entries.len() >= self.config.room as usize {
            let room = self.config.room;
            return Err(denied("room", format!("there are {room} channels, the most"), None));
        }
        let longest = want.arrivals.max_message();
        let packet = self.config.cut.packet_bytes();
        if want.framing == Framing::Datagram && longest > packet {
            let why = format!(
                "a message of {longest} bytes is to be one datagram, and those have up to {packet}: \
                 send shorter ones, or choose fragments"
            );
            return Err(denied("datagram", why, None));
        }
        Ok(())
    }
}

impl Entry {
    pub(super) fn shares_the_rest(&self) -> bool {
        self.want.direction == Direction::Send && self.want.delay_bound.is_none()
    }
}
