//! What hears on the far host.

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

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// When it came through the veth, by the kernel's stamp on CLOCK_MONOTONIC.
    pub(crate) at: Instant,
    /// Bytes of message in it.
    pub(crate) bytes: u32,
    /// What its sender wrote at its beginning. Of fragments, only the first of a message has it.
    pub(crate) stamp: Option<Stamp>,
}

/// Below the server's threads, above all else: it must not lose what comes.
const PRIORITY: u8 = 40;

/// The kernel counts what a datagram costs it, not its bytes.
const BUFFER: usize = 64 << 20;

/// Hears until it is asked what it heard.
pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Heard>, Error>>>,
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
            hear(&socket, &stopped)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// All that came until now and a moment.
    pub(crate) fn heard(mut self) -> Result<Vec<Heard>, Error> {
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

fn hear(socket: &UdpSocket, stop: &AtomicBool) -> Result<Vec<Heard>, Error> {
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
                // Without a stamp: the kernel had not begun to make them.
                let Some(at) = stamp else { continue };
                let (payload, first) = match Header::read(datagram.bytes) {
                    Ok((header, piece)) => (piece, header.offset == 0),
                    Err(_) => (datagram.bytes, true),
                };
                let stamp = first.then(|| Stamp::read(payload)).flatten();
                heard.push(Heard { at, bytes: payload.len() as u32, stamp });
            }
        }
    }
    match offset.holds(&WallOffset::measure()) {
        true => Ok(heard),
        false => Err("the wall clock was set meanwhile: the stamps mean nothing".into()),
    }
}

/// A socket that nobody reads: it counts, and costs its sender no more than that.
pub(crate) struct Sink {
    socket: UdpSocket,
}

impl Sink {
    pub(super) fn open(at: SocketAddr) -> Result<Self, Error> {
        let socket = UdpSocket::open(&Setup::at(at))?;
        socket.set_receive_buffer(1)?;
        Ok(Self { socket })
    }

    /// Datagrams that came and were not kept, modulo 2³²: all but the first one or two.
    pub(crate) fn count(&self) -> Result<u32, Error> {
        Ok(self.socket.drops()?)
    }
}
