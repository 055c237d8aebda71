//! A grant in its holder's hands, and the start of a program under a grant of its own.

use std::path::Path;
use std::process::{Child, Command};
use std::{io, panic};

use punctual_linux::process::{Introduced, introduce_on_exec};
use punctual_linux::sched::{Class, LINGER, SchedError};
use punctual_linux::thread::Tid;
use punctual_linux::{clock, sched, thread};
use punctual_model::Duration;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Broker, ClientError, PATIENCE, RequestError, no_broker};
use crate::grant::{GrantId, Token};
use crate::want::{Guarantee, Malformed, RawWant, Want};
use crate::wire::{KERNEL, Socket};

/// The pause before the kernel is tried again: a user may make twenty requests a second.
const PAUSE: Duration = Duration::from_millis(60);

/// The reason why a grant was not released.
#[derive(Debug, Error)]
pub enum ReleaseError {
    /// Only the thread itself can leave SCHED_DEADLINE.
    #[error(
        "the reservation is thread {holder}'s, which must release it itself; this is thread {this}"
    )]
    OtherThread {
        /// The thread that holds the grant.
        holder: Tid,
        /// The calling thread.
        this: Tid,
    },
    /// The kernel did not let the thread leave.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The broker did not get the request, and takes the grant back when the process or the
    /// connection ends.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A grant that is in force until it is released, revoked, or its process ends.
///
/// Dropping it releases nothing: the end of the connection does, after the grace period.
#[derive(Clone, Debug)]
pub struct Granted {
    id: GrantId,
    token: Token,
    cpu: Option<u32>,
    want: Want,
}

/// A grant in a form that outlives its holder's connection and program. It contains the secret that
/// proves ownership: keep it where nobody else reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedGrant {
    grant: GrantId,
    token: Token,
    want: RawWant,
}

impl From<&Granted> for SavedGrant {
    fn from(granted: &Granted) -> Self {
        Self { grant: granted.id, token: granted.token, want: RawWant::from(&granted.want) }
    }
}

/// Restores the grant as it was saved; [`Broker::resume`] tells whether it is still in force.
impl TryFrom<SavedGrant> for Granted {
    type Error = Malformed;

    fn try_from(SavedGrant { grant, token, want }: SavedGrant) -> Result<Self, Malformed> {
        Ok(Self::new(grant, token, None, Want::try_from(want)?))
    }
}

impl Granted {
    pub(super) fn new(id: GrantId, token: Token, cpu: Option<u32>, want: Want) -> Self {
        Self { id, token, cpu, want }
    }

    /// Returns its number.
    pub fn id(&self) -> GrantId {
        self.id
    }

    /// Returns the CPU on which upcalls were admitted, by the kernel's number. The broker has
    /// pinned their thread there.
    pub fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    /// Returns the request that was granted.
    pub fn want(&self) -> &Want {
        &self.want
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    pub(super) fn set_cpu(&mut self, cpu: Option<u32>) {
        self.cpu = cpu;
    }

    /// Requests `what` of the same kind instead, without interruption: until it is granted, and if
    /// it is refused, everything stays as it is.
    ///
    /// # Errors
    /// As [`Broker::request`].
    pub fn change(&mut self, broker: &mut Broker, what: Guarantee) -> Result<(), RequestError> {
        let want = Want { thread: self.want.thread, what };
        self.cpu = broker.change(self.id, &want)?;
        self.want = want;
        Ok(())
    }

    /// Gives the grant back. A reservation is given back by the thread that holds it: the broker
    /// lets it leave SCHED_DEADLINE without privilege, and the thread leaves.
    ///
    /// # Errors
    /// If another thread than the holder releases a reservation, the kernel does not let the thread
    /// leave, or there is no answer.
    pub fn release(self, broker: &mut Broker) -> Result<(), ReleaseError> {
        if !matches!(self.want.what, Guarantee::Reservation(_)) {
            return Ok(broker.release(self.id)?);
        }
        let (holder, this) = (self.want.thread, thread::current());
        if holder != this {
            return Err(ReleaseError::OtherThread { holder, this });
        }
        // The thread leaves even if the broker had revoked the grant: only this step remains then.
        let released = broker.release(self.id);
        leave()?;
        Ok(released?)
    }

    /// Takes the calling thread out of SCHED_DEADLINE after [`crate::wire::Event::Revoked`]: no
    /// other thread can do that.
    ///
    /// # Errors
    /// If the kernel does not let the thread leave.
    pub fn leave(self) -> Result<(), ReleaseError> {
        Ok(leave()?)
    }
}

/// Takes the calling thread out of SCHED_DEADLINE. Only a running thread that leaves by itself
/// gives all its bandwidth back.
fn leave() -> Result<(), SchedError> {
    match sched::get(thread::current())?.policy_name() {
        "SCHED_DEADLINE" => {
            // Keep the nice value: another would take privilege, or raise the priority.
            let nice = sched::nice_of(thread::current())?;
            sched::set(thread::current(), Class::Other { nice })
        }
        _ => Ok(()),
    }
}

/// A program that runs under a grant of its own.
#[derive(Debug)]
pub struct Spawned {
    /// The program.
    pub child: Child,
    /// The connection that speaks to the broker for the program: events come here, and the grant
    /// can be changed. Keep it for as long as the program runs: without a connection the grant ends
    /// after the broker's grace period.
    pub broker: Broker,
    /// The grant of the program or its first thread. It ends with the program.
    pub granted: Granted,
}

/// The reason why a program was not started under a grant.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// The request was refused, or there was no answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The program could not be executed, or no process could be made.
    #[error("{0}")]
    Program(io::Error),
}

/// Requests `what` from the broker at `path` for a program ([`Guarantee::Program`]) or its first
/// thread, and starts the program under it: the grant is in force before the program's first
/// instruction.
///
/// The new process makes the request before it becomes the program, so the kernel names it as the
/// peer: the grant is its own and ends with it. Unless the grant is for the whole program, threads and
/// processes that it makes start as ordinary ones. `command` is dropped, as its preparation is good
/// for one start.
///
/// ```no_run
/// use std::process::Command;
/// use punctual_client::{SOCKET, spawn_granted};
/// use punctual_client::want::Guarantee;
/// use punctual_model::reservation::Enforcement;
///
/// let mut player = Command::new("aplay");
/// player.arg("song.wav");
/// let enforcement = Enforcement::Soft;
/// let what = Guarantee::Program { reservation: "2ms/8ms".parse()?, enforcement };
/// let mut player = spawn_granted(player, what, SOCKET.as_ref())?;
/// println!("grant {}", player.granted.id());
/// player.child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SpawnError::Request`] says why nothing was granted: then nothing was started.
pub fn spawn_granted(
    mut command: Command,
    what: Guarantee,
    path: &Path,
) -> Result<Spawned, SpawnError> {
    let request = |error: ClientError| SpawnError::Request(error.into());
    let socket = Socket::unconnected(PATIENCE).map_err(|why| request(why.into()))?;
    let introduced = introduce_on_exec(&mut command, &socket, path)
        .map_err(|source| request(no_broker(path, source)))?;
    let (spawned, asked) = std::thread::scope(|scope| {
        // `spawn` returns when the program runs, after the answer: so another thread requests.
        let asking = scope.spawn(move || ask(introduced, socket, what, path));
        let spawned = command.spawn();
        // If there is no child, this ends the wait for it.
        drop(command);
        (spawned, asking.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    });
    match (spawned, asked) {
        (Ok(child), Ok(Some((broker, granted)))) => Ok(Spawned { child, broker, granted }),
        (Err(_), Err(why)) => Err(why.into()),
        (Err(error), Ok(_)) => Err(SpawnError::Program(error)),
        // The program runs only after its release, which is the last step of the request.
        (Ok(mut child), not_granted) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(not_granted.err().unwrap_or_else(|| ClientError::Closed.into()).into())
        }
    }
}

/// Makes the request on behalf of the child; `None` if there is no child.
fn ask(
    mut introduced: Introduced,
    socket: Socket,
    what: Guarantee,
    path: &Path,
) -> Result<Option<(Broker, Granted)>, RequestError> {
    let connected = introduced.connected();
    let Some(thread) = connected.map_err(|source| no_broker(path, source))? else {
        return Ok(None);
    };
    let mut broker = Broker::on(socket, PATIENCE)?;
    let want = Want { thread, what };
    let until = clock::now() + LINGER;
    let granted = loop {
        match broker.request(&want) {
            // The kernel keeps the bandwidth of an ended thread for some milliseconds.
            Err(RequestError::Refused(refused))
                if refused.test == KERNEL && clock::now() < until =>
            {
                clock::sleep(PAUSE);
            }
            answer => break answer?,
        }
    };
    introduced.let_go().map_err(ClientError::from)?;
    Ok(Some((broker, granted)))
}
