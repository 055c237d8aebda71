//! One client's connection, as the front reports it: its requests, and the messages to it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use punctual_linux::clock;
use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::{debug, info};

use super::refusals::shorten;
use super::{Connection, FRONT, ServeError, Server};
use crate::front::{FromFront, ToFront};
use crate::kernel::peer::{Peer, Process};
use crate::ledger::ProcessId;
use crate::link::LinkError;
use punctual_client::grant::GrantId;
use punctual_client::wire::{
    Answer, BrokerMessage, ClientMessage, Event, Holder, VERSION, parse_ask, to_bytes,
};

/// The most messages of the front that are handled before other events.
const AT_A_TURN: usize = 64;

impl Server {
    /// Handles the front's messages.
    pub(super) fn front_news(&mut self, flags: EventFlags) -> Result<(), ServeError> {
        if flags.contains(EventFlags::OUT) {
            self.front.flush()?;
            self.listen_to_front();
        }
        for _ in 0..AT_A_TURN {
            let Some(news) = self.front.news()? else { break };
            match news {
                FromFront::Met { connection, process, uid, gids } => {
                    self.met(connection, process, uid, gids);
                }
                FromFront::BrokerMessage { connection, message } => self.said(connection, &message),
                FromFront::Left { connection } => self.left(connection),
            }
            // Between any two messages, so that no crowd of clients delays it by more than one.
            self.tick_if_due();
        }
        match self.front_lost.take() {
            Some(why) => Err(why.into()),
            None => Ok(()),
        }
    }

    fn met(&mut self, id: u64, process: ProcessId, uid: u32, gids: Vec<u32>) {
        // It may have ended meanwhile; then the front reports that it left.
        let Some(process) = Process::find(process) else {
            debug!(uid, "a client that has ended");
            return self.tell_front(ToFront::Close { connection: id }, Vec::new());
        };
        let peer = Rc::new(Peer { process, uid, gids });
        self.connections
            .insert(id, Connection { peer, greeted: false, represents: false, refused: None });
    }

    fn said(&mut self, id: u64, message: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let envelope = match parse_ask(message) {
            Ok(envelope) => envelope,
            Err(why) => {
                return self.give_up(id, 0, &format!("not understood: {}", shorten(&why)));
            }
        };
        let greeted = match &envelope.ask {
            ClientMessage::Hello { version: VERSION, holder: None } => {
                connection.greeted = true;
                Ok(())
            }
            ClientMessage::Hello { version: VERSION, holder: Some(holder) } => {
                self.represent(id, *holder)
            }
            ClientMessage::Hello { version, .. } => {
                Err(format!("this broker speaks version {VERSION}, not {version}"))
            }
            _ if connection.greeted => Ok(()),
            _ => Err("the first message is {\"hello\":{\"version\":1}}".into()),
        };
        if let Err(why) = greeted {
            return self.give_up(id, envelope.id, &why);
        }
        let Some(connection) = self.connections.get(&id) else { return };
        let peer = Rc::clone(&connection.peer);
        let mut files = Vec::new();
        let answer = self.answer(id, &peer, envelope.ask, &mut files);
        self.reply(id, envelope.id, answer, files);
    }

    /// Makes a connection of root, or of the broker's own user, ask for `holder` from here on. That
    /// user's front states the identity of every other client, so it gains nothing by this.
    fn represent(&mut self, id: u64, holder: Holder) -> Result<(), String> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (uid, ours) = (connection.peer.uid, rustix::process::geteuid().as_raw());
        if connection.greeted {
            return Err("a connection names its holder in its first message".into());
        }
        if uid != 0 && uid != ours {
            return Err(format!(
                "user {uid} asks for process {}, and only root and the broker's user {ours} may ask \
                 for other processes: connect from that process itself",
                holder.pid
            ));
        }
        let peer = Peer::find(ProcessId { pid: holder.pid, start: holder.start });
        let peer = peer.map_err(|why| format!("process {}: {why}", holder.pid))?;
        self.speaks_for(id, &Rc::new(peer));
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.greeted, connection.represents) = (true, true);
        }
        Ok(())
    }

    /// Answers a request on a connection, which may then send the next one.
    fn reply(&mut self, id: u64, of: u32, answer: Answer, files: Vec<OwnedFd>) {
        self.tell(id, &BrokerMessage::Answer { id: of, answer }, true, files);
    }

    /// Sends the reason, and closes.
    fn give_up(&mut self, id: u64, of: u32, why: &str) {
        if let Some(connection) = self.connections.get(&id) {
            let uid = self.persons.of(connection.peer.uid);
            info!(uid, pid = connection.peer.process.id.pid, why, "client cut off");
        }
        self.reply(id, of, Answer::Error { problem: why.into() }, Vec::new());
        self.tell_front(ToFront::Close { connection: id }, Vec::new());
        self.left(id);
    }

    /// Sends a message that is no answer.
    pub(super) fn say(&mut self, id: u64, said: &BrokerMessage) {
        self.tell(id, said, false, Vec::new());
    }

    fn tell(
        &mut self,
        connection: u64,
        said: &BrokerMessage,
        is_answer: bool,
        files: Vec<OwnedFd>,
    ) {
        match to_bytes(said) {
            Some(message) => {
                self.tell_front(ToFront::Say { connection, message, is_answer }, files);
            }
            None => self.tell_front(ToFront::Close { connection }, Vec::new()),
        }
    }

    /// Sends a message to the front. The loss of the front is noticed when its messages are read.
    pub(super) fn tell_front(&mut self, message: ToFront, files: Vec<OwnedFd>) {
        if self.front_lost.is_none()
            && let Err(why) = self.front.tell(message, files)
        {
            self.front_lost = Some(why);
        }
        self.listen_to_front();
    }

    /// Waits for messages of the front, and for room if messages wait for it.
    fn listen_to_front(&mut self) {
        let waits = self.front.has_more() || self.front_lost.is_some();
        if std::mem::replace(&mut self.front_waits, waits) != waits {
            let room = if waits { EventFlags::OUT } else { EventFlags::empty() };
            let data = EventData::new_u64(FRONT);
            let watched = epoll::modify(&self.epoll, &self.front, data, EventFlags::IN | room);
            if let Err(errno) = watched {
                self.front_lost = Some(LinkError::Failed(errno));
            }
        }
    }

    /// Sends an event to every connection of the process that holds a grant.
    pub(super) fn tell_holder(&mut self, grant: GrantId, event: &Event) {
        let Some(live) = self.grants.get(&grant) else { return };
        let said = BrokerMessage::Event { grant: Some(grant), event: event.clone() };
        self.tell_process(live.record.process, &said);
    }

    /// Sends a message to every connection of a process.
    pub(super) fn tell_process(&mut self, process: ProcessId, said: &BrokerMessage) {
        let of = self.connections.iter().filter(|(_, one)| one.speaks_of(process));
        let ids: Vec<u64> = of.map(|(id, _)| *id).collect();
        for id in ids {
            self.say(id, said);
        }
    }

    /// Makes a connection speak for `holder`: its messages count as the holder's, and it gets the
    /// holder's events.
    pub(super) fn speaks_for(&mut self, id: u64, holder: &Rc<Peer>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.peer, Rc::clone(holder));
        self.note_disconnection(before.process.id);
    }

    /// Notes the time at which a process lost its last connection, if it has none.
    fn note_disconnection(&mut self, process: ProcessId) {
        let connected = self.connections.values().any(|other| other.peer.process.id == process);
        if let (false, Some(held)) = (connected, self.held.get_mut(&process)) {
            held.disconnected_since = Some(clock::now());
        }
    }

    /// Handles the end of a connection.
    fn left(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.note_disconnection(connection.peer.process.id);
    }
}
