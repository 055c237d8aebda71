//! The reports of the channels' threads, and channels whose processes end or come back.

use std::collections::BTreeSet;
use std::rc::Rc;

use punctual_channel::server::receiver::thread::Report;
use punctual_channel::server::sender::thread::News;
use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use tracing::info;

use super::super::{Held, Server, Source};
use super::{Carried, LiveChannel};
use crate::kernel::peer::{Peer, Process};
use crate::ledger::{LedgerError, ProcessId};
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;
use punctual_client::wire::{BrokerMessage, Event};

/// The time within which the messages that a process had published when it ended may leave.
const LAST: Duration = Duration::from_secs(2);

impl Server {
    /// Watches the process of a channel.
    pub(super) fn hold_channel(&mut self, peer: &Rc<Peer>, id: GrantId) -> rustix::io::Result<()> {
        let held = self.hold_process(peer)?;
        held.channels.insert(id);
        held.disconnected_since = None;
        Ok(())
    }

    /// Returns whether a thread that carries channels has ended, although none ever should.
    pub(in super::super) fn has_lost_a_carrier(&self) -> bool {
        self.channels.as_ref().is_some_and(|channels| channels.carriers.has_lost_one())
    }

    /// Handles the reports of the sender's thread.
    pub(in super::super) fn sender_news(&mut self) {
        while let Some(news) = self.channels.as_mut().and_then(|all| all.carriers.sender.news()) {
            let Some(channels) = &mut self.channels else { return };
            match news {
                News::Ended { key, why } => {
                    let id = channels.keys.get(key as usize).copied().flatten();
                    if let Some(id) = id {
                        self.channel_ended(id, &why.to_string());
                    }
                }
                News::Closed { key, channel } => {
                    let id = channels.keys.get(key as usize).copied().flatten();
                    let spent_until = channel.spent_until();
                    if let Some(id) = id {
                        channels.take_apart(id, channel);
                        self.forget_channel(id, spent_until);
                    }
                }
            }
        }
    }

    /// Handles the reports of the threads that receive.
    pub(in super::super) fn receiver_news(&mut self) {
        while let Some(report) = self.channels.as_mut().and_then(|all| all.carriers.received()) {
            match report {
                Report::Opened(_) => {}
                Report::NotOpened(id, why) => {
                    self.channel_ended(GrantId(id), &why.to_string());
                    self.forget_channel(GrantId(id), Instant::ZERO);
                }
                Report::Closed(id, channel, ended) => {
                    if let Some(channels) = &mut self.channels {
                        channels.take_apart(GrantId(id), channel);
                    }
                    if let Some(why) = ended {
                        self.channel_ended(GrantId(id), &why.to_string());
                    }
                    self.forget_channel(GrantId(id), Instant::ZERO);
                }
            }
        }
    }

    /// Handles a channel that has stopped carrying messages by itself.
    fn channel_ended(&mut self, id: GrantId, why: &str) {
        let Some(channels) = &mut self.channels else { return };
        let Some(live) = channels.live.get_mut(&id) else { return };
        let process = live.record.process;
        info!(%id, uid = live.record.uid, pid = process.pid, why, "channel ended");
        let over = live.ends_at.replace(clock::now()).is_some();
        let sends = live.sends();
        if !over {
            let event = Event::ChannelEnded { why: why.into() };
            self.tell_process(process, &BrokerMessage::Event { grant: Some(id), event });
        }
        self.strike(&[id]);
        if sends && let Some(channels) = &mut self.channels {
            channels.stop(id, &mut self.admission);
        }
    }

    /// Ends channels whose process may be alive. Each leaves the admission state when its thread
    /// has closed it.
    pub(in super::super) fn end_all_channels(&mut self, ids: &[GrantId], why: &str) {
        let mut gone = false;
        for id in ids {
            let Some(channels) = &mut self.channels else { return };
            let Some(live) = channels.live.get_mut(id) else { continue };
            info!(%id, uid = live.record.uid, pid = live.record.process.pid, why, "channel ends");
            live.ends_at = Some(clock::now());
            gone |= !live.carried.is_carried();
            let process = live.record.process;
            channels.stop(*id, &mut self.admission);
            self.let_go(process, *id);
        }
        // One commit for all: a person may have thousands, and each commit takes time for which
        // other clients wait.
        self.strike(ids);
        if gone {
            self.divide();
        }
    }

    /// Forgets a closed channel, and frees its number.
    fn forget_channel(&mut self, id: GrantId, spent_until: Instant) {
        let Some(channels) = &mut self.channels else { return };
        let Some(process) = channels.live.get(&id).map(|live| live.record.process) else { return };
        channels.forget(id, spent_until, &mut self.admission);
        self.let_go(process, id);
        self.divide();
        self.tell_of_room();
    }

    /// Stops watching a process for this channel.
    fn let_go(&mut self, process: ProcessId, id: GrantId) {
        if let Some(held) = self.held.get_mut(&process) {
            held.channels.remove(&id);
        }
        self.forget_process_if_idle(process);
    }

    /// Handles the end of a process with channels. Messages that it had published may still leave.
    pub(in super::super) fn process_of_channels_ended(&mut self, ids: &BTreeSet<GrantId>) {
        let now = clock::now();
        let mut over = Vec::new();
        if let Some(channels) = &mut self.channels {
            for id in ids {
                match channels.live.get_mut(id) {
                    Some(LiveChannel { carried: Carried::Sent { key, .. }, ends_at, .. }) => {
                        // If the sender does not keep up, the time limit decides.
                        let _ = channels.carriers.sender.finish(*key);
                        *ends_at = Some(now.saturating_add(LAST));
                    }
                    _ => over.push(*id),
                }
            }
        }
        let ids: Vec<GrantId> = ids.iter().copied().collect();
        self.strike(&ids);
        self.end_all_channels(&over, "its process has ended");
    }

    /// Ends channels whose time is up.
    pub(in super::super) fn end_channels(&mut self, now: Instant) {
        let Some(channels) = &mut self.channels else { return };
        channels.disposal.tidy();
        channels.memory.look();
        channels.ringers.tidy();
        let _ = channels.carriers.sender.unheard(now);
        channels.write_trace();
        channels.release_what_is_spent(now, &mut self.admission);
        let due = |live: &LiveChannel| live.ends_at.is_some_and(|at| at <= now);
        let late: Vec<GrantId> =
            channels.live.iter().filter(|(_, live)| due(live)).map(|(id, _)| *id).collect();
        for id in late {
            // Possibly for the second time: then it does nothing.
            channels.stop(id, &mut self.admission);
            if let Some(live) = channels.live.get_mut(&id) {
                live.ends_at = Some(now.saturating_add(LAST));
            }
        }
        self.divide();
    }

    /// Adopts the channels of an earlier broker. Their clients have the queues, and attach them
    /// again.
    pub(in super::super) fn adopt_channels(&mut self) -> Result<(), LedgerError> {
        let records = self.ledger.channels()?;
        let mut gone = Vec::new();
        for record in records {
            let id = record.id;
            let adopted = (|| {
                let want = WantedChannel::try_from(record.channel.clone())
                    .map_err(|why| why.to_string())?;
                let process = Process::find(record.process).ok_or("its process has ended")?;
                let requester = self.requester(record.uid, &record.gids);
                self.channels.as_ref().ok_or("there are no channels any more")?;
                let entered = self.admission.enter_channel(id, requester.uid, &want);
                entered.map_err(|denied| denied.to_string())?;
                let key = record.process;
                let peer = Peer { process, uid: record.uid, gids: record.gids.clone() };
                let peer =
                    self.held.get(&key).map_or_else(|| Rc::new(peer), |held| held.peer.clone());
                let held = self.hold_channel(&peer, id);
                let channels = self.channels.as_mut().ok_or("there are no channels any more")?;
                if let Err(why) = held {
                    self.admission.withdraw_channel(id);
                    return Err(format!("its process cannot be watched: {why}"));
                }
                channels.enter(record.clone(), want);
                if let Some(held) = self.held.get_mut(&key) {
                    held.disconnected_since = Some(clock::now());
                }
                Ok::<(), String>(())
            })();
            if let Err(why) = adopted {
                info!(%id, pid = record.process.pid, why, "channel not adopted");
                gone.push(id);
            }
        }
        if gone.is_empty() { Ok(()) } else { self.ledger.strike(&gone) }
    }

    /// Watches a process.
    pub(in super::super) fn hold_process(
        &mut self,
        peer: &Rc<Peer>,
    ) -> rustix::io::Result<&mut Held> {
        let process = peer.process.id;
        if !self.held.contains_key(&process) {
            use std::os::fd::AsFd as _;
            let source = self.watch(peer.process.as_fd(), Source::Process(process))?;
            self.held.insert(process, Held::new(Rc::clone(peer), source));
        }
        Ok(self.held.get_mut(&process).expect("just entered"))
    }

    /// Stops watching a process that has neither grants nor channels.
    pub(in super::super) fn forget_process_if_idle(&mut self, process: ProcessId) {
        let idle = self.held.get(&process).is_some_and(Held::is_idle);
        if idle && let Some(held) = self.held.remove(&process) {
            self.unwatch(&held.peer.process, held.source());
        }
    }

    /// Watches the threads that carry channels: without them no promise is kept.
    pub(in super::super) fn watch_carriers(&mut self) -> rustix::io::Result<()> {
        use std::os::fd::AsFd as _;
        let Some(channels) = &self.channels else { return Ok(()) };
        let clone = |fd: std::os::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 0);
        let sender = clone(channels.carriers.sender.as_fd())?;
        let receiver = clone(channels.carriers.receiver.as_fd())?;
        let best_effort = clone(channels.carriers.best_effort.as_fd())?;
        self.watch(&sender, Source::Sender)?;
        self.watch(&receiver, Source::Receiver)?;
        self.watch(&best_effort, Source::Receiver)?;
        // For as long as the broker runs.
        self.carriers_watched = vec![sender, receiver, best_effort];
        Ok(())
    }
}
