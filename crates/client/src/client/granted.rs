//! A grant in its holder's hands.

use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::{self, Tid};
use thiserror::Error;

use super::{Broker, ClientError, RequestError};
use crate::grant::{GrantId, Token};
use crate::want::{Guarantee, Want};

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
