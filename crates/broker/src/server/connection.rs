//! One client: what it sends in, what waits to be sent out.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use punctual_linux::clock;
use punctual_model::Instant;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use tracing::{debug, info, warn};

use super::refusals::shorten;
use super::{Server, Source};
use crate::grant::GrantId;
use crate::kernel::peer::Peer;
use crate::ledger::ProcessId;
use crate::wire::{
    Answer, Ask, Envelope, Event, ReceiveError, Received, Said, Socket, VERSION, parse_ask,
    to_bytes,
};

/// Messages that wait for a client to read; one more and it is cut off.
const MOST_WAITING: usize = 64;

/// Connections accepted before others have their turn.
const ACCEPTED_AT_A_TURN: usize = 32;

#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    /// For whom it speaks: who connected it, or whose grant it resumed.
    pub(super) peer: Rc<Peer>,
    source: u64,
    greeted: bool,
    out: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// When a request of it was last refused for want of room.
    pub(super) refused: Option<Instant>,
}

impl Connection {
    /// Whether it speaks for a process, and understands what it is told.
    pub(super) fn speaks_of(&self, process: ProcessId) -> bool {
        self.greeted && self.peer.process.id == process
    }
}

impl Server {
    pub(super) fn accept_some(&mut self) {
        for _ in 0..ACCEPTED_AT_A_TURN {
            match self.listener.accept() {
                Ok(None) => return,
                Ok(Some(socket)) => self.admit_connection(socket),
                Err(Errno::MFILE | Errno::NFILE) => {
                    // Otherwise the client would wait, and we would be woken for it for ever.
                    drop(self.spare.take());
                    if let Ok(Some(socket)) = self.listener.accept() {
                        warn!("no descriptors are left; a client was turned away");
                        turn_away(&socket, "the broker has no descriptors left; try again later");
                    }
                    self.spare = rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0).ok();
                    return;
                }
                Err(why) => {
                    warn!(%why, "accept(2) failed");
                    return;
                }
            }
        }
    }

    fn admit_connection(&mut self, socket: Socket) {
        let peer = match Peer::of(&socket) {
            Ok(peer) => Rc::new(peer),
            Err(why) => {
                turn_away(&socket, &why.to_string());
                return debug!(%why, "a client without identity");
            }
        };
        let most = self.config.max_connections as usize;
        let has = self.connections.values().filter(|other| other.peer.uid == peer.uid).count();
        // Root is let in to look, whatever happens.
        if has >= most && peer.uid != 0 {
            let why = format!("this user has {has} connections, and {most} is the most");
            return turn_away(&socket, &why);
        }
        let id = self.next_source;
        match self.watch(&socket, Source::Connection(id)) {
            Err(why) => warn!(%why, "a client cannot be watched"),
            Ok(source) => {
                let connection = Connection {
                    socket,
                    peer,
                    source,
                    greeted: false,
                    out: VecDeque::new(),
                    refused: None,
                };
                self.connections.insert(id, connection);
            }
        }
    }

    /// The client's turn: what it may send now is sent, what it said is done.
    pub(super) fn turn(&mut self, id: u64, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.flush(id);
        }
        // A client that does not take its answers is not asked for more questions.
        let Some(connection) = self.connections.get(&id).filter(|one| one.out.is_empty()) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        // One message, then the others have their turn: the next wait says that there is more.
        match connection.socket.peek(&mut buffer) {
            Ok(Received::Message(length)) => match parse_ask(&buffer[..length]) {
                Ok(envelope) => match self.take(id, &mut buffer) {
                    Ok(()) => self.said(id, envelope),
                    Err(why) => self.give_up(id, envelope.id, &why.to_string()),
                },
                Err(why) => self.not_understood(id, &format!("not understood: {}", shorten(&why))),
            },
            Ok(Received::Nothing) => {}
            Ok(Received::Closed) => self.close(id),
            Err(why) => self.not_understood(id, &why.to_string()),
        }
        self.buffer = buffer;
    }

    /// Says why, and closes. The message is taken first: a socket that is closed with something in it
    /// takes its last words back (unix(7)).
    fn not_understood(&mut self, id: u64, why: &str) {
        if let Some(connection) = self.connections.get(&id) {
            let _ = connection.socket.receive(&mut [0; 1], false);
        }
        self.give_up(id, 0, why);
    }

    /// Takes the message that was looked at. Files that come with it are not received: the kernel drops them.
    fn take(&mut self, id: u64, buffer: &mut [u8]) -> Result<(), ReceiveError> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        connection.socket.receive(buffer, false)?;
        Ok(())
    }

    fn said(&mut self, id: u64, envelope: Envelope) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match &envelope.ask {
            Ask::Hello { version: VERSION } => connection.greeted = true,
            Ask::Hello { version } => {
                let why = format!("this broker speaks version {VERSION}, not {version}");
                return self.give_up(id, envelope.id, &why);
            }
            _ if !connection.greeted => {
                return self.give_up(
                    id,
                    envelope.id,
                    "the first message is {\"hello\":{\"version\":1}}",
                );
            }
            _ => {}
        }
        let peer = Rc::clone(&connection.peer);
        let mut files = Vec::new();
        let answer = self.answer(id, &peer, envelope.ask, &mut files);
        self.say_with(id, &Said::Answer { id: envelope.id, answer }, files);
    }

    /// Says why, and closes.
    fn give_up(&mut self, id: u64, of: u32, why: &str) {
        if let Some(connection) = self.connections.get(&id) {
            info!(
                uid = connection.peer.uid,
                pid = connection.peer.process.id.pid,
                why,
                "client cut off"
            );
        }
        self.say(id, &Said::Answer { id: of, answer: Answer::Error { problem: why.into() } });
        self.close(id);
    }

    pub(super) fn say(&mut self, id: u64, said: &Said) {
        self.say_with(id, said, Vec::new());
    }

    /// The same with open files.
    fn say_with(&mut self, id: u64, said: &Said, files: Vec<OwnedFd>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(bytes) = to_bytes(said) else {
            return self.close(id);
        };
        if connection.out.is_empty() {
            match connection.socket.send_whole(&bytes, &files) {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => return self.close(id),
            }
        }
        if connection.out.len() >= MOST_WAITING {
            info!(uid = connection.peer.uid, "client does not read: cut off");
            return self.close(id);
        }
        connection.out.push_back((bytes, files));
        self.want(id, EventFlags::OUT);
    }

    /// Tells every connection of the process that holds a grant.
    pub(super) fn tell(&mut self, grant: GrantId, event: &Event) {
        let Some(live) = self.grants.get(&grant) else { return };
        let process = live.record.process;
        let of = self
            .connections
            .iter()
            .filter(|(_, one)| one.peer.process.id == process && one.greeted);
        let ids: Vec<u64> = of.map(|(id, _)| *id).collect();
        for id in ids {
            self.say(id, &Said::Event { grant: Some(grant), event: event.clone() });
        }
    }

    /// From here on what comes on a connection counts as said by `holder`, whose events it gets.
    pub(super) fn speaks_for(&mut self, id: u64, holder: &Rc<Peer>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.peer, Rc::clone(holder));
        self.is_lonely(before.process.id);
    }

    /// Notes since when no connection speaks for a process, if none does.
    fn is_lonely(&mut self, process: ProcessId) {
        let connected = self.connections.values().any(|other| other.peer.process.id == process);
        if let (false, Some(held)) = (connected, self.held.get_mut(&process)) {
            held.lonely_since = Some(clock::now());
        }
    }

    fn flush(&mut self, id: u64) {
        while let Some(connection) = self.connections.get_mut(&id) {
            let Some((bytes, files)) = connection.out.front() else {
                return self.want(id, EventFlags::IN);
            };
            match connection.socket.send_whole(bytes, files) {
                Ok(true) => _ = connection.out.pop_front(),
                Ok(false) => return,
                Err(_) => self.close(id),
            }
        }
    }

    fn want(&mut self, id: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get(&id) else { return };
        let data = EventData::new_u64(connection.source);
        if epoll::modify(&self.epoll, &connection.socket, data, flags).is_err() {
            self.close(id);
        }
    }

    pub(super) fn close(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.unwatch(&connection.socket, connection.source);
        self.is_lonely(connection.peer.process.id);
    }
}

fn turn_away(socket: &Socket, why: &str) {
    let said = Said::Answer { id: 0, answer: Answer::Error { problem: why.into() } };
    // Whoever does not get it sees the connection end.
    let _ = to_bytes(&said).map(|bytes| socket.send(&bytes));
}
