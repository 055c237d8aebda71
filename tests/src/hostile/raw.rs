//! Speaks the protocol by hand: messages of any bytes with any open files.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use punctual_client::wire::{MAX_MESSAGE, Received, Socket};
use punctual_linux::clock;
use punctual_model::Duration;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

/// The most open files that the kernel accepts with a message (unix(7), SCM_MAX_FD).
pub const MOST_FILES: usize = 253;

/// The most open files expected with an answer.
const FILES_OF_AN_ANSWER: usize = 8;

/// Sends bytes with open files, without waiting.
///
/// # Errors
/// Returns the error of sendmsg(2).
pub fn send(socket: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)
}

/// Sets the limit without which nothing real-time is granted (setrlimit(2), RLIMIT_RTTIME).
pub fn may_be_real_time() {
    let most = Rlimit { current: Some(900_000), maximum: Some(1_000_000) };
    let _ = setrlimit(Resource::Rttime, most);
}

/// A connection that does nothing by itself.
#[derive(Debug)]
pub struct Raw {
    socket: Socket,
    next: u64,
    patience: Duration,
    /// The files that came with answers.
    files: Vec<OwnedFd>,
}

impl Raw {
    /// Connects, and sends nothing yet.
    ///
    /// # Errors
    /// Fails if there is no broker, or no descriptor.
    pub fn connect(path: &Path) -> std::io::Result<Self> {
        let patience = std::time::Duration::from_millis(500);
        let socket = Socket::connect_within(path, patience)?;
        Ok(Self { socket, next: 1, patience: crate::live::PATIENCE, files: Vec::new() })
    }

    /// Connects and says hello.
    ///
    /// # Errors
    /// Fails like [`connect`](Self::connect), or if the broker closes the connection or does not
    /// answer.
    pub fn greeted(path: &Path) -> std::io::Result<Self> {
        Self::connect(path)?.greet()
    }

    /// Opens another connection with the same patience.
    ///
    /// # Errors
    /// Fails like [`greeted`](Self::greeted).
    pub fn again(&self, path: &Path) -> std::io::Result<Self> {
        Self::connect(path)?.patient(self.patience).greet()
    }

    /// Limits the wait for each answer.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Says hello.
    ///
    /// # Errors
    /// Fails if the broker closes the connection or does not answer.
    pub fn greet(mut self) -> std::io::Result<Self> {
        let answer = self.ask(&json!({"hello": {"version": 1}}), &[]);
        match answer.as_ref().and_then(|answer| answer.get("welcome")) {
            Some(_) => Ok(self),
            None => Err(std::io::Error::other(format!("no welcome: {answer:?}"))),
        }
    }

    /// Sends any bytes. Returns whether the kernel accepted them.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        send(&self.socket, bytes, files).is_ok()
    }

    /// Sends a request without waiting for the answer, and returns its number.
    pub fn tell(&mut self, ask: &Value, files: &[BorrowedFd<'_>]) -> Option<u64> {
        let id = self.next;
        self.next += 1;
        let bytes = json!({"id": id, "ask": ask}).to_string();
        self.send(bytes.as_bytes(), files).then_some(id)
    }

    /// Sends a request and waits for its answer. Returns `None` if none comes in time.
    pub fn ask(&mut self, ask: &Value, files: &[BorrowedFd<'_>]) -> Option<Value> {
        let id = self.tell(ask, files)?;
        let until = clock::now() + self.patience;
        while clock::now() < until {
            let said = self.read(Duration::from_millis(100))?;
            let of = said.pointer("/answer/id").and_then(Value::as_u64);
            if of == Some(id) || of == Some(0) {
                return said.pointer("/answer/answer").cloned();
            }
        }
        None
    }

    /// Returns the broker's next message, `null` if none comes within `wait`, or `None` once the
    /// connection has ended. Open files that come with it are kept.
    pub fn read(&mut self, wait: Duration) -> Option<Value> {
        let time = clock::timespec(wait.as_nanos());
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Some(Value::Null),
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut buffer = vec![0; MAX_MESSAGE];
        match self.socket.receive_with(&mut buffer, FILES_OF_AN_ANSWER).ok()? {
            (Received::Message(length), files) => {
                self.files.extend(files);
                serde_json::from_slice(&buffer[..length]).ok()
            }
            (Received::Nothing, _) => Some(Value::Null),
            (Received::Closed, _) => None,
        }
    }

    /// Takes the open files that came with answers so far.
    pub fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
