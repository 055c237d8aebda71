//! The handling of each message.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use punctual_analysis::UpcallOrder;
use punctual_linux::thread::Tid;
use punctual_linux::{clock, thread};
use punctual_model::reservation::Enforcement;
use tracing::{info, warn};

use super::Server;
use super::refusals::{Stop, shorten};
use crate::dispatcher::Program;
use crate::guard;
use crate::kernel::GiveError;
use crate::kernel::give::set_nice;
use crate::kernel::peer::{Peer, Process, Thread};
use crate::ledger::{Record, since_1970};
use punctual_client::grant::{GrantId, Token};
use punctual_client::want::{Guarantee, Kind, RawWant, Want};
use punctual_client::wire::{Answer, ClientMessage, VERSION};

impl Server {
    /// Returns the answer to a request; descriptors that go with it are added to `files`.
    pub(super) fn answer(
        &mut self,
        connection: u64,
        peer: &Rc<Peer>,
        ask: ClientMessage,
        files: &mut Vec<OwnedFd>,
    ) -> Answer {
        let outcome = match ask {
            ClientMessage::Hello { .. } => Ok(Answer::Welcome {
                version: VERSION,
                level_order: self.means.order == UpcallOrder::LevelOrder,
                rttime_us: (!self.means.may_limit)
                    .then(|| self.means.run_limit.as_nanos() / 1_000 * 2),
                programs: self.may_hold_programs(peer),
            }),
            ClientMessage::Ping => Ok(Answer::Pong),
            ClientMessage::Request { want } => {
                self.at_its_pace(peer).and_then(|()| self.request(connection, peer, want))
            }
            ClientMessage::Change { grant, want } => {
                self.at_its_pace(peer).and_then(|()| self.change(connection, peer, grant, want))
            }
            ClientMessage::OpenChannel { channel } => {
                self.at_its_pace(peer).and_then(|()| self.open_channel(peer, channel))
            }
            ClientMessage::AttachChannel { grant, first } => {
                self.attach_channel(peer, grant, first, files)
            }
            ClientMessage::MappedChannel { grant } => self.mapped_channel(peer, grant),
            ClientMessage::ChangeChannel { grant, channel } => {
                self.at_its_pace(peer).and_then(|()| self.change_channel(peer, grant, channel))
            }
            ClientMessage::Channels { after } => {
                Ok(Answer::Channels(self.channels_status(peer, after)))
            }
            ClientMessage::Nice { thread, nice } => {
                self.at_its_pace(peer).and_then(|()| self.nice(connection, peer, thread, nice))
            }
            ClientMessage::Release { grant } => self.release(peer, grant),
            ClientMessage::Resume { grant, token } => self.resume(connection, peer, grant, token),
            ClientMessage::Status { after } => Ok(Answer::Status(self.status(peer, after))),
        };
        match outcome {
            Ok(answer) => answer,
            Err(Stop::Refused(refused)) => Answer::Refused(refused),
            Err(Stop::Channel(refused)) => Answer::ChannelRefused(refused),
            Err(Stop::Error(problem)) => Answer::Error { problem },
        }
    }

    fn request(&mut self, connection: u64, peer: &Rc<Peer>, raw: RawWant) -> Result<Answer, Stop> {
        let want = Want::try_from(raw.clone()).map_err(|why| Stop::Error(why.to_string()))?;
        let seen = self.thread_of(peer, &want)?;
        self.one_at_a_time(peer, &want)?;
        let token = Token::draw().map_err(|why| Stop::Error(format!("no random bytes: {why}")))?;
        let id = self.ledger.next_id().map_err(|why| Stop::Error(why.to_string()))?;
        let (requester, now) = (self.requester(peer.uid, &peer.gids), clock::now());
        self.has_room(connection, peer, &want)?;
        let cpu = self
            .admission
            .admit(id, &requester, &want.what, now)
            .map_err(|denied| self.denied(connection, peer, id, &want, denied))?;
        let limited = matches!(want.what.kind(), Kind::Upcalls | Kind::Priority);
        let record = Record {
            id,
            token,
            uid: peer.uid,
            gids: peer.gids.clone(),
            process: peer.process.id,
            thread_start: seen.start,
            want: raw,
            old_limits: limited.then(|| self.limits_before(peer)).flatten(),
            old_cpus: cpu.map(|_| thread::affinity_of(want.thread)),
            since: since_1970(),
            residual: false,
        };
        if let Err(why) = self.ledger.enter(&record) {
            self.admission.release(id, now);
            return Err(Stop::Error(why.to_string()));
        }
        let what = shorten(&want.what);
        let unwatched = |why| Stop::Error(format!("the process cannot be watched: {why}"));
        // Watch first, then put in force: if the broker ends in between, the guard knows of the
        // grant. Nothing is granted that is not watched. The thread is on its CPU before, so one
        // order to the guard is enough.
        let process = &peer.process;
        let kept = if let Err(why) = self.means.prepare(process, peer.uid, &want, &seen, cpu) {
            Err(self.not_given(connection, peer, &want, why))
        } else if !self.police(&record, &want, cpu) {
            Err(unwatched(rustix::io::Errno::PIPE))
        } else if let Err(why) = self
            .means
            .put_in_force(process, &want, &seen)
            .and_then(|()| self.hold_program(id, process, peer.uid, &want, cpu))
        {
            Err(self.not_given(connection, peer, &want, why))
        } else {
            self.hold(peer, record.clone(), want.clone(), cpu).map_err(unwatched)
        };
        if let Err(stop) = kept {
            // Undo what was done.
            self.guard.order(&guard::Order::Forget(id));
            if let Some(residual) = self.take_from(&peer.process, &record, &want) {
                self.remain(residual);
            } else {
                self.admission.release(id, now);
                if let Err(why) = self.ledger.strike(&[id]) {
                    warn!(%why, %id, "a grant that is not in force stays in the ledger");
                }
            }
            return Err(stop);
        }
        info!(%id, uid = peer.uid, pid = peer.process.id.pid, thread = want.thread.as_raw(), what, cpu, "granted");
        Ok(Answer::Granted { grant: id, token, cpu: self.kernel_cpu(cpu) })
    }

    fn change(
        &mut self,
        connection: u64,
        peer: &Rc<Peer>,
        id: GrantId,
        raw: RawWant,
    ) -> Result<Answer, Stop> {
        let want = Want::try_from(raw.clone()).map_err(|why| Stop::Error(why.to_string()))?;
        let live = self.own(peer, id)?;
        let (old_want, old_record, old_cpu) = (live.want.clone(), live.record.clone(), live.cpu);
        if want.thread != old_want.thread || want.what.kind() != old_want.what.kind() {
            return Err(Stop::Error(format!(
                "grant {id} is of kind {} and of thread {}, and both stay",
                old_want.what.kind(),
                old_want.thread
            )));
        }
        let (requester, now) = (self.requester(peer.uid, &peer.gids), clock::now());
        if self.over.keys().any(|other| *other != id) {
            self.has_room(connection, peer, &want)?;
        }
        let change = self
            .admission
            .change(id, &requester, &want.what, now)
            .map_err(|denied| self.denied(connection, peer, id, &want, denied))?;
        let cpu = change.cpu();
        let record = Record { want: raw, ..old_record.clone() };
        if let Err(why) = self.ledger.enter(&record) {
            self.admission.undo(change);
            return Err(Stop::Error(why.to_string()));
        }
        // A thread on its way from one CPU to another is on neither.
        self.police(&old_record, &old_want, None);
        let started = record.thread_start;
        if let Err(why) = self.put_in_force(id, &peer.process, peer.uid, &want, started, cpu) {
            self.admission.undo(change);
            if let Err(why) = self.ledger.enter(&old_record) {
                warn!(%why, %id, "the ledger has a change that is not in force");
            }
            let _ = self.put_in_force(id, &peer.process, peer.uid, &old_want, started, old_cpu);
            self.police(&old_record, &old_want, old_cpu);
            return Err(self.not_given(connection, peer, &want, why));
        }
        let (from, to) = (shorten(&old_want.what), shorten(&want.what));
        info!(%id, uid = peer.uid, from, to, "changed");
        let token = record.token;
        if let Some(live) = self.grants.get_mut(&id) {
            (live.want, live.record, live.cpu) = (want, record, cpu);
        }
        self.police_live(id);
        self.over.remove(&id);
        self.is_back(peer);
        self.tell_of_room();
        Ok(Answer::Granted { grant: id, token, cpu: self.kernel_cpu(cpu) })
    }

    fn release(&mut self, peer: &Rc<Peer>, id: GrantId) -> Result<Answer, Stop> {
        if self.release_channel(peer, id)? {
            return Ok(Answer::Released);
        }
        self.own(peer, id)?;
        self.end(id, "released");
        Ok(Answer::Released)
    }

    /// Sets the nice value of a thread without a grant, for a connection that represents its process.
    fn nice(
        &self,
        connection: u64,
        peer: &Rc<Peer>,
        thread: i32,
        nice: i32,
    ) -> Result<Answer, Stop> {
        let error = |why: &dyn ToString| Stop::Error(why.to_string());
        if !self.connections.get(&connection).is_some_and(|one| one.represents) {
            return Err(error(&"only a connection that names its holder may set nice values"));
        }
        let thread = Tid::from_raw(thread)
            .ok_or_else(|| error(&format!("{thread} is no thread's id: those are positive")))?;
        if self.records_of(peer.process.id).any(|record| record.want.thread() == thread.as_raw()) {
            return Err(error(&format!("thread {thread} has a grant: release it first")));
        }
        set_nice(&peer.process, peer.uid, thread, nice).map_err(|why| error(&why))?;
        info!(
            uid = peer.uid,
            pid = peer.process.id.pid,
            thread = thread.as_raw(),
            nice,
            "nice value set"
        );
        Ok(Answer::Niced)
    }

    /// Resumes a grant on another connection of its holder, or of another process of the same user
    /// that knows the token: then that connection speaks for the holder from here on. So a process
    /// that started a program under a grant of the program's own can go on after the broker was
    /// replaced.
    fn resume(
        &mut self,
        connection: u64,
        peer: &Rc<Peer>,
        id: GrantId,
        token: Token,
    ) -> Result<Answer, Stop> {
        if let Some(answer) = self.resume_channel(connection, peer, id, token) {
            return answer;
        }
        // The kernel states the user. A process of the same user that knows the secret has it from
        // the holder, or could have made the request in its place: it gains nothing.
        let of_user = self.grants.get(&id).filter(|live| live.record.uid == peer.uid);
        let Some(live) = of_user.filter(|live| live.record.token == token) else {
            return Err(Stop::Error(no_such(id)));
        };
        let (want, started, cpu) = (live.want.clone(), live.record.thread_start, live.cpu);
        let Some(held) = self.held.get(&live.record.process) else {
            return Err(Stop::Error(no_such(id)));
        };
        let holder = Rc::clone(&held.peer);
        // A broker that died between the kernel and the ledger may have left the grant half in
        // force.
        if let Err(why) = self.put_in_force(id, &holder.process, holder.uid, &want, started, cpu) {
            self.end(id, "not in force at its resumption");
            return Err(Stop::Error(why.to_string()));
        }
        self.speaks_for(connection, &holder);
        self.is_back(&holder);
        info!(%id, uid = peer.uid, pid = holder.process.id.pid, by = peer.process.id.pid, "resumed");
        Ok(Answer::Granted { grant: id, token, cpu: self.kernel_cpu(cpu) })
    }

    /// Returns the grant, if it is the peer's own. About other grants it reveals nothing, not even
    /// that they exist.
    fn own(&self, peer: &Peer, id: GrantId) -> Result<&super::Live, Stop> {
        self.grants
            .get(&id)
            .filter(|live| live.record.process == peer.process.id && live.record.uid == peer.uid)
            .ok_or_else(|| Stop::Error(no_such(id)))
    }

    /// Puts a grant in force, or puts it in force on other terms.
    pub(super) fn put_in_force(
        &mut self,
        id: GrantId,
        process: &Process,
        uid: u32,
        want: &Want,
        started: u64,
        cpu: Option<u32>,
    ) -> Result<(), GiveError> {
        self.means.give(process, uid, want, started, cpu)?;
        self.hold_program(id, process, uid, want, cpu)
    }

    /// Has the dispatcher hold a program, if `want` is for one.
    fn hold_program(
        &mut self,
        id: GrantId,
        process: &Process,
        uid: u32,
        want: &Want,
        cpu: Option<u32>,
    ) -> Result<(), GiveError> {
        let Guarantee::Program { reservation, enforcement } = want.what else { return Ok(()) };
        let no_cpu = || GiveError::NotHeld("its CPU is gone".into());
        let program = Program {
            grant: id,
            process: process.id,
            uid,
            budget: reservation.budget().as_nanos(),
            period: reservation.period().as_nanos(),
            hard: enforcement == Enforcement::Hard,
            cpu: self.kernel_cpu(cpu).ok_or_else(no_cpu)?,
        };
        let dispatcher = self.dispatcher.as_mut();
        let dispatcher = dispatcher.ok_or_else(|| GiveError::NotHeld(NO_DISPATCHER.into()))?;
        dispatcher.hold(program).map_err(GiveError::NotHeld)
    }

    /// Returns whether a peer may ask for programs to be held, and they can be here.
    fn may_hold_programs(&self, peer: &Peer) -> bool {
        let able = self.dispatcher.as_ref().is_some_and(|one| one.unable().is_none());
        let quota = self.requester(peer.uid, &peer.gids).quota.quota;
        able && quota.allow.contains(&Kind::Program)
    }

    fn thread_of(&self, peer: &Peer, want: &Want) -> Result<Thread, Stop> {
        let (thread, pid) = (want.thread, peer.process.id.pid);
        if want.what.kind() == Kind::Program && thread.as_raw() != pid {
            return Err(Stop::Error(GiveError::NoProcess { thread }.to_string()));
        }
        let not_yours = || Stop::Error(GiveError::NotYours { thread, pid }.to_string());
        peer.process.thread(thread).ok_or_else(not_yours)
    }

    fn one_at_a_time(&self, peer: &Peer, want: &Want) -> Result<(), Stop> {
        let Some(held) = self.held.get(&peer.process.id) else { return Ok(()) };
        for id in &held.grants {
            let Some(other) = self.grants.get(id) else { continue };
            let upcalls = |want: &Want| want.what.kind() == Kind::Upcalls;
            let program = |want: &Want| want.what.kind() == Kind::Program;
            let same_limit = self.means.order == UpcallOrder::LevelOrder
                && upcalls(want)
                && upcalls(&other.want);
            // A program is all threads of the process.
            let whole = program(want) || program(&other.want);
            if other.want.thread == want.thread || same_limit || whole {
                return Err(Stop::Error(format!(
                    "grant {id} stands in the way: change or release it"
                )));
            }
        }
        Ok(())
    }

    /// Returns the limits of the process before its first grant: its present ones may be the
    /// broker's.
    fn limits_before(&self, peer: &Peer) -> Option<crate::ledger::OldLimits> {
        let before = self.records_of(peer.process.id).find_map(|record| record.old_limits);
        before.or_else(|| self.means.old_limits(&peer.process))
    }

    pub(super) fn kernel_cpu(&self, cpu: Option<u32>) -> Option<u32> {
        let number = *self.means.cpus.get(cpu? as usize)?;
        u32::try_from(number).ok()
    }
}

/// Why no program is held by a broker without a dispatcher.
const NO_DISPATCHER: &str = "this broker was started without a dispatcher, because nobody was allowed \
                             \"programs\", or because of upcalls = \"level-order\"; start it again";

fn no_such(id: GrantId) -> String {
    format!("this process has no grant {id}")
}
