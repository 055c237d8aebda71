//! The door: accepts connections and hands each to the thread of its person.
//!
//! It is the one thread of the front on which all persons depend, so it never closes anything into
//! which a client may have put a file.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::{clock, pass};
use punctual_model::Duration;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recvmsg, shutdown};
use tracing::warn;

use super::person;
use super::shared::{Person, Shared, Task, lock, spawn};
use punctual_client::wire::{Listener, Socket};

/// Connections of a person that wait for its thread. Beyond that, a connection is closed at once if
/// it can be.
const MOST_WAITING: usize = 256;

/// Accepts connections until the process ends.
pub(super) fn keep(shared: &Arc<Shared>, listener: &OwnedFd) {
    // From Linux 6.16 on the kernel refuses files before they reach a queue of ours; before, the
    // call returns `false` and changes nothing.
    let _refuses = pass::refuse_files(listener);
    let mut door = Door::new(listener);
    let mut next = 0;
    loop {
        match door.next() {
            Some(Accepted::ToServe(socket)) => {
                next += 1;
                hand_over(shared, next, socket);
            }
            Some(Accepted::ToTurnAway(socket)) => {
                person::say_why(&socket, "the broker has no descriptors left; try again later");
                leave(shared, socket);
            }
            None => {}
        }
    }
}

/// The pause after a failure of accept(2), which would fail again at once for as long as a client
/// waits.
const PAUSE: Duration = Duration::from_millis(20);

/// A listening socket.
struct Door<'a> {
    listener: &'a OwnedFd,
    /// A spare descriptor, given up to turn a client away when no other is left.
    spare: Option<OwnedFd>,
    /// The failure that was logged last.
    failing: Option<Errno>,
}

/// An accepted connection.
#[derive(Debug)]
enum Accepted {
    ToServe(Socket),
    /// The connection has the last descriptor, and is to be closed at once.
    ToTurnAway(Socket),
}

impl<'a> Door<'a> {
    fn new(listener: &'a OwnedFd) -> Self {
        let spare = rustix::io::fcntl_dupfd_cloexec(listener, 0).ok();
        Self { listener, spare, failing: None }
    }

    /// Waits for a connection, or for a failure to pass.
    fn next(&mut self) -> Option<Accepted> {
        if self.spare.is_none() {
            self.spare = rustix::io::fcntl_dupfd_cloexec(self.listener, 0).ok();
        }
        // Ignore errors: accept(2) says more.
        let _ = poll(&mut [PollFd::new(self.listener, PollFlags::IN)], None);
        let why = match Listener::accept_from(self.listener) {
            Ok(socket) => {
                self.failing = None;
                return socket.map(Accepted::ToServe);
            }
            Err(why) => why,
        };
        if self.failing != Some(why) {
            warn!(%why, "accept(2) failed; clients are turned away or wait until it succeeds");
            self.failing = Some(why);
        }
        // Otherwise the client would wait, and wake this thread over and over.
        if matches!(why, Errno::MFILE | Errno::NFILE)
            && self.spare.take().is_some()
            && let Ok(Some(socket)) = Listener::accept_from(self.listener)
        {
            return Some(Accepted::ToTurnAway(socket));
        }
        clock::sleep(PAUSE);
        None
    }
}

fn hand_over(shared: &Arc<Shared>, connection: u64, socket: Socket) {
    let Some(uid) = uid_of(&socket) else { return leave(shared, socket) };
    let id = shared.person_of(uid);
    let Some(person) = thread_of(shared, id) else {
        person::say_why(&socket, "the broker cannot make a thread for you; try again later");
        return leave(shared, socket);
    };
    let most = shared.max_connections.load(Ordering::Relaxed) as usize;
    let inside = person.connections.load(Ordering::Acquire);
    // Root is always let in to look, and the broker's own user to ask for others.
    if inside < most || uid == 0 || uid == rustix::process::geteuid().as_raw() {
        person.connections.fetch_add(1, Ordering::AcqRel);
        lock(&shared.connections).insert(connection, Arc::clone(&person));
        return person.tell(Task::Serve { connection, socket });
    }
    let why = format!("this user has {inside} connections, and {most} is the most");
    if person.waiting() < MOST_WAITING {
        return person.tell(Task::TurnAway { socket, why });
    }
    person::say_why(&socket, &why);
    match close_at_once(socket) {
        Ok(()) => {}
        // A socket whose close may block is closed by its person's thread.
        Err(socket) => person.tell(Task::CloseSocket { socket }),
    }
}

fn uid_of(socket: &Socket) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(socket).ok().map(|peer| peer.uid.as_raw())
}

/// Returns the thread of a person, and makes one if there is none.
fn thread_of(shared: &Arc<Shared>, id: u32) -> Option<Arc<Person>> {
    let mut threads = lock(&shared.threads);
    if let Some(person) = threads.get(&id) {
        return Some(Arc::clone(person));
    }
    let person = Arc::new(Person::new().ok()?);
    let (own, all) = (Arc::clone(&person), Arc::clone(shared));
    spawn("person", move || person::serve(&all, &own, Some(id))).ok()?;
    threads.insert(id, Arc::clone(&person));
    Some(person)
}

/// Closes a socket whose person has no thread.
fn leave(shared: &Shared, socket: Socket) {
    if let Err(socket) = close_at_once(socket) {
        shared.closer.tell(Task::CloseSocket { socket });
    }
}

/// Closes a socket if nothing in it holds a file; else gives it back.
fn close_at_once(socket: Socket) -> Result<(), Socket> {
    // Nothing more comes in from here on. The credentials distinguish each message, also one
    // without bytes, from the end (unix(7)).
    let is_frozen = shutdown(&socket, Shutdown::Both).is_ok();
    if !is_frozen || set_socket_passcred(&socket, true).is_err() {
        return Err(socket);
    }
    loop {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1))];
        let mut credentials = RecvAncillaryBuffer::new(&mut space);
        let (mut byte, flags) = ([0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut credentials, flags) {
            // There was no room for files.
            Ok(message) if message.flags.contains(ReturnFlags::CTRUNC) => return Err(socket),
            Ok(_) if credentials.drain().next().is_none() => return Ok(()),
            Ok(_) => _ = socket.receive(&mut [0; 1], false),
            Err(Errno::INTR) => {}
            Err(_) => return Err(socket),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Socket, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("sockets");
        (Socket::of(ours), theirs)
    }

    /// Uses a socket that does not listen and has no other end: accept(2) fails, and poll(2) says
    /// that it is ready.
    #[test]
    fn a_repeated_failure_is_retried_with_pauses() {
        let (ours, socket) = pair();
        drop(ours);
        let mut door = Door::new(&socket);
        let begun = clock::now();
        for _ in 0..5 {
            assert!(door.next().is_none());
            assert!(door.failing.is_some());
        }
        assert!(clock::now().saturating_since(begun) >= PAUSE * 5);
    }

    #[test]
    fn only_a_socket_without_files_is_closed_at_once() {
        let (empty, _theirs) = pair();
        assert!(close_at_once(empty).is_ok());
        let (words, theirs) = pair();
        for _ in 0..3 {
            rustix::net::send(&theirs, b"words", rustix::net::SendFlags::NOSIGNAL).expect("room");
        }
        assert!(close_at_once(words).is_ok());
        let (file, theirs) = pair();
        rustix::net::send(&theirs, b"words", rustix::net::SendFlags::NOSIGNAL).expect("room");
        let null = std::fs::File::open("/dev/null").expect("there");
        pass::send(&theirs, b"file", &[null.as_fd()]).expect("room");
        assert!(close_at_once(file).is_err());
        // The file is behind a message without bytes, which is not the end.
        let (file, theirs) = pair();
        rustix::net::send(&theirs, b"", rustix::net::SendFlags::NOSIGNAL).expect("room");
        pass::send(&theirs, b"file", &[null.as_fd()]).expect("room");
        assert!(close_at_once(file).is_err());
    }
}
