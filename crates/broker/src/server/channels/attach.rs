//! A channel's queue, and everything else that its thread needs. Made here, because it takes time.

use std::num::NonZeroU16;
use std::sync::mpsc::{TryRecvError, sync_channel};

use punctual_channel::account::Recorder;
use punctual_channel::rings::{self, Passed, Puts, Side, Takes};
use punctual_channel::server::receiver::{self, thread::Order};
use punctual_channel::server::sender::Opening;
use punctual_linux::clock;
use punctual_linux::net::{Setup, UdpSocket};
use punctual_model::{Duration, Instant};
use punctual_policy::egress::Terms;
use punctual_policy::ingress::UNEVENNESS;

use super::queue::{Frozen, Queue};
use super::{Carried, Channels};
use crate::admission::{AdmissionState, Requester};
use crate::config::WireKind;
use crate::ledger::since_1970;
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;
use punctual_client::wire::Answer;

impl Channels {
    /// Returns how many bytes of queues a person holds, if some must be released before another
    /// queue is made for this channel; `None` if there is room for it.
    pub(super) fn kept(
        &mut self,
        id: GrantId,
        requester: &Requester,
        admission: &AdmissionState,
    ) -> Option<u64> {
        let geometry = self.live.get(&id)?.want.geometry();
        let (channels, entered) = admission.channels_of_user(requester.uid);
        // A channel that was granted before has room, whatever the quota says today.
        let most = requester.quota.quota.queue_memory.max(entered);
        self.memory.look();
        self.memory.exceeds(requester.uid, rings::bytes(geometry), most, channels.into())
    }

    /// Makes a queue for a channel that has none, in place of an earlier one that is not attached.
    pub(super) fn make(
        &mut self,
        id: GrantId,
        person: u32,
        first: u64,
    ) -> Result<(Answer, Passed), String> {
        let Some(live) = self.live.get(&id) else { return Err(format!("no channel {id}")) };
        if live.carried.is_carried() {
            return Err(format!("channel {id} has its queue already"));
        }
        let (uid, geometry) = (live.record.uid, live.want.geometry());
        if !self.disposal.has_room(uid) {
            return Err("what this user has closed is still being taken apart: try again".into());
        }
        let made = Queue::new(live.want.direction, geometry, first);
        let (queue, passed) = made.map_err(|why| why.to_string())?;
        let counted = self.memory.enter(person, &passed, geometry);
        counted.map_err(|why| why.to_string())?;
        self.replace(id, Carried::Made(queue));
        let (slots, max_message) = (geometry.slots(), geometry.max_message());
        Ok((Answer::Queue { slots, max_message, first }, passed))
    }

    /// Attaches the queue of a channel, which its client has mapped. Returns `false` if it is not
    /// sealed yet.
    pub(super) fn attach(
        &mut self,
        id: GrantId,
        admission: &AdmissionState,
    ) -> Result<bool, String> {
        let Some(live) = self.live.get_mut(&id) else { return Err(format!("no channel {id}")) };
        let uid = live.record.uid;
        if let Carried::Sealing(sealed) = &live.carried {
            return match sealed.try_recv() {
                Err(TryRecvError::Empty) => Ok(false),
                Ok(Ok(frozen)) => self.attach_frozen(id, frozen, admission).map(|()| true),
                Ok(Err(why)) => {
                    self.replace(id, Carried::Not);
                    Err(why.to_string())
                }
                Err(TryRecvError::Disconnected) => {
                    self.replace(id, Carried::Not);
                    Err("the queue cannot be sealed: have another made".into())
                }
            };
        }
        match std::mem::replace(&mut live.carried, Carried::Not) {
            Carried::Made(queue) => {
                let (to, sealed) = sync_channel(1);
                live.carried = Carried::Sealing(sealed);
                // If the channel is gone by then, nothing receives this: the queue is taken apart
                // there.
                let job = move || drop(to.try_send(queue.seal_and_freeze()));
                self.disposal.run(uid, job).map_err(|why| why.to_string())?;
                Ok(false)
            }
            Carried::Not => Err(format!("channel {id} has no queue that could be mapped")),
            carried => {
                live.carried = carried;
                Err(format!("channel {id} has its queue already"))
            }
        }
    }

    fn attach_frozen(
        &mut self,
        id: GrantId,
        frozen: Frozen,
        admission: &AdmissionState,
    ) -> Result<(), String> {
        let Some(live) = self.live.get_mut(&id) else { return Err(format!("no channel {id}")) };
        let (uid, want, since) = (live.record.uid, live.want.clone(), live.record.since);
        // In whole seconds, and so up to one second too much.
        let age = Duration::from_secs(since_1970().saturating_sub(since).saturating_add(1));
        let granted_at =
            Instant::from_nanos(clock::now().as_nanos().saturating_sub(age.as_nanos()));
        live.carried = Carried::Not;
        let carried = match frozen {
            Frozen::Takes(side) => {
                let terms = self.terms(admission, &want);
                self.attach_sending(uid, &want, side, granted_at, terms)?
            }
            Frozen::Puts(side) => self.attach_receiving(id, uid, &want, side)?,
        };
        if let Carried::Sent { key, .. } = &carried {
            self.keys[*key as usize] = Some(id);
        }
        if let Some(traced) = &mut self.traced {
            traced.attached(id, &want);
        }
        if let Some(live) = self.live.get_mut(&id) {
            live.carried = carried;
        }
        Ok(())
    }

    /// Sets the state of a channel that is not carried yet; its former queue is taken apart on
    /// another thread.
    pub(super) fn replace(&mut self, id: GrantId, by: Carried) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let uid = live.record.uid;
        match std::mem::replace(&mut live.carried, by) {
            Carried::Not => {}
            before => self.disposal.take_apart(uid, before),
        }
    }

    fn attach_sending(
        &mut self,
        uid: u32,
        want: &WantedChannel,
        side: Side<Takes>,
        believed_from: Instant,
        terms: Terms,
    ) -> Result<Carried, String> {
        let Side { end: takes, bell, doorbell } = side;
        let bell = self.ringers.enter(uid, bell).map_err(|why| why.to_string())?;
        let socket = match self.config.wire {
            WireKind::Null => None,
            WireKind::Udp => {
                let setup = Setup::to(want.address);
                let setup = match &self.config.interface {
                    Some(interface) => setup.on(interface),
                    None => setup,
                };
                Some(self.sockets.to(uid, want, &setup).map_err(|why| why.to_string())?)
            }
        };
        let recorder = Recorder::new(want.delay_bound);
        let account = recorder.account().clone();
        let framing = want.framing;
        let number = want.number;
        let opening =
            Opening { terms, framing, number, takes, bell, doorbell, recorder, believed_from };
        let Some(key) = self.free.pop() else {
            return Err("the channels that were closed last are still leaving: try again".into());
        };
        match self.carriers.sender.open_policed(key, opening, want.policing, socket) {
            Ok(()) => Ok(Carried::Sent { key, account }),
            Err(busy) => {
                self.free.push(key);
                Err(busy.to_string())
            }
        }
    }

    fn attach_receiving(
        &mut self,
        id: GrantId,
        uid: u32,
        want: &WantedChannel,
        side: Side<Puts>,
    ) -> Result<Carried, String> {
        let Side { end: puts, bell, .. } = side;
        let bell = self.ringers.enter(uid, bell).map_err(|why| why.to_string())?;
        let setup = Setup::at(want.address);
        let setup = match &self.config.interface {
            Some(interface) => setup.on(interface),
            None => setup,
        };
        let socket = UdpSocket::open(&setup).map_err(|why| why.to_string())?;
        let terms = receiver::Terms {
            traffic: want.arrivals.into(),
            delay_bound: want.delay_bound,
            framing: want.framing,
            number: want.number,
            least_fragment: NonZeroU16::new(256).unwrap_or(NonZeroU16::MIN),
            packet_bytes: self.config.cut.packet_bytes(),
            unevenness: UNEVENNESS,
            shared_clock: want.address.ip().is_loopback(),
        };
        let opening =
            receiver::Opening::new(terms, socket, puts, bell).map_err(|why| why.to_string())?;
        let account = opening.account().clone();
        let receiver = self.carriers.receiver_of(want.delay_bound);
        if receiver.order(Order::Open(id.0, Box::new(opening))) {
            Ok(Carried::Received { account })
        } else {
            Err("the channels' receiver does not keep up with its orders: try again".into())
        }
    }
}
