//! Requests, answers, and events that come in between, and the errors of a client.

use std::io;
use std::time::{Duration as Time, Instant as Clock};

use punctual_channel::client::RejoinError;
use punctual_channel::rings::{Passed, RingError};
use punctual_linux::pass::PassError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::Broker;
use crate::grant::GrantId;
use crate::wire::{
    Answer, BrokerMessage, ClientMessage, Envelope, Event, MAX_MESSAGE, ReceiveError, Received,
    Refused, parse_said, to_bytes,
};

/// Events that wait to be fetched; the oldest beyond that are dropped.
const MAX_EVENTS: usize = 1_024;

impl Broker {
    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, ask: ClientMessage) -> Result<Answer, ClientError> {
        let id = self.next;
        // The broker uses 0 for messages that it could not read.
        self.next = self.next.checked_add(1).unwrap_or(1);
        let bytes = to_bytes(&Envelope { id, ask }).ok_or(ClientError::TooLong)?;
        match self.socket.send(&bytes).map_err(PassError::from) {
            Ok(_) => {}
            // Read what the broker sent before it closed: it may give the reason.
            Err(PassError::Gone) => return Err(self.last_words()),
            Err(PassError::Failed(errno)) => return Err(ClientError::Socket(errno.into())),
            Err(other) => return Err(ClientError::Socket(io::Error::other(other))),
        }
        #[allow(clippy::disallowed_methods, reason = "CLOCK_MONOTONIC too, for a time-out")]
        let asked = Clock::now();
        loop {
            match self.receive()? {
                Some(BrokerMessage::Event { grant, event }) => self.keep(grant, event),
                Some(BrokerMessage::Answer { id: of, answer }) if of == id || of == 0 => {
                    return match answer {
                        Answer::Error { problem } => Err(ClientError::Broker(problem)),
                        answer => Ok(answer),
                    };
                }
                Some(BrokerMessage::Answer { .. }) => {}
                None => {
                    let waited = asked.elapsed();
                    let Some(left) = self.patience.checked_sub(waited) else {
                        return Err(ClientError::NoAnswer { waited });
                    };
                    self.wait(left)?;
                }
            }
        }
    }

    fn last_words(&mut self) -> ClientError {
        while let Ok(Some(said)) = self.receive() {
            if let BrokerMessage::Answer { answer: Answer::Error { problem }, .. } = said {
                return ClientError::Broker(problem);
            }
        }
        ClientError::Closed
    }

    pub(super) fn receive(&mut self) -> Result<Option<BrokerMessage>, ClientError> {
        // A client's socket blocks, and receiving open files has no flag against that here.
        match self.socket.peek(&mut self.buffer)? {
            Received::Nothing => return Ok(None),
            Received::Closed => return Err(ClientError::Closed),
            Received::Message(_) => {}
        }
        let (received, files) = self.socket.receive_with(&mut self.buffer, Passed::COUNT)?;
        if !files.is_empty() {
            self.files = files;
        }
        match received {
            Received::Nothing => Ok(None),
            Received::Closed => Err(ClientError::Closed),
            Received::Message(length) => parse_said(&self.buffer[..length])
                .map(Some)
                .map_err(|why| ClientError::NotUnderstood(why.to_string())),
        }
    }

    fn wait(&self, time: Time) -> Result<(), ClientError> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec::try_from(time).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(other) => Err(ClientError::Socket(other.into())),
        }
    }

    pub(super) fn keep(&mut self, grant: Option<GrantId>, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((grant, event));
    }
}

/// The reason why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No broker answers.
    #[error("{path}: no broker answers: {source}; start one (systemctl start punctual-broker)")]
    NoBroker {
        /// The path of the socket.
        path: String,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The broker is gone: reconnect and resume.
    #[error("the broker closed the connection; connect again and resume the grants")]
    Closed,
    /// The broker is alive and does not answer.
    #[error("the broker did not answer for {} s", waited.as_secs())]
    NoAnswer {
        /// The time waited.
        waited: Time,
    },
    /// The message cannot be understood.
    #[error("the broker said what this client does not understand: {0}")]
    NotUnderstood(String),
    /// The broker could not carry the request out; its own sentence.
    #[error("{0}")]
    Broker(String),
    /// The request does not fit in a message.
    #[error("the request is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// Queues of channels that are closed use up the quota.
    #[error(
        "this user has {bytes} bytes of queues, and one more is beyond its quota (queue_memory): let go of \
         those of channels that are closed, or ask for a larger quota"
    )]
    Kept {
        /// The bytes of all queues.
        bytes: u64,
    },
    /// The broker's queue cannot be mapped, or the messages left cannot be carried over to it.
    #[error(transparent)]
    Queue(#[from] RejoinError),
    /// Sending or receiving failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<RingError> for ClientError {
    fn from(error: RingError) -> Self {
        Self::Queue(error.into())
    }
}

impl From<ReceiveError> for ClientError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TooLong { .. } | ReceiveError::TooMuch { .. } => {
                Self::NotUnderstood(error.to_string())
            }
            ReceiveError::Failed(errno) => Self::Socket(errno.into()),
        }
    }
}

/// The reason why nothing was granted.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The refusal with its numbers, and with what would be admitted.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no answer, or the request is not valid.
    #[error(transparent)]
    Client(#[from] ClientError),
}
