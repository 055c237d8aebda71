//! The notices to the observer while programs are prepared and run.

use std::path::Path;

use punctual_channel::client::compact::Compact;
use punctual_client::grant::GrantId;
use punctual_client::wire::Event;
use punctual_model::Reservation;
use punctual_model::command::Backend;
use punctual_runtime::reservation::Refused;
use serde::Serialize;

use super::terms::Terms;
use crate::trace::RecordError;
use crate::{Failure, Message};

/// A notice to the observer while programs are prepared and run.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A note on a profile of this host that was examined.
    Profile(&'a Message),
    /// Entries of the contract were counted in admission, and no program holds them.
    OnlyAdmitted(&'a str),
    /// A program was started. Its process is reaped only after this notice, by the thread that
    /// gives it.
    Started {
        /// Its name, if it has one.
        name: Option<&'a str>,
        /// The id of its process.
        process: u32,
    },
    /// A program was started under these terms.
    Held {
        /// Its name, if it has one.
        name: Option<&'a str>,
        /// The terms.
        terms: &'a Terms,
    },
    /// A program was started with a channel for its datagrams.
    Channel {
        /// Its name, if it has one.
        name: Option<&'a str>,
        /// The channel that the program requests from the broker with its first datagram.
        asked: &'a Compact,
        /// The socket of the broker.
        broker: &'a Path,
    },
    /// CPUs do not halt while the programs run.
    Awake {
        /// The CPUs.
        cpus: &'a [usize],
        /// Whether the threads that keep them awake give way to ordinary threads of all sessions
        /// and control groups.
        gives_way: bool,
    },
    /// A program's reservation has followed its use.
    Adapted {
        /// Its name, if it has one.
        name: Option<&'a str>,
        /// The reservation that it had.
        from: Reservation,
        /// The reservation that it has.
        to: Reservation,
    },
    /// A program uses another amount than it has, and its reservation stays as it is.
    NotAdapted {
        /// Its name, if it has one.
        name: Option<&'a str>,
        /// The reservation that it has.
        at: Reservation,
        /// Why another one was refused.
        why: &'a Refused,
    },
    /// The trace will lack the programs that the kernel or a server holds: neither reports when a
    /// budget ends.
    Untraced,
    /// The broker sent an event about a grant.
    Grant(GrantNews<'a>),
    /// A signal was not passed on to a process, because it belongs to another user.
    SignalNotPassedOn {
        /// The signal's number.
        signal: i32,
        /// The process.
        process: u32,
    },
    /// The trace could not be written any further; the programs go on without it.
    TraceStopped(&'a RecordError),
    /// The programs have ended, and the trace is incomplete.
    TraceFailed(&'a Failure),
}

/// An event of a program's grant from the broker.
#[derive(Clone, Debug, Serialize)]
pub struct GrantNews<'a> {
    /// The program's name, if it has one.
    pub command: Option<&'a str>,
    /// The grant.
    pub grant: GrantId,
    /// The reservation that was granted.
    #[serde(skip)]
    pub reservation: Reservation,
    /// Whether the kernel holds the first thread, or a server of the broker the program.
    #[serde(skip)]
    pub backend: Backend,
    /// The event.
    pub event: &'a Event,
}

/// A callback that receives the notices while programs are prepared and run.
pub type Observer<'a> = dyn FnMut(&Notice<'_>) + 'a;
