//! Channels in the broker: admitted by its admission state, written into its ledger, carried by
//! threads of their own (`punctual_channel::server`), which take only orders and return only
//! reports.
//!
//! - `requests`: the handling of each message about channels. `attach`: the queue, and what is made
//!   for it.
//! - `news`: the reports of the threads; processes that end or come back.
//! - `carriers`: the threads. `discard`: early discard. `sockets`: the sockets by which channels
//!   send. `disposal`: work that may wait for a client. `memory`: the memory that clients keep.
//!   `status`: the answers to status requests. `traced`: the trace.

mod attach;
mod carriers;
mod discard;
mod disposal;
mod memory;
mod news;
mod queue;
mod requests;
mod sockets;
mod status;
mod traced;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use punctual_channel::account::{Account, ReceivedAccount};
use punctual_channel::rings::RingError;
use punctual_channel::server::ringer::Ringers;
use punctual_channel::server::sender::thread::Busy;
use punctual_linux::awake::{Awake, Below};
use punctual_linux::{clock, memfd, thread};
use punctual_model::channel::{Direction, LinearBounded};
use punctual_model::{Duration, Instant, Rank};
use punctual_policy::egress::{Promise, Terms};
use tracing::warn;

use self::carriers::Carriers;
pub(super) use self::discard::Discard;
use self::disposal::Disposal;
use self::memory::Memory;
use self::queue::{Frozen, Queue};
use self::sockets::Sockets;
pub use self::traced::ChannelTrace;
use self::traced::Traced;
use crate::admission::AdmissionState;
use crate::config::ChannelsConfig;
use crate::ledger::ChannelRecord;
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;

/// All state of channels.
#[derive(Debug)]
pub(super) struct Channels {
    config: ChannelsConfig,
    carriers: Carriers,
    disposal: Disposal,
    memory: Memory,
    ringers: Ringers,
    /// The mechanism of early discard, in words.
    early_discard: String,
    sockets: Sockets,
    /// Closed channels, which stay in the admission state until the given time.
    spent: BTreeSet<(Instant, GrantId)>,
    pub(super) live: BTreeMap<GrantId, LiveChannel>,
    /// The channel of each of the sender's numbers; `None`: the number is free.
    keys: Vec<Option<GrantId>>,
    free: Vec<u32>,
    /// Channels that send and are promised nothing.
    best_effort: BTreeSet<GrantId>,
    /// The share that they were told last.
    told: (u64, u64),
    refused: u64,
    /// The trace of what happens to each message, if there is one.
    traced: Option<Traced>,
    /// Keeps the CPUs from halting, if that is configured.
    _awake: Option<Awake>,
}

/// A channel that is granted.
#[derive(Debug)]
pub(super) struct LiveChannel {
    pub(super) record: ChannelRecord,
    want: WantedChannel,
    carried: Carried,
    /// Set when the channel is over for its client; until then messages that it had published may
    /// leave.
    pub(super) ends_at: Option<Instant>,
}

/// The state of a channel's queue and carriage.
#[derive(Debug)]
enum Carried {
    /// No queue is made.
    Not,
    /// The queue waits until its client has mapped it.
    Made(Queue),
    /// The queue is being sealed; the result comes here.
    Sealing(Receiver<Result<Frozen, RingError>>),
    /// Carried by the sender, which knows it by this number.
    Sent { key: u32, account: Arc<Account> },
    /// Carried by the receiver, which knows it by the number of the grant.
    Received { account: Arc<ReceivedAccount> },
}

impl Carried {
    /// Returns whether one of the threads carries it.
    fn is_carried(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::Received { .. })
    }
}

impl Channels {
    pub(super) fn start(
        config: &ChannelsConfig,
        discard: Discard,
        below: Option<Below>,
        trace: Option<Box<dyn ChannelTrace>>,
    ) -> io::Result<Self> {
        let (policer, early_discard) = discard.into_parts();
        let start = || Awake::start_in(&thread::affinity(), below);
        let awake = config.awake.then(start).transpose()?;
        if let Some(awake) = &awake
            && !awake.gives_way_to_all()
        {
            warn!("what keeps the CPUs awake shares them with ordinary threads of other sessions");
        }
        if memfd::can_be_collapsed() == Some(true) {
            warn!(
                "this kernel replaces pages that are held: a client can delay the channels of others for moments: \
                 echo deny > /sys/kernel/mm/transparent_hugepage/shmem_enabled forbids it"
            );
        }
        let (traced, senders) = trace.map(Traced::new).unzip();
        Ok(Self {
            config: config.clone(),
            carriers: Carriers::start(config, policer, senders)?,
            disposal: Disposal::start()?,
            memory: Memory::new().map_err(io::Error::other)?,
            ringers: Ringers::default(),
            early_discard,
            sockets: Sockets::default(),
            spent: BTreeSet::new(),
            live: BTreeMap::new(),
            keys: vec![None; config.room as usize],
            free: (0..config.room).rev().collect(),
            best_effort: BTreeSet::new(),
            told: (0, 0),
            refused: 0,
            traced,
            _awake: awake,
        })
    }

    /// Writes to the trace everything that has happened since the last call.
    pub(super) fn write_trace(&mut self) {
        if let Some(traced) = &mut self.traced {
            traced.write(&self.keys);
        }
    }

    /// Completes the trace.
    pub(super) fn end_trace(&mut self) {
        if let Some(traced) = &mut self.traced {
            traced.end(&self.keys);
        }
    }

    /// Returns the terms of a channel for the sender.
    fn terms(&self, admission: &AdmissionState, want: &WantedChannel) -> Terms {
        match want.delay_bound {
            // Messages with the same deadline leave in any order.
            Some(delay_bound) => Terms {
                arrivals: want.arrivals,
                promise: Promise::RealTime { rank: Rank(0), delay_bound },
                too_early: want.too_early,
            },
            None => Terms {
                arrivals: no_oftener(want.arrivals, admission.best_effort_spacing(want.arrivals)),
                promise: Promise::BestEffort,
                too_early: want.too_early,
            },
        }
    }

    /// Tells each best-effort sender its share, if that has changed.
    pub(super) fn divide(&mut self, admission: &AdmissionState) -> Result<(), Busy> {
        let share = admission.best_effort_share();
        if share == self.told {
            return Ok(());
        }
        // Until all have been told.
        self.told = (0, 0);
        for live in self.best_effort.iter().filter_map(|id| self.live.get(id)) {
            if let Carried::Sent { key, .. } = live.carried {
                self.carriers.sender.change(key, self.terms(admission, &live.want))?;
            }
        }
        self.told = share;
        Ok(())
    }

    /// Stops carrying a channel, which leaves the admission state when that is done.
    fn stop(&mut self, id: GrantId, admission: &mut AdmissionState) {
        let Some(live) = self.live.get(&id) else { return };
        let told = match &live.carried {
            Carried::Not | Carried::Made(_) | Carried::Sealing(_) => {
                self.replace(id, Carried::Not);
                return self.forget(id, Instant::ZERO, admission);
            }
            Carried::Sent { key, .. } => self.carriers.sender.close(*key).is_ok(),
            Carried::Received { .. } => {
                use punctual_channel::server::receiver::thread::Order;
                let receiver = self.carriers.receiver_of(live.want.delay_bound);
                receiver.order(Order::Close(id.0))
            }
        };
        if !told && let Some(live) = self.live.get_mut(&id) {
            // Try again at the next look.
            live.ends_at = Some(Instant::ZERO);
        }
    }

    /// Has a channel that was carried taken apart on another thread: it shares memory with its
    /// client.
    fn take_apart(&mut self, id: GrantId, channel: impl Send + 'static) {
        // A channel without an owner counts as root's.
        let uid = self.live.get(&id).map_or(0, |live| live.record.uid);
        self.disposal.take_apart(uid, channel);
    }

    /// Enters a channel, which is in the admission state from here on.
    pub(super) fn enter(&mut self, record: ChannelRecord, want: WantedChannel) {
        let id = record.id;
        if want.direction == Direction::Send && want.delay_bound.is_none() {
            self.best_effort.insert(id);
        }
        let live = LiveChannel { record, want, carried: Carried::Not, ends_at: None };
        self.live.insert(id, live);
    }

    /// Forgets a closed channel. It leaves the admission state when its last message has had its
    /// time: otherwise a user that opens and closes over and over would send more than its quota
    /// permits.
    fn forget(&mut self, id: GrantId, spent_until: Instant, admission: &mut AdmissionState) {
        self.best_effort.remove(&id);
        if let Some(live) = self.live.remove(&id)
            && let Carried::Sent { key, .. } = live.carried
        {
            // Pending events with this number belong to this channel.
            self.write_trace();
            self.keys[key as usize] = None;
            self.free.push(key);
            self.sockets.forget(live.record.uid, &live.want);
        }
        let now = clock::now();
        self.spent.insert((spent_until.max(now), id));
        self.release_what_is_spent(now, admission);
    }

    /// Returns the last instant at which the sender was idle.
    pub(super) fn sender_idle_at(&self) -> Instant {
        self.carriers.sender.idle_at()
    }

    /// Takes channels out of the admission state that were closed long enough ago.
    pub(super) fn release_what_is_spent(&mut self, now: Instant, admission: &mut AdmissionState) {
        while let Some((until, id)) = self.spent.first().filter(|(until, _)| *until <= now).copied()
        {
            self.spent.pop_first();
            admission.release_channel(id, until);
            self.carriers.sender.look();
        }
    }
}

impl LiveChannel {
    pub(super) fn sends(&self) -> bool {
        self.want.direction == Direction::Send
    }

    /// Returns the sender's number for it, if the sender carries it.
    fn sent_as(&self) -> Option<u32> {
        match self.carried {
            Carried::Sent { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Returns traffic with messages as large as requested, no more often than requested, and at least
/// `spacing` apart.
fn no_oftener(asked: LinearBounded, spacing: Duration) -> LinearBounded {
    // A message a day is the least there can be.
    let day = Duration::from_secs(86_400);
    let spacing = spacing.max(asked.min_inter_arrival()).min(day);
    let (least, most) = (asked.min_message(), asked.max_message());
    LinearBounded::new(least, most, spacing, asked.max_burst()).unwrap_or(asked)
}
