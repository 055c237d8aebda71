//! A child that connects a socket before it executes the program, so that the listener takes the
//! child, and not us, for its client (SO_PEERCRED, unix(7)).
//!
//! We keep the socket and the child inherits it; when the child connects it, our descriptor is
//! connected, too. So we can send requests on the child's behalf, and read the answers, while it
//! runs a program that knows nothing of this.
#![allow(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};

use crate::thread::Tid;

/// The message that lets the child execute the program.
const GO: u8 = 1;

/// The parent's end of a child that waits between fork and exec. If it is dropped without
/// [`Self::let_go`], the child ends, and `spawn` fails with ECANCELED.
#[derive(Debug)]
pub struct Introduced {
    child: UnixStream,
    answered: bool,
}

impl Introduced {
    /// Waits until the child has connected, and returns its first and only thread. Returns `None`
    /// if there will be no child: it was not made, and the command was dropped.
    ///
    /// `spawn` returns only after [`Self::let_go`], so another thread than the one that spawns must
    /// call this.
    ///
    /// # Errors
    /// The error of connect(2) in the child.
    pub fn connected(&mut self) -> io::Result<Option<Tid>> {
        let mut word = [0; 8];
        match self.child.read_exact(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [a, b, c, d, rest @ ..] = word;
        match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(Tid::from_raw(i32::from_ne_bytes(rest))),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Lets the child execute the program.
    ///
    /// # Errors
    /// If the child has ended.
    pub fn let_go(mut self) -> io::Result<()> {
        self.answered = true;
        self.child.write_all(&[GO])
    }
}

impl Drop for Introduced {
    fn drop(&mut self) {
        if !self.answered {
            // Closing our end would not do: the child holds a copy of it until it executes the
            // program.
            let _ = self.child.write_all(&[0]);
        }
    }
}

/// Makes the child connect `socket` to `path`, report that, and execute the program when it is let
/// go.
///
/// `command` is good for one `spawn`, and must be dropped after it: until then
/// [`Introduced::connected`] cannot know that there is no child. Give `socket` a time-out for
/// sending (SO_SNDTIMEO); otherwise a listener that never accepts keeps the child waiting for ever.
///
/// # Errors
/// If the path is too long for a socket, or there are no descriptors.
pub fn introduce_on_exec(
    command: &mut Command,
    socket: impl AsFd,
    path: &Path,
) -> io::Result<Introduced> {
    let address = SocketAddrUnix::new(path)?;
    // `try_clone_to_owned` and `pair` set close-on-exec: the program never sees these descriptors.
    let socket = socket.as_fd().try_clone_to_owned()?;
    let (child, parent) = UnixStream::pair()?;
    let in_child = move || {
        let connected = connect(&socket, &address);
        let errno = connected.err().map_or(0, Errno::raw_os_error);
        let mut word = [0; 8];
        word[..4].copy_from_slice(&errno.to_ne_bytes());
        word[4..].copy_from_slice(&crate::thread::current().as_raw().to_ne_bytes());
        (&parent).write_all(&word)?;
        connected?;
        let mut answer = [0];
        (&parent).read_exact(&mut answer)?;
        if answer == [GO] { Ok(()) } else { Err(Errno::CANCELED.into()) }
    };
    // SAFETY: `in_child` makes four system calls (connect, gettid, write, read) and allocates
    // nothing; neither does an error made from an errno or from an early end of file.
    unsafe { command.pre_exec(in_child) };
    Ok(Introduced { child, answered: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    fn socket() -> OwnedFd {
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a socket")
    }

    #[test]
    fn the_listener_sees_the_child_and_we_speak_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("ours");
        let socket = socket();
        let mut command = Command::new("true");
        let mut introduced = introduce_on_exec(&mut command, &socket, &path).expect("prepared");
        let asking = std::thread::spawn(move || {
            let child = introduced.connected().expect("it connects").expect("there is one");
            introduced.let_go().expect("it waits");
            child
        });
        let mut spawned = command.spawn().expect("true is there");
        let pid = i32::try_from(spawned.id()).expect("positive");
        assert_eq!(asking.join().expect("no panic").as_raw(), pid);
        assert!(spawned.wait().expect("our child").success());
        let (mut heard, _) = listener.accept().expect("it connected");
        let peer = rustix::net::sockopt::socket_peercred(&heard).expect("known");
        assert_eq!(peer.pid.as_raw_nonzero().get(), pid);
        let mut ours = UnixStream::from(socket);
        ours.write_all(b"hello").expect("connected");
        let mut word = [0; 5];
        heard.read_exact(&mut word).expect("sent");
        assert_eq!(&word, b"hello");
    }

    #[test]
    fn a_child_that_is_not_let_go_never_executes_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).expect("ours");
        let ran = folder.path().join("ran");
        let mut command = Command::new("touch");
        let mut introduced =
            introduce_on_exec(command.arg(&ran), socket(), &path).expect("prepared");
        // If it were dropped before there is a child, the write would fail, with another error.
        let asking = std::thread::spawn(move || introduced.connected().map(|_| drop(introduced)));
        let refused = command.spawn().map(|_| ()).expect_err("it was not let go");
        assert_eq!(refused.raw_os_error(), Some(Errno::CANCELED.raw_os_error()));
        asking.join().expect("no panic").expect("it connected");
        assert!(!ran.exists());
    }

    #[test]
    fn the_parent_gets_an_error_if_there_is_no_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nobody");
        let mut command = Command::new("true");
        let mut introduced = introduce_on_exec(&mut command, socket(), &path).expect("prepared");
        let asking = std::thread::spawn(move || introduced.connected().map(|_| ()));
        assert!(command.spawn().is_err());
        let why = asking.join().expect("no panic").expect_err("nobody listens");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn without_a_child_the_wait_ends() {
        let mut command = Command::new("true");
        let mut introduced =
            introduce_on_exec(&mut command, socket(), Path::new("nowhere")).expect("prepared");
        drop(command);
        assert!(introduced.connected().expect("no error").is_none());
    }
}
