//! The client library: connect, request, read events, change, release.
//!
//! ```no_run
//! use punctual_client::{Broker, RequestError};
//! use punctual_client::want::Want;
//! use punctual_client::wire::Event;
//!
//! let mut broker = Broker::connect()?;
//! // For the calling thread: 2 ms in every 8 ms.
//! let want = Want::reservation("2ms/8ms".parse()?);
//! let mut granted = match broker.request(&want) {
//!     Err(RequestError::Refused(refused)) => broker.accept_offer(&refused)?,
//!     answer => answer?,
//! };
//! for _ in 0..1_000 {
//!     // … work …
//!     broker.events(|_grant, event| {
//!         if let Event::Choose { must_free_ppm, .. } = event {
//!             println!("do with {must_free_ppm} parts per million less");
//!         }
//!     })?;
//! }
//! granted.change(&mut broker, Want::reservation("1ms/8ms".parse()?).what)?;
//! granted.release(&mut broker)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`spawn_granted`] starts a program under a reservation; the program need not know the broker.
//!
//! The socket is only for requests. Between two requests the kernel alone keeps the promise, and
//! grants survive the death of the broker: reconnect within the grace period and call
//! [`Broker::resume`].

mod channels;
mod conversation;
mod granted;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration as Time;

use punctual_linux::thread;
use punctual_linux::thread::Tid;
use punctual_model::{Reservation, Upcall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use channels::{ChannelError, GrantedChannel};
pub use conversation::{ClientError, RequestError};
pub use granted::{Granted, ReleaseError, SavedGrant, SpawnError, Spawned, spawn_granted};

use crate::grant::GrantId;
use crate::want::{Guarantee, RawWant, Want};
use crate::wire::{
    Answer, BrokerMessage, ClientMessage, Event, Holder, MAX_MESSAGE, Offered, Refused, Socket,
    Status, VERSION,
};

/// The default socket of the broker.
pub const SOCKET: &str = "/run/punctual/broker.sock";

/// The time to wait for an answer unless [`Broker::set_patience`] changes it.
const PATIENCE: Time = Time::from_secs(10);

impl Want {
    /// Returns a request for a reservation for the calling thread.
    pub fn reservation(reservation: Reservation) -> Self {
        Self { thread: thread::current(), what: Guarantee::Reservation(reservation) }
    }

    /// Returns a request for upcalls that the calling thread will run.
    pub fn upcalls(upcalls: Vec<Upcall>) -> Self {
        Self { thread: thread::current(), what: Guarantee::Upcalls(upcalls) }
    }

    /// Returns a request for the lowest real-time priority for the calling thread.
    pub fn priority(share_ppm: u32) -> Self {
        Self { thread: thread::current(), what: Guarantee::Priority { share_ppm } }
    }
}

/// A connection to the broker.
#[derive(Debug)]
pub struct Broker {
    socket: Socket,
    next: u32,
    buffer: Vec<u8>,
    /// The files that came with the last message that had any.
    files: Vec<OwnedFd>,
    events: VecDeque<(Option<GrantId>, Event)>,
    level_order: bool,
    rttime_us: Option<u64>,
    programs: bool,
    patience: Time,
}

impl Broker {
    /// Connects to this host's broker.
    ///
    /// # Errors
    /// If no broker listens at the default socket, or it does not answer within ten seconds.
    pub fn connect() -> Result<Self, ClientError> {
        Self::connect_to(Path::new(SOCKET))
    }

    /// Connects to the broker at `path`.
    ///
    /// # Errors
    /// If no broker listens there, or it does not answer within ten seconds.
    pub fn connect_to(path: &Path) -> Result<Self, ClientError> {
        let socket = Socket::connect(path).map_err(|source| no_broker(path, source))?;
        Self::on(socket, PATIENCE)
    }

    /// Connects like [`Self::connect_to`], but waits no longer than `patience` for any answer, now
    /// or later.
    ///
    /// # Errors
    /// If no broker listens there, or it does not answer in time.
    pub fn connect_within(path: &Path, patience: Time) -> Result<Self, ClientError> {
        let socket = Socket::connect_within(path, patience);
        Self::on(socket.map_err(|source| no_broker(path, source))?, patience)
    }

    /// Connects like [`Self::connect_within`], to ask for another process: its grants belong to that
    /// process and count in its user's quota, as if it had asked itself. The broker accepts that only
    /// from root and from its own user.
    ///
    /// The process sets its own limit on running time, if the broker cannot: see
    /// [`Answer::Welcome`].
    ///
    /// # Errors
    /// As [`Self::connect_within`]; also if the process has ended, or this one may not ask for it.
    pub fn connect_for(path: &Path, patience: Time, holder: Holder) -> Result<Self, ClientError> {
        let socket = Socket::connect_within(path, patience);
        let socket = socket.map_err(|source| no_broker(path, source))?;
        let mut broker = Self::greet(socket, patience, Some(holder))?;
        // It is the limit of the other process that counts.
        broker.rttime_us = None;
        Ok(broker)
    }

    /// Greets the broker on a connected socket.
    fn on(socket: Socket, patience: Time) -> Result<Self, ClientError> {
        Self::greet(socket, patience, None)
    }

    fn greet(socket: Socket, patience: Time, holder: Option<Holder>) -> Result<Self, ClientError> {
        let mut broker = Self {
            socket,
            next: 1,
            buffer: vec![0; MAX_MESSAGE],
            files: Vec::new(),
            events: VecDeque::new(),
            level_order: false,
            rttime_us: None,
            programs: false,
            patience,
        };
        match broker.ask(ClientMessage::Hello { version: VERSION, holder })? {
            Answer::Welcome { level_order, rttime_us, programs, .. } => {
                (broker.level_order, broker.rttime_us) = (level_order, rttime_us);
                broker.programs = programs;
                Ok(broker)
            }
            other => Err(unexpected(other)),
        }
    }

    /// Sets the time to wait for answers.
    pub fn set_patience(&mut self, patience: Time) {
        self.patience = patience;
    }

    /// Returns whether an upcall thread with a grant raises itself
    /// (`punctual_runtime::Placement::Upcalls`). If not, the broker has put it at its level, and it
    /// runs as it is.
    pub fn level_order(&self) -> bool {
        self.level_order
    }

    /// Returns whether the broker can hold whole programs here, and this user may ask for it.
    pub fn holds_programs(&self) -> bool {
        self.programs
    }

    /// Sends an empty request and waits for the answer.
    ///
    /// # Errors
    /// If the broker is gone or does not answer in time.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        match self.ask(ClientMessage::Ping)? {
            Answer::Pong => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Requests a grant. When this returns it is in force.
    ///
    /// For SCHED_FIFO this process's hard `RLIMIT_RTTIME` is lowered if the broker asks for it, and
    /// stays so: the kernel then kills a thread that never sleeps.
    ///
    /// # Errors
    /// [`RequestError::Refused`] with the numbers and counter-offers if the request is not
    /// admitted; [`RequestError::Client`] if there is no answer, or the limit cannot be set.
    pub fn request(&mut self, want: &Want) -> Result<Granted, RequestError> {
        self.prepare(&want.what)?;
        match self.ask(ClientMessage::Request { want: want.into() })? {
            Answer::Granted { grant, token, cpu } => {
                Ok(Granted::new(grant, token, cpu, want.clone()))
            }
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    /// Requests the first counter-offer of a refusal.
    ///
    /// # Errors
    /// As [`Self::request`]; `refused` itself if it has no counter-offer.
    pub fn accept_offer(&mut self, refused: &Refused) -> Result<Granted, RequestError> {
        let Some(Offered { want, .. }) = refused.offers.first() else {
            return Err(refused.clone().into());
        };
        let want = Want::try_from(want.clone()).map_err(|why| {
            ClientError::NotUnderstood(format!("an offer that is no request: {why}"))
        })?;
        self.request(&want)
    }

    /// Continues a grant of an earlier connection: one of this process, or one that
    /// [`spawn_granted`] made for a program. From then on this connection represents the holder of
    /// the grant.
    ///
    /// # Errors
    /// If the broker does not know the grant or its token, or there is no answer.
    pub fn resume(&mut self, granted: &mut Granted) -> Result<(), RequestError> {
        let ask = ClientMessage::Resume { grant: granted.id(), token: granted.token() };
        match self.ask(ask)? {
            Answer::Granted { cpu, .. } => {
                granted.set_cpu(cpu);
                Ok(())
            }
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    /// Makes a thread of the process for which this connection asks
    /// ([`Self::connect_for`]) an ordinary one with this nice value.
    ///
    /// # Errors
    /// If the thread is not that process's, holds a grant, or there is no answer.
    pub fn set_nice(&mut self, thread: Tid, nice: i32) -> Result<(), ClientError> {
        match self.ask(ClientMessage::Nice { thread: thread.as_raw(), nice })? {
            Answer::Niced => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Returns the grants: this user's, or all of them for root. Reads all pages.
    ///
    /// # Errors
    /// If the broker is gone or does not answer in time.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let mut all: Option<Status> = None;
        loop {
            let after = all.as_ref().and_then(|status| status.grants.last()).map(|last| last.grant);
            let mut page = match self.ask(ClientMessage::Status { after })? {
                Answer::Status(page) => page,
                other => return Err(unexpected(other)),
            };
            // A broker that sends empty pages with `more` set would never end this loop.
            let more = page.more && !page.grants.is_empty();
            let mut status = match all.take() {
                None => page,
                Some(mut all) => {
                    all.grants.append(&mut page.grants);
                    all
                }
            };
            if !more {
                status.more = false;
                return Ok(status);
            }
            all = Some(status);
        }
    }

    /// Calls `heard` for each event that has arrived, and never waits. To wait for events, poll(2)
    /// the descriptor of this value ([`AsFd`]).
    ///
    /// # Errors
    /// If the broker is gone or its messages cannot be read. Events that came before are delivered.
    pub fn events(
        &mut self,
        mut heard: impl FnMut(Option<GrantId>, Event),
    ) -> Result<(), ClientError> {
        let outcome = loop {
            match self.receive() {
                Ok(Some(BrokerMessage::Event { grant, event })) => self.keep(grant, event),
                // The answer to a request whose wait was given up.
                Ok(Some(BrokerMessage::Answer { .. })) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Deliver also the events that came before the end.
        self.events.drain(..).for_each(|(grant, event)| heard(grant, event));
        outcome
    }

    pub(crate) fn change(
        &mut self,
        grant: GrantId,
        want: &Want,
    ) -> Result<Option<u32>, RequestError> {
        let ask = ClientMessage::Change { grant, want: RawWant::from(want) };
        match self.ask(ask)? {
            Answer::Granted { cpu, .. } => Ok(cpu),
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    pub(crate) fn release(&mut self, grant: GrantId) -> Result<(), ClientError> {
        match self.ask(ClientMessage::Release { grant })? {
            Answer::Released => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Lowers this process's limit on running time, without which the broker gives no SCHED_FIFO.
    fn prepare(&self, what: &Guarantee) -> Result<(), ClientError> {
        let (Some(most), Guarantee::Upcalls(_) | Guarantee::Priority { .. }) =
            (self.rttime_us, what)
        else {
            return Ok(());
        };
        let has = getrlimit(Resource::Rttime);
        if has.maximum.is_none_or(|has| has > most) {
            // SIGXCPU, which can be caught, comes at half of it, if not earlier.
            let soft = has.current.map_or(most / 2, |soft| soft.min(most / 2));
            let limit = Rlimit { current: Some(soft), maximum: Some(most) };
            setrlimit(Resource::Rttime, limit).map_err(io::Error::from)?;
        }
        Ok(())
    }
}

impl AsFd for Broker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn no_broker(path: &Path, source: io::Error) -> ClientError {
    ClientError::NoBroker { path: path.display().to_string(), source }
}

fn unexpected(answer: Answer) -> ClientError {
    ClientError::NotUnderstood(format!("{answer:?}"))
}
