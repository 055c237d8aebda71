//! Starting a program under a grant of its own.

use std::io;
use std::panic;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;

use punctual_linux::clock;
use punctual_linux::process::{Introduced, introduce_on_exec};
use punctual_linux::sched::LINGER;
use punctual_model::{Duration, Reservation};
use thiserror::Error;

use super::{Broker, ClientError, Granted, PATIENCE, RequestError, no_broker};
use crate::want::{Guarantee, Want};
use crate::wire::{KERNEL, Socket};

/// The pause before the kernel is tried again: a user may make twenty requests a second.
const PAUSE: Duration = Duration::from_millis(60);

/// A program that runs under a reservation.
#[derive(Debug)]
pub struct Spawned {
    /// The program.
    pub child: Child,
    /// The connection that speaks to the broker for the program: events come here, and the grant
    /// can be changed. Keep it for as long as the program runs: without a connection the grant ends
    /// after the broker's grace period.
    pub broker: Broker,
    /// The grant of the program's first thread. It ends with the program.
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

/// Requests a reservation from the broker at `path` for the first thread of a program, and starts
/// the program under it: the grant is in force before the program's first instruction.
///
/// The new process makes the request before it becomes the program, so the kernel names it as the
/// peer: the grant is its own and ends with it. Threads and processes that the program makes start
/// as ordinary ones. `command` is dropped, as its preparation is good for one start.
///
/// ```no_run
/// use std::process::Command;
/// use punctual_client::{SOCKET, spawn_reserved};
///
/// let mut player = Command::new("aplay");
/// player.arg("song.wav");
/// let mut player = spawn_reserved(player, "2ms/8ms".parse()?, SOCKET.as_ref())?;
/// println!("grant {}", player.granted.id());
/// player.child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SpawnError::Request`] says why nothing was granted: then nothing was started.
pub fn spawn_reserved(
    mut command: Command,
    reservation: Reservation,
    path: &Path,
) -> Result<Spawned, SpawnError> {
    let request = |error: ClientError| SpawnError::Request(error.into());
    let socket = Socket::unconnected(PATIENCE).map_err(|why| request(why.into()))?;
    let introduced = introduce_on_exec(&mut command, &socket, path)
        .map_err(|source| request(no_broker(path, source)))?;
    let (spawned, asked) = thread::scope(|scope| {
        // `spawn` returns when the program runs, after the answer: so another thread requests.
        let asking = scope.spawn(move || ask(introduced, socket, reservation, path));
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
    reservation: Reservation,
    path: &Path,
) -> Result<Option<(Broker, Granted)>, RequestError> {
    let connected = introduced.connected();
    let Some(thread) = connected.map_err(|source| no_broker(path, source))? else {
        return Ok(None);
    };
    let mut broker = Broker::on(socket, PATIENCE)?;
    let want = Want { thread, what: Guarantee::Reservation(reservation) };
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
