//! A sender without a server.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::num::NonZeroU16;

use punctual_linux::clock;
use punctual_linux::net::{Outgoing, PathMtu, Place, Readiness, SendError, Setup, UdpSocket};
use punctual_model::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::{Stamp, begin};
use crate::extent::Error;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Plain {
    pub(crate) to: SocketAddr,
    pub(crate) number: u32,
    pub(crate) bytes: u32,
    pub(crate) how: SendMode,
    /// The SCHED_FIFO priority, or `None` for an ordinary process.
    pub(crate) fifo: Option<u8>,
    pub(crate) start_ns: u64,
    pub(crate) until_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum SendMode {
    /// send(2) as fast as the kernel allows.
    Tight,
    /// sendmmsg(2) of 64.
    Batches,
    /// One send(2) for each message, cut by the kernel into datagrams of `segment` bytes.
    Trains { segment: u16 },
    /// Absolute sleeps (clock_nanosleep(2)), a send(2) each.
    Paced { every_ns: u64 },
    /// The same, with many after each sleep and without waiting: messages that the kernel refuses
    /// are lost.
    Flood { every_ns: u64 },
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct PlainReport {
    /// The messages that the kernel accepted.
    pub(crate) messages: u64,
    /// The messages that the kernel refused.
    pub(crate) refused: u64,
    pub(crate) cpu_ns: u64,
}

const BATCH: usize = 64;

impl Plain {
    pub(super) fn send(&self) -> Result<PlainReport, Error> {
        begin(self.start_ns, self.fifo)?;
        let cpu = clock::thread_cpu_time();
        let (messages, refused) = match self.how {
            SendMode::Tight => (self.tight()?, 0),
            SendMode::Batches => (self.batches()?, 0),
            SendMode::Trains { segment } => (self.trains(segment)?, 0),
            SendMode::Paced { every_ns } => (self.paced(every_ns)?, 0),
            SendMode::Flood { every_ns } => self.flood(every_ns)?,
        };
        Ok(PlainReport { messages, refused, cpu_ns: (clock::thread_cpu_time() - cpu).as_nanos() })
    }

    fn socket(&self) -> io::Result<StdSocket> {
        let socket = StdSocket::bind("0.0.0.0:0")?;
        socket.connect(self.to)?;
        Ok(socket)
    }

    fn message(&self) -> Vec<u8> {
        vec![0x5a; self.bytes as usize]
    }

    fn stamp(&self, number: u64, at: Instant, message: &mut [u8]) {
        Stamp { number, at, of: self.number }.write(message);
    }

    fn until(&self) -> Instant {
        Instant::from_nanos(self.until_ns)
    }

    fn tight(&self) -> Result<u64, Error> {
        let (socket, mut message) = (self.socket()?, self.message());
        let mut number = 0;
        loop {
            let now = clock::now();
            if now >= self.until() {
                return Ok(number);
            }
            self.stamp(number, now, &mut message);
            socket.send(&message)?;
            number += 1;
        }
    }

    fn batches(&self) -> Result<u64, Error> {
        let socket = UdpSocket::open(&Setup::to(self.to))?;
        // The default of a socket for send(2).
        socket.set_path_mtu(PathMtu::Fragment)?;
        let mut messages = vec![self.message(); BATCH];
        let mut number = 0;
        loop {
            let now = clock::now();
            if now >= self.until() {
                return Ok(number);
            }
            for (at, message) in messages.iter_mut().enumerate() {
                self.stamp(number + at as u64, now, message);
            }
            let places: Vec<[Place<'_>; 1]> = messages.iter().map(|one| [Place::of(one)]).collect();
            let outgoing: Vec<Outgoing<'_>> = places.iter().map(|one| Outgoing::new(one)).collect();
            let mut left = &outgoing[..];
            while !left.is_empty() {
                match socket.send_batch(left) {
                    Ok(sent) => left = &left[sent..],
                    Err(SendError::Full) => drop(socket.wait(Readiness::Writable, self.until())?),
                    Err(other) => return Err(other.into()),
                }
            }
            number += BATCH as u64;
        }
    }

    fn trains(&self, segment: u16) -> Result<u64, Error> {
        let socket = UdpSocket::open(&Setup::to(self.to))?;
        let segment = NonZeroU16::new(segment).ok_or("segments of no bytes")?;
        let mut message = self.message();
        let mut number = 0;
        loop {
            let now = clock::now();
            if now >= self.until() {
                return Ok(number);
            }
            self.stamp(number, now, &mut message);
            match socket.send(&Outgoing::new(&[Place::of(&message)]).in_segments(segment)) {
                Ok(()) => number += 1,
                Err(SendError::Full) => drop(socket.wait(Readiness::Writable, self.until())?),
                Err(other) => return Err(other.into()),
            }
        }
    }

    fn paced(&self, every_ns: u64) -> Result<u64, Error> {
        let (socket, mut message) = (self.socket()?, self.message());
        let mut at = clock::now();
        let mut number = 0;
        while at < self.until() {
            clock::sleep_until(at);
            self.stamp(number, at, &mut message);
            socket.send(&message)?;
            number += 1;
            at += Duration::from_nanos(every_ns);
        }
        Ok(number)
    }

    fn flood(&self, every_ns: u64) -> Result<(u64, u64), Error> {
        let (socket, mut message) = (self.socket()?, self.message());
        socket.set_nonblocking(true)?;
        let start = clock::now();
        let due = |number: u64| start + Duration::from_nanos(every_ns * number);
        let (mut number, mut refused) = (0, 0);
        loop {
            let now = clock::now();
            if now >= self.until() {
                return Ok((number - refused, refused));
            }
            while due(number) <= now {
                self.stamp(number, due(number), &mut message);
                match socket.send(&message) {
                    Ok(_) => {}
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => refused += 1,
                    // ENOBUFS: its queue is full.
                    Err(why) if why.raw_os_error() == Some(105) => refused += 1,
                    Err(why) => return Err(why.into()),
                }
                number += 1;
            }
            clock::sleep_until(due(number).max(now + Duration::from_micros(500)));
        }
    }
}
