//! The thread of a person: it serves all connections of that person, and no other connections.
//!
//! If a client makes it block, it blocks here: other persons have threads of their own.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{Shutdown, shutdown};
use tracing::{debug, info};

use super::shared::{FromFront, Person, Shared, Task, lock};
use crate::kernel::peer::{Peer, PeerError};
use punctual_client::wire::{Answer, BrokerMessage, MAX_MESSAGE, Received, Socket, to_bytes};

/// The most messages that wait for a client to read them; one more and it is cut off.
const MOST_WAITING: usize = 64;

/// The time that a thread without connections stays for the next one.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Events of one wait.
const BATCH: usize = 64;

/// A connection that was let in.
struct Client {
    socket: Socket,
    uid: u32,
    out: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// Whether the broker owes the client an answer.
    asked: bool,
    /// Whether the connection ends once the client has taken its messages.
    ends: bool,
}

/// The state of a person's thread.
struct Serving<'a> {
    shared: &'a Shared,
    person: &'a Person,
    clients: BTreeMap<u64, Client>,
    buffer: Vec<u8>,
}

/// Serves the connections of a person until there have been none for a while; for ever if there is
/// no id.
pub(super) fn serve(shared: &Shared, person: &Arc<Person>, id: Option<u32>) {
    let buffer = vec![0; MAX_MESSAGE];
    let mut serving = Serving { shared, person, clients: BTreeMap::new(), buffer };
    let mut events = Vec::with_capacity(BATCH);
    loop {
        events.clear();
        let patience = serving.clients.is_empty().then_some(&IDLE);
        let room = rustix::buffer::spare_capacity(&mut events);
        let idle = matches!(epoll::wait(&person.epoll, room, patience), Ok(0));
        if idle && let Some(id) = id {
            let mut threads = lock(&shared.threads);
            // The map has one reference and this thread has one; a third belongs to a thread about
            // to send it a task.
            if Arc::strong_count(person) == 2 && person.waiting() == 0 {
                threads.remove(&id);
                return;
            }
        }
        for event in events.drain(..) {
            match event.data.u64() {
                0 => serving.do_tasks(),
                connection => serving.turn(connection, event.flags),
            }
        }
    }
}

impl Serving<'_> {
    fn do_tasks(&mut self) {
        let _ = rustix::io::read(&self.person.wake, &mut [0; 8]);
        loop {
            // Take one task at a time, so that `waiting` counts all tasks not begun.
            let Some(task) = lock(&self.person.tasks).pop_front() else { return };
            match task {
                Task::Serve { connection, socket } => self.begin(connection, socket),
                Task::TurnAway { socket, why } => turn_away(socket, &why),
                Task::CloseSocket { socket } => drop(socket),
                Task::Say { connection, message, files, is_answer } => {
                    self.say(connection, message, files, is_answer);
                }
                Task::Close { connection } => {
                    if let Some(client) = self.clients.get_mut(&connection) {
                        client.ends = true;
                        self.flush(connection);
                    }
                }
            }
        }
    }

    fn begin(&mut self, connection: u64, socket: Socket) {
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        let watched =
            epoll::add(&self.person.epoll, &socket, EventData::new_u64(connection), flags);
        let refused = match (watched, Peer::of(&socket)) {
            (Ok(()), Ok(peer)) => {
                let Peer { process, uid, gids } = peer;
                self.shared.tell(&FromFront::Met { connection, process: process.id, uid, gids });
                let (out, asked, ends) = (VecDeque::new(), false, false);
                self.clients.insert(connection, Client { socket, uid, out, asked, ends });
                return;
            }
            (Err(why), _) => PeerError::from(why),
            (_, Err(why)) => why,
        };
        debug!(why = %refused, "a client without identity");
        lock(&self.shared.connections).remove(&connection);
        self.person.connections.fetch_sub(1, Ordering::AcqRel);
        turn_away(socket, &refused.to_string());
    }

    fn turn(&mut self, connection: u64, flags: EventFlags) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        if !client.out.is_empty() {
            return self.flush(connection);
        }
        if client.asked || !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        match client.socket.receive(&mut self.buffer, false) {
            Ok(Received::Message(length)) => {
                client.asked = true;
                let message = self.buffer[..length].to_vec();
                self.shared.tell(&FromFront::BrokerMessage { connection, message });
            }
            Ok(Received::Nothing) => self.listen(connection),
            Ok(Received::Closed) => self.close(connection),
            Err(why) => {
                say_why(&client.socket, &why.to_string());
                self.close(connection);
            }
        }
    }

    fn say(&mut self, connection: u64, message: Vec<u8>, files: Vec<OwnedFd>, is_answer: bool) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.asked &= !is_answer;
        if client.out.len() >= MOST_WAITING {
            info!(uid = client.uid, "client does not read: cut off");
            return self.close(connection);
        }
        client.out.push_back((message, files));
        self.flush(connection);
    }

    /// Sends queued messages, as far as the client has room, and listens again when all are sent.
    fn flush(&mut self, connection: u64) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        while let Some((message, files)) = client.out.front() {
            match client.socket.send_whole(message, files) {
                Ok(true) => _ = client.out.pop_front(),
                Ok(false) => return self.want(connection, EventFlags::OUT),
                Err(_) => return self.close(connection),
            }
        }
        if client.ends {
            self.close(connection);
        } else if !client.asked {
            self.listen(connection);
        }
    }

    fn listen(&mut self, connection: u64) {
        self.want(connection, EventFlags::IN);
    }

    /// Waits for one of these events, once.
    fn want(&mut self, connection: u64, flags: EventFlags) {
        let Some(client) = self.clients.get(&connection) else { return };
        let data = EventData::new_u64(connection);
        let watched =
            epoll::modify(&self.person.epoll, &client.socket, data, flags | EventFlags::ONESHOT);
        if watched.is_err() {
            self.close(connection);
        }
    }

    /// Ends a connection. Reports that to the broker first: closing may take as long as the client
    /// likes.
    fn close(&mut self, connection: u64) {
        let Some(client) = self.clients.remove(&connection) else { return };
        lock(&self.shared.connections).remove(&connection);
        self.shared.tell(&FromFront::Left { connection });
        let _ = epoll::delete(&self.person.epoll, &client.socket);
        hang_up(client.socket);
        // Only now: a connection that is being closed still counts as the person's.
        self.person.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

fn turn_away(socket: Socket, why: &str) {
    say_why(&socket, why);
    hang_up(socket);
}

/// Closes a connection so that the client can still read the last messages: closing it with an
/// unread message in it would discard them (unix(7)).
fn hang_up(socket: Socket) {
    let _ = shutdown(&socket, Shutdown::Read);
    while let Ok(Received::Message(_)) | Err(punctual_client::wire::ReceiveError::TooLong { .. }) =
        socket.receive(&mut [0; 1], false)
    {}
}

/// Tells a client why it is turned away. A client that does not get the message sees the connection
/// end.
pub(super) fn say_why(socket: &Socket, why: &str) {
    let said = BrokerMessage::Answer { id: 0, answer: Answer::Error { problem: why.into() } };
    let _ = to_bytes(&said).map(|bytes| socket.send(&bytes));
}
