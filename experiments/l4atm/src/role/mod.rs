//! The roles of the other processes of an experiment: this program again, with its role in a line
//! of JSON.

mod load;
mod many;
mod plain;
mod server;
mod writer;

use std::io::{self, Write as _};
use std::path::PathBuf;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::Error;
pub(crate) use load::Worked;
pub(crate) use many::{Level, Many, Opened};
pub(crate) use plain::{Plain, PlainReport, SendMode};
pub(crate) use writer::{Pattern, Writer, WriterReport};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Role {
    /// Carries channels until it is killed.
    Server { folder: PathBuf },
    /// A part of the server.
    Part { name: String },
    /// Spins until it is killed.
    Hog,
    /// Starts and awaits programs until it is killed, as a build does.
    Forks,
    /// A fixed amount of computation, in rounds.
    Work { rounds: u64 },
    /// A client that sends through a channel.
    Writer(Writer),
    /// A sender without a server.
    Plain(Plain),
    /// A client with very many channels.
    Many(Many),
}

pub(crate) fn play(role: &str) -> Result<(), Error> {
    match serde_json::from_str(role)? {
        Role::Server { folder } => server::serve(&folder),
        Role::Part { name } => server::be_part(&name),
        Role::Hog => load::spin(),
        Role::Forks => load::fork(),
        Role::Work { rounds } => report(&load::work(rounds)),
        Role::Writer(writer) => report(&writer.write()?),
        Role::Plain(plain) => report(&plain.send()?),
        Role::Many(many) => report(&many.open()?),
    }
}

fn report<T: Serialize>(what: &T) -> Result<(), Error> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}

/// Waits until an experiment begins, in a class of its own if it has one.
fn begin(start_ns: u64, fifo: Option<u8>) -> Result<(), Error> {
    if let Some(priority) = fifo {
        sched::set(thread::current(), Class::Fifo { priority })?;
        thread::set_timer_slack(Duration::from_nanos(1));
    }
    clock::sleep_until(Instant::from_nanos(start_ns));
    Ok(())
}

/// The stamp that a sender writes at the beginning of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) number: u64,
    /// When it was due, or if nothing is due, when it was written.
    pub(crate) at: Instant,
    /// The number of the sender.
    pub(crate) of: u32,
}

impl Stamp {
    fn write(self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.number.to_be_bytes());
        into[8..16].copy_from_slice(&self.at.as_nanos().to_be_bytes());
        into[16..20].copy_from_slice(&self.of.to_be_bytes());
    }

    pub(crate) fn read(from: &[u8]) -> Option<Self> {
        let (number, rest) = from.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (of, _) = rest.split_first_chunk()?;
        let at = Instant::from_nanos(u64::from_be_bytes(*at));
        Some(Self { number: u64::from_be_bytes(*number), at, of: u32::from_be_bytes(*of) })
    }
}
