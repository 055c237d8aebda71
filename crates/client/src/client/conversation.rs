//! Requests, answers, and events that come in between.

use std::io;
use std::time::{Duration as Time, Instant as Clock};

use punctual_channel::rings::Passed;
use punctual_linux::pass::PassError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Broker, ClientError};
use crate::grant::GrantId;
use crate::wire::{
    Answer, BrokerMessage, ClientMessage, Envelope, Event, Received, parse_said, to_bytes,
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
