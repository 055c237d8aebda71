//! For those who ask: connect, request, hear what happens, change, release.
//!
//! ```no_run
//! use punctual_broker::client::{Broker, RequestError};
//! use punctual_broker::want::Want;
//! use punctual_broker::wire::Event;
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
//! A program that knows nothing of the broker is started under a reservation by [`spawn_reserved`].
//!
//! The socket is only for asking: between two requests the kernel alone keeps the promise, and a
//! broker that dies takes nothing away. Reconnect within the grace period and [`Broker::resume`].

mod channels;
mod conversation;
mod error;
mod granted;
mod spawn;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration as Time;

use punctual_linux::thread;
use punctual_model::{Reservation, Upcall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use channels::{ChannelError, GrantedChannel};
pub use error::{ClientError, RequestError};
pub use granted::{Granted, ReleaseError};
pub use spawn::{SpawnError, Spawned, spawn_reserved};

use crate::SOCKET;
use crate::grant::GrantId;
use crate::want::{RawWant, Want, What};
use crate::wire::{
    Answer, Ask, Event, MAX_MESSAGE, Offered, Refused, Said, Socket, Status, VERSION,
};

/// For how long an answer is waited for unless [`Broker::set_patience`] says otherwise.
const PATIENCE: Time = Time::from_secs(10);

impl Want {
    /// A reservation for the calling thread.
    pub fn reservation(reservation: Reservation) -> Self {
        Self { thread: thread::current(), what: What::Reservation(reservation) }
    }

    /// Upcalls that the calling thread will run.
    pub fn upcalls(upcalls: Vec<Upcall>) -> Self {
        Self { thread: thread::current(), what: What::Upcalls(upcalls) }
    }

    /// The lowest real-time priority for the calling thread.
    pub fn priority(share_ppm: u32) -> Self {
        Self { thread: thread::current(), what: What::Priority { share_ppm } }
    }
}

/// A connection to the broker.
#[derive(Debug)]
pub struct Broker {
    socket: Socket,
    next: u32,
    buffer: Vec<u8>,
    /// What came with the last message that brought open files.
    files: Vec<OwnedFd>,
    events: VecDeque<(Option<GrantId>, Event)>,
    level_order: bool,
    rttime_us: Option<u64>,
    patience: Time,
}

impl Broker {
    /// Connects to this host's broker.
    pub fn connect() -> Result<Self, ClientError> {
        Self::connect_to(Path::new(SOCKET))
    }

    /// Connects to the broker at `path`.
    pub fn connect_to(path: &Path) -> Result<Self, ClientError> {
        let socket = Socket::connect(path).map_err(|source| no_broker(path, source))?;
        Self::on(socket, PATIENCE)
    }

    /// [`Self::connect_to`] that waits for no answer longer than `patience`, neither to this nor later.
    pub fn connect_within(path: &Path, patience: Time) -> Result<Self, ClientError> {
        let socket = Socket::connect_within(path, patience);
        Self::on(socket.map_err(|source| no_broker(path, source))?, patience)
    }

    /// On a socket that is connected.
    fn on(socket: Socket, patience: Time) -> Result<Self, ClientError> {
        let mut broker = Self {
            socket,
            next: 1,
            buffer: vec![0; MAX_MESSAGE],
            files: Vec::new(),
            events: VecDeque::new(),
            level_order: false,
            rttime_us: None,
            patience,
        };
        match broker.ask(Ask::Hello { version: VERSION })? {
            Answer::Welcome { level_order, rttime_us, .. } => {
                (broker.level_order, broker.rttime_us) = (level_order, rttime_us);
                Ok(broker)
            }
            other => Err(unexpected(other)),
        }
    }

    /// For how long answers are waited for.
    pub fn set_patience(&mut self, patience: Time) {
        self.patience = patience;
    }

    /// Whether an upcall thread with a grant raises itself (`punctual_runtime::Placement::Upcalls`);
    /// else the broker has put it at its level, and it runs as it is.
    pub fn level_order(&self) -> bool {
        self.level_order
    }

    /// Asks and waits for the answer to nothing.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        match self.ask(Ask::Ping)? {
            Answer::Pong => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Asks for a grant. When this returns it is in force.
    ///
    /// For SCHED_FIFO this process's hard `RLIMIT_RTTIME` is lowered if the broker asks for it, and
    /// stays so: a thread that never sleeps is then killed by the kernel.
    pub fn request(&mut self, want: &Want) -> Result<Granted, RequestError> {
        self.prepare(&want.what)?;
        match self.ask(Ask::Request { want: want.into() })? {
            Answer::Granted { grant, token, cpu } => {
                Ok(Granted::new(grant, token, cpu, want.clone()))
            }
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    /// Asks for the first counter-offer of a refusal; the refusal itself where there is none.
    pub fn accept_offer(&mut self, refused: &Refused) -> Result<Granted, RequestError> {
        let Some(Offered { want, .. }) = refused.offers.first() else {
            return Err(refused.clone().into());
        };
        let want = Want::try_from(want.clone()).map_err(|why| {
            ClientError::NotUnderstood(format!("an offer that is no request: {why}"))
        })?;
        self.request(&want)
    }

    /// Goes on with a grant that an earlier connection was given: one of this process, or one that
    /// [`spawn_reserved`] made for a program. From there on this connection speaks for whoever holds
    /// the grant.
    pub fn resume(&mut self, granted: &mut Granted) -> Result<(), RequestError> {
        let ask = Ask::Resume { grant: granted.id(), token: granted.token() };
        match self.ask(ask)? {
            Answer::Granted { cpu, .. } => {
                granted.set_cpu(cpu);
                Ok(())
            }
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    /// What is granted: this user's, or for root everything. All pages.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let mut all: Option<Status> = None;
        loop {
            let after = all.as_ref().and_then(|status| status.grants.last()).map(|last| last.grant);
            let mut page = match self.ask(Ask::Status { after })? {
                Answer::Status(page) => page,
                other => return Err(unexpected(other)),
            };
            // A page that says "more" and brings nothing would never end.
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

    /// Calls `heard` for each event that has come; never waits. Poll(2) this [`AsFd`] to know when.
    pub fn events(
        &mut self,
        mut heard: impl FnMut(Option<GrantId>, Event),
    ) -> Result<(), ClientError> {
        let outcome = loop {
            match self.receive() {
                Ok(Some(Said::Event { grant, event })) => self.keep(grant, event),
                // To a question that was given up waiting for.
                Ok(Some(Said::Answer { .. })) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Also what came before the end.
        self.events.drain(..).for_each(|(grant, event)| heard(grant, event));
        outcome
    }

    pub(crate) fn change(
        &mut self,
        grant: GrantId,
        want: &Want,
    ) -> Result<Option<u32>, RequestError> {
        let ask = Ask::Change { grant, want: RawWant::from(want) };
        match self.ask(ask)? {
            Answer::Granted { cpu, .. } => Ok(cpu),
            Answer::Refused(refused) => Err(refused.into()),
            other => Err(unexpected(other).into()),
        }
    }

    pub(crate) fn release(&mut self, grant: GrantId) -> Result<(), ClientError> {
        match self.ask(Ask::Release { grant })? {
            Answer::Released => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// What SCHED_FIFO is given only with.
    fn prepare(&self, what: &What) -> Result<(), ClientError> {
        let (Some(most), What::Upcalls(_) | What::Priority { .. }) = (self.rttime_us, what) else {
            return Ok(());
        };
        let has = getrlimit(Resource::Rttime);
        if has.maximum.is_none_or(|has| has > most) {
            // The signal that can be caught comes at half of it, if not earlier.
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
