//! The receivers on the far host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_channel::fragment::Header;
use punctual_linux::net::{Inbox, Readiness, Setup, Stamps, UdpSocket, WallOffset};
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};

use crate::Error;
use crate::role::Stamp;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The time at which it came through the veth, by the kernel's stamp on CLOCK_MONOTONIC.
    pub(crate) at: Instant,
    /// The bytes of the message in it.
    pub(crate) bytes: u32,
    /// The stamp that its sender wrote at its beginning. Of fragments, only the first of a message
    /// has one.
    pub(crate) stamp: Option<Stamp>,
}

/// Below the server's threads and above everything else: it must not lose datagrams.
const PRIORITY: u8 = 40;

/// The kernel counts the memory of a datagram, not its bytes.
const BUFFER: usize = 64 << 20;

/// Receives until it is asked for what it received.
pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Received>, Error>>>,
}

impl Listener {
    pub(super) fn open(at: SocketAddr) -> Result<UdpSocket, Error> {
        let socket = UdpSocket::open(&Setup::at(at))?;
        socket.set_receive_buffer(BUFFER)?;
        socket.set_stamps(Stamps { receive: true, ..Stamps::default() })?;
        Ok(socket)
    }

    pub(super) fn start(socket: UdpSocket) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("listener".into()).spawn(move || {
            sched::set(thread::current(), Class::Fifo { priority: PRIORITY })?;
            receive(&socket, &stopped)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Returns everything that arrived until a moment from now.
    pub(crate) fn received(mut self) -> Result<Vec<Received>, Error> {
        clock::sleep(Duration::from_millis(20));
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(heard)) => heard,
            _ => Err("the listener has panicked".into()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Result<Vec<Received>, Error> {
    let offset = WallOffset::measure();
    let mut heard = Vec::with_capacity(1 << 16);
    let mut inbox = Inbox::new(64, 2_048);
    loop {
        let soon = clock::now() + Duration::from_millis(20);
        let came = socket.wait(Readiness::Readable, soon)?;
        if !came && stop.load(Ordering::Relaxed) {
            break;
        }
        while socket.receive(&mut inbox)? > 0 {
            for datagram in inbox.datagrams() {
                let stamp = datagram.arrival.stamp.and_then(|stamp| offset.monotonic(stamp));
                // Without a stamp if the kernel had not begun to make them.
                let Some(at) = stamp else { continue };
                let (payload, first) = match Header::read(datagram.bytes) {
                    Ok((header, piece)) => (piece, header.offset == 0),
                    Err(_) => (datagram.bytes, true),
                };
                let stamp = first.then(|| Stamp::read(payload)).flatten();
                heard.push(Received { at, bytes: payload.len() as u32, stamp });
            }
        }
    }
    match offset.holds(&WallOffset::measure()) {
        true => Ok(heard),
        false => Err("the wall clock was set meanwhile: the stamps mean nothing".into()),
    }
}

/// A socket that is never read: it counts datagrams, and costs the sender no more than that.
pub(crate) struct Sink {
    socket: UdpSocket,
}

impl Sink {
    pub(super) fn open(at: SocketAddr) -> Result<Self, Error> {
        let socket = UdpSocket::open(&Setup::at(at))?;
        socket.set_receive_buffer(1)?;
        Ok(Self { socket })
    }

    /// Returns the number of datagrams that arrived and were dropped, modulo 2³²: all but the first
    /// one or two.
    pub(crate) fn count(&self) -> Result<u32, Error> {
        Ok(self.socket.drops()?)
    }
}
