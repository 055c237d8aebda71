//! A channel's queue, and everything else that its thread needs. Made here, because it takes time.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;

use punctual_channel::account::Recorder;
use punctual_channel::rings::{Passed, server};
use punctual_channel::server::receiver::{self, thread::Order};
use punctual_channel::server::sender::Opening;
use punctual_linux::net::{Setup, UdpSocket};
use punctual_linux::pass::Bell;
use punctual_model::Duration;
use punctual_model::channel::Direction;

use super::{Carried, Channels};
use crate::config::WireKind;
use crate::grant::GrantId;
use crate::want::WantedChannel;

/// By how much more than their senders a network in one building bunches messages.
const UNEVENNESS: Duration = Duration::from_millis(2);

impl Channels {
    /// Takes the queue of a channel that has none yet. Files that are not needed are closed elsewhere.
    pub(super) fn attach(&mut self, id: GrantId, files: Vec<OwnedFd>) -> Result<(), String> {
        let Some(live) = self.live.get(&id) else { return Err(format!("no channel {id}")) };
        let (uid, want) = (live.record.uid, live.want.clone());
        let passed = Passed::of(files);
        let passed = match (passed, &live.carried) {
            (Ok(passed), Carried::Not) => passed,
            (Ok(passed), _) => {
                self.disposal.take(uid, passed.into_descriptors().into());
                return Err(format!("channel {id} has its queue already"));
            }
            (Err(files), _) if files.is_empty() && !self.disposal.has_room(uid) => {
                return Err(
                    "what this user has closed is still being taken apart: try again".into()
                );
            }
            (Err(files), _) => {
                let count = files.len();
                self.disposal.take(uid, files);
                let wanted = Passed::COUNT;
                return Err(format!("the queue of a channel is {wanted} descriptors, not {count}"));
            }
        };
        if !passed.are_memory_and_bell() {
            self.disposal.take(uid, passed.into_descriptors().into());
            return Err("a queue is two memories of memfd_create(2) and a socket".into());
        }
        let carried = match want.direction {
            Direction::Send => self.attach_sending(uid, &want, passed)?,
            Direction::Receive => self.attach_receiving(id, &want, passed)?,
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

    fn attach_sending(
        &mut self,
        uid: u32,
        want: &WantedChannel,
        passed: Passed,
    ) -> Result<Carried, String> {
        let bell = bell(passed.bell)?;
        let takes = server::takes(passed.frames, passed.page, want.geometry())
            .map_err(|why| why.to_string())?;
        let socket = match self.books.config().wire {
            WireKind::Null => None,
            WireKind::Udp => {
                let setup = Setup::to(want.address);
                let setup = match &self.books.config().interface {
                    Some(interface) => setup.on(interface),
                    None => setup,
                };
                Some(self.sockets.to(uid, want, &setup).map_err(|why| why.to_string())?)
            }
        };
        let recorder = Recorder::new(want.delay_bound);
        let account = recorder.account().clone();
        let terms = self.terms(want);
        let framing = want.framing;
        let opening = Opening { terms, framing, number: want.number, takes, bell, recorder };
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
        want: &WantedChannel,
        passed: Passed,
    ) -> Result<Carried, String> {
        let bell = bell(passed.bell)?;
        let puts = server::puts(passed.frames, passed.page, want.geometry())
            .map_err(|why| why.to_string())?;
        let setup = Setup::at(want.address);
        let setup = match &self.books.config().interface {
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
            unevenness: UNEVENNESS,
            shared_clock: want.address.ip().is_loopback(),
        };
        let opening =
            receiver::Opening::new(terms, socket, puts, bell).map_err(|why| why.to_string())?;
        let account = opening.account().clone();
        if self.carriers.receiver.order(Order::Open(id.0, Box::new(opening))) {
            Ok(Carried::Received { account })
        } else {
            Err("the channels' receiver does not keep up with its orders: try again".into())
        }
    }
}

fn bell(passed: OwnedFd) -> Result<Bell, String> {
    let (bell, refuses_files) = Bell::of_stranger(passed).map_err(|why| why.to_string())?;
    if !refuses_files {
        tracing::warn!("before Linux 6.16 a client can hold the channels' threads up by its bell");
    }
    Ok(bell)
}
