//! The handling of each message about channels.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use punctual_analysis::Refusal;
use punctual_linux::clock;
use tracing::{info, warn};

use super::super::Server;
use super::super::refusals::{MOST_REFUSALS, Stop, shorten};
use super::{Carried, Channels};
use crate::admission::AdmissionState;
use crate::kernel::peer::Peer;
use crate::ledger::{ChannelRecord, since_1970};
use punctual_client::grant::{GrantId, Token};
use punctual_client::want::{RawChannel, WantedChannel};
use punctual_client::wire::{Answer, OfferedChannel, Opened, RefusedChannel, RefusedStatus};

/// The answer of a broker whose configuration has no `[channels]`.
const NO_CHANNELS: &str = "this broker carries no channels: say in its configuration what link they \
                           share, such as [channels] with link = \"1gbit/s\"";

impl Server {
    pub(in super::super) fn channels_mut(&mut self) -> Result<&mut Channels, Stop> {
        self.channels.as_mut().ok_or_else(|| Stop::Error(NO_CHANNELS.into()))
    }

    fn channels_and_admission(&mut self) -> Result<(&mut Channels, &mut AdmissionState), Stop> {
        let channels = self.channels.as_mut().ok_or_else(|| Stop::Error(NO_CHANNELS.into()))?;
        Ok((channels, &mut self.admission))
    }

    pub(in super::super) fn open_channel(
        &mut self,
        peer: &Rc<Peer>,
        raw: RawChannel,
    ) -> Result<Answer, Stop> {
        let want =
            WantedChannel::try_from(raw.clone()).map_err(|why| Stop::Error(why.to_string()))?;
        self.channels_mut()?;
        let token = Token::draw().map_err(|why| Stop::Error(format!("no random bytes: {why}")))?;
        let id = self.ledger.next_id().map_err(|why| Stop::Error(why.to_string()))?;
        let requester = self.requester(peer.uid, &peer.gids);
        let (channels, admission) = self.channels_and_admission()?;
        let now = clock::now();
        channels.release_what_is_spent(now, admission);
        admission.catch_up(now);
        if let Err(denied) = admission.admit_channel(id, &requester, &want) {
            return Err(self.channel_denied(peer, id, &want, *denied));
        }
        let record = ChannelRecord {
            id,
            token,
            uid: peer.uid,
            gids: peer.gids.clone(),
            process: peer.process.id,
            channel: raw,
            since: since_1970(),
        };
        let kept = self
            .ledger
            .enter_channel(&record)
            .map_err(|why| why.to_string())
            .and_then(|()| self.hold_channel(peer, id).map_err(|why| why.to_string()));
        if let Err(why) = kept {
            self.admission.withdraw_channel(id);
            self.strike(&[id]);
            return Err(Stop::Error(why));
        }
        let what = shorten(&want);
        info!(%id, uid = peer.uid, pid = peer.process.id.pid, what, "channel granted");
        let (channels, admission) = self.channels_and_admission()?;
        channels.enter(record, want);
        let opened = channels.opened(id, admission);
        self.divide();
        opened.map(Answer::Opened)
    }

    /// Makes the queue of a channel; the descriptors for its client are added to `files`.
    pub(in super::super) fn attach_channel(
        &mut self,
        peer: &Rc<Peer>,
        id: GrantId,
        first: u64,
        files: &mut Vec<OwnedFd>,
    ) -> Result<Answer, Stop> {
        self.own_channel(peer, id)?;
        let requester = self.requester(peer.uid, &peer.gids);
        let (channels, admission) = self.channels_and_admission()?;
        if let Some(bytes) = channels.kept(id, &requester, admission) {
            return Ok(Answer::Kept { bytes });
        }
        // A queue that is not attached costs memory: make one no more often than other requests are
        // served.
        self.may_attach(peer)?;
        let made = self.channels_mut()?.make(id, requester.uid, first);
        let (answer, passed) = made.map_err(Stop::Error)?;
        files.extend(passed.into_descriptors());
        Ok(answer)
    }

    /// Attaches the queue of a channel, which its client has mapped, once it is sealed.
    pub(in super::super) fn mapped_channel(
        &mut self,
        peer: &Rc<Peer>,
        id: GrantId,
    ) -> Result<Answer, Stop> {
        self.own_channel(peer, id)?;
        let (channels, admission) = self.channels_and_admission()?;
        if !channels.attach(id, admission).map_err(Stop::Error)? {
            return Ok(Answer::Sealing);
        }
        self.has_attached(peer);
        info!(%id, uid = peer.uid, pid = peer.process.id.pid, "channel attached");
        Ok(Answer::Attached)
    }

    pub(in super::super) fn change_channel(
        &mut self,
        peer: &Rc<Peer>,
        id: GrantId,
        raw: RawChannel,
    ) -> Result<Answer, Stop> {
        let want =
            WantedChannel::try_from(raw.clone()).map_err(|why| Stop::Error(why.to_string()))?;
        self.own_channel(peer, id)?;
        let requester = self.requester(peer.uid, &peer.gids);
        let (channels, admission) = self.channels_and_admission()?;
        let Some(live) = channels.live.get(&id) else { return Err(no_such(id)) };
        let before = live.want.clone();
        let same = WantedChannel {
            name: before.name.clone(),
            arrivals: before.arrivals,
            delay_bound: before.delay_bound,
            too_early: before.too_early,
            ..want.clone()
        };
        if same != before || want.geometry() != before.geometry() {
            return Err(Stop::Error(format!(
                "direction, address, framing, policing, number and queue of channel {id} stay; open \
                 another"
            )));
        }
        if live.sends() && want.delay_bound.is_some() != before.delay_bound.is_some() {
            return Err(Stop::Error(format!(
                "channel {id} cannot become one of best effort, or be one no longer; open another"
            )));
        }
        if matches!(live.carried, Carried::Received { .. }) {
            let why = format!("the contract of channel {id}, which receives, cannot be changed");
            return Err(Stop::Error(why));
        }
        let (old, carried) = (live.record.clone(), live.sent_as());
        let change = match admission.change_channel(id, &requester, &want, clock::now()) {
            Ok(change) => change,
            Err(denied) => return Err(self.channel_denied(peer, id, &want, *denied)),
        };
        let terms = channels.terms(admission, &want);
        // The ledger first: a change cannot be undone once the thread has been told.
        let new = ChannelRecord { channel: raw.clone(), ..old.clone() };
        let mut kept = self.ledger.enter_channel(&new).map_err(|why| why.to_string());
        let channels = self.channels_mut()?;
        if kept.is_ok()
            && let Some(key) = carried
            && let Err(busy) = channels.carriers.sender.change(key, terms)
        {
            kept = Err(busy.to_string());
            if let Err(why) = self.ledger.enter_channel(&old) {
                warn!(%id, %why, "the ledger has the contract that was refused");
            }
        }
        let (channels, admission) = self.channels_and_admission()?;
        if let Err(why) = kept {
            admission.undo_channel(change);
            return Err(Stop::Error(why));
        }
        if let Some(live) = channels.live.get_mut(&id) {
            (live.want, live.record.channel) = (want, raw);
        }
        let opened = channels.opened(id, admission);
        self.divide();
        opened.map(Answer::Opened)
    }

    /// Ends a channel. Returns `false` if there is none of that number.
    pub(in super::super) fn release_channel(
        &mut self,
        peer: &Rc<Peer>,
        id: GrantId,
    ) -> Result<bool, Stop> {
        if !self.channels.as_ref().is_some_and(|channels| channels.live.contains_key(&id)) {
            return Ok(false);
        }
        self.own_channel(peer, id)?;
        self.end_all_channels(&[id], "released");
        Ok(true)
    }

    /// Resumes a channel, if there is one of that number, on another connection of its holder; see
    /// `resume`.
    pub(in super::super) fn resume_channel(
        &mut self,
        connection: u64,
        peer: &Rc<Peer>,
        id: GrantId,
        token: Token,
    ) -> Option<Result<Answer, Stop>> {
        let channels = self.channels.as_ref()?;
        let live = channels.live.get(&id)?;
        if live.record.uid != peer.uid || live.record.token != token || live.ends_at.is_some() {
            return Some(Err(no_such(id)));
        }
        let opened = channels.opened(id, &self.admission).map(Answer::Opened);
        let Some(held) = self.held.get(&live.record.process) else {
            return Some(Err(no_such(id)));
        };
        let holder = Rc::clone(&held.peer);
        self.speaks_for(connection, &holder);
        self.is_back(&holder);
        info!(%id, uid = peer.uid, pid = holder.process.id.pid, "channel resumed");
        Some(opened)
    }

    /// Tells best-effort channels that their share has changed.
    pub(in super::super) fn divide(&mut self) {
        if let Some(channels) = &mut self.channels
            && let Err(busy) = channels.divide(&self.admission)
        {
            warn!(%busy, "best effort keeps its share until the next look");
        }
    }

    fn own_channel(&self, peer: &Peer, id: GrantId) -> Result<(), Stop> {
        let live = self.channels.as_ref().and_then(|channels| channels.live.get(&id));
        let own = live.is_some_and(|live| {
            live.record.process == peer.process.id
                && live.record.uid == peer.uid
                && live.ends_at.is_none()
        });
        if own { Ok(()) } else { Err(no_such(id)) }
    }

    fn channel_denied(
        &mut self,
        peer: &Peer,
        id: GrantId,
        want: &WantedChannel,
        refusal: Refusal,
    ) -> Stop {
        let requester = self.requester(peer.uid, &peer.gids);
        let Some(channels) = &mut self.channels else { return Stop::Error(NO_CHANNELS.into()) };
        channels.refused += 1;
        let offers = self.admission.channel_offers(id, &requester, want, clock::now());
        let whole = |(change, want)| OfferedChannel { change, channel: RawChannel::from(&want) };
        let refused = RefusedChannel {
            test: refusal.test.into(),
            why: refusal.why,
            offers: offers.into_iter().map(whole).collect(),
        };
        let (uid, pid) = (peer.uid, peer.process.id.pid);
        let (what, why) = (shorten(want), shorten(&refused.why));
        info!(uid, pid, what, test = refused.test, why, "channel refused");
        let status = RefusedStatus { at: since_1970(), uid, pid, what, why };
        self.refused += 1;
        self.refusals.push_front(status.clone());
        self.refusals.truncate(MOST_REFUSALS);
        self.unwritten.push(status);
        Stop::Channel(refused)
    }
}

impl Channels {
    fn opened(&self, id: GrantId, admission: &AdmissionState) -> Result<Opened, Stop> {
        let live = self.live.get(&id).ok_or_else(|| no_such(id))?;
        let bound = live.want.delay_bound;
        Ok(Opened {
            grant: id,
            token: live.record.token,
            delay_bound_ns: bound.map(punctual_model::Duration::as_nanos),
            share_bps: (live.sends() && bound.is_none()).then(|| admission.best_effort_bps()),
        })
    }
}

fn no_such(id: GrantId) -> Stop {
    Stop::Error(format!("this process has no channel {id}"))
}
