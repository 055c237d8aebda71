//! Probes of queueing disciplines, on the loopback of a namespace of their own, and of departure
//! times and pacing: every socket accepts those, and few disciplines honour them. The options can
//! be set only with the evidence of a successful probe.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use punctual_model::time::{Duration, Instant};
use rustix::net::{TxTimeFlags, sockopt};
use rustix::time::ClockId;

use super::finding::{Attempt, Loop, PATIENCE, Seen};
use crate::clock;
use crate::net::error::{OptionError, of_option};
use crate::net::interface::Interface;
use crate::net::route::{Discipline, DisciplineError};
use crate::net::{
    Notice, Outgoing, Place, Readiness, SendError, Setup, Stamps, UdpSocket, WallOffset, raw, route,
};

/// How far ahead a departure is requested.
const AHEAD: Duration = Duration::from_millis(30);
/// fq(8) rounds departures to its timer slack of 10 µs; stamps and conversion add less.
const EARLY: Duration = Duration::from_micros(50);
/// How long before its departure etf(8) hands a packet to the driver. etf drops a packet if it
/// wakes later than the departure.
const ETF_DELTA: Duration = Duration::from_millis(10);
/// The rate in bytes a second: ten datagrams of 500 bytes with headers take 100 ms. It is below fq's
/// `low_rate_threshold`, so that each packet waits for its own time.
const PACE: u32 = 50_000;
const PACED: usize = 10;
const PACED_PAYLOAD: usize = 458;
/// Nine gaps of 10 ms, less a third for the burst that fq allows at the start.
const PACED_LEAST: Duration = Duration::from_millis(60);

/// The rate in bytes a second: a datagram of 1,000 bytes with headers takes a millisecond.
const RATE: u64 = 1_000_000;
const BURST: u32 = 2_000;
const DATAGRAMS: usize = 30;
/// 1,000 bytes less the headers of UDP, IP and Ethernet.
const PAYLOAD: usize = 958;
/// The least time that shaping to [`RATE`] takes: the burst, one more datagram, and a tenth for
/// rounding may go early.
const LEAST: Duration = Duration::from_millis(24);

/// Evidence that an interface honours departure times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartureTimes {
    device: String,
}

/// Evidence that an interface honours a pacing rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    device: String,
}

/// Sends one empty datagram to `to` through interface `device`, to leave in 30 ms, and checks the
/// driver's stamp. Use an address on that link at which a datagram does no harm.
///
/// # Errors
/// The result seen instead.
pub fn departure_times(device: &str, to: SocketAddr) -> Result<DepartureTimes, Seen> {
    match super::attempt(|| kept(&UdpSocket::open(&Setup::to(to).on(device))?, By::Fq)) {
        Seen::Works(_) => Ok(DepartureTimes { device: device.to_owned() }),
        other => Err(other),
    }
}

/// Sends ten datagrams of 458 bytes to `to` through interface `device`, paced over 90 ms, and
/// checks the driver's stamps.
///
/// # Errors
/// The result seen instead.
pub fn pacing(device: &str, to: SocketAddr) -> Result<Pacing, Seen> {
    match super::attempt(|| paced(&UdpSocket::open(&Setup::to(to).on(device))?)) {
        Seen::Works(_) => Ok(Pacing { device: device.to_owned() }),
        other => Err(other),
    }
}

impl UdpSocket {
    /// Makes the kernel honour [`Outgoing::not_before`] (SO_TXTIME on CLOCK_MONOTONIC), on a socket
    /// that is bound to the probed interface. A missed departure comes back as a
    /// [notice](crate::net::FaultKind::DepartureMissed).
    ///
    /// # Errors
    /// [`OptionError::NotSeen`] on a socket bound to another interface or to none.
    pub fn set_departure_times(&self, seen: &DepartureTimes) -> Result<(), OptionError> {
        self.on_seen("SO_TXTIME", &seen.device)?;
        set_departures(self)
    }

    /// Makes the interface's discipline space datagrams to at most this many bytes a second
    /// (SO_MAX_PACING_RATE), on a socket that is bound to the probed interface.
    ///
    /// # Errors
    /// [`OptionError::NotSeen`] on a socket bound to another interface or to none.
    pub fn set_pacing_rate(&self, seen: &Pacing, bytes_per_s: u32) -> Result<(), OptionError> {
        self.on_seen("SO_MAX_PACING_RATE", &seen.device)?;
        set_pace(self, bytes_per_s)
    }

    fn on_seen(&self, option: &'static str, device: &str) -> Result<(), OptionError> {
        if self.device() == Some(device) { Ok(()) } else { Err(OptionError::NotSeen { option }) }
    }
}

fn set_departures(socket: &UdpSocket) -> Result<(), OptionError> {
    sockopt::set_txtime(socket, ClockId::Monotonic, TxTimeFlags::REPORT_ERRORS).map_err(of_option(
        "SO_TXTIME",
        "Linux 4.19",
        0,
    ))
}

fn set_pace(socket: &UdpSocket, bytes_per_s: u32) -> Result<(), OptionError> {
    let rate = bytes_per_s.to_ne_bytes();
    raw::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate).map_err(of_option(
        "SO_MAX_PACING_RATE",
        "Linux 3.13",
        bytes_per_s.into(),
    ))
}

/// Probes departure times on the loopback with fq, or with the host's default if there is no fq.
pub(super) fn with_fq() -> Attempt {
    let fq = Set::on_loopback(Discipline::Fq);
    let seen = kept(&Loop::open()?.sender, By::Fq)?;
    Ok(without(&fq, seen))
}

/// Probes departure times on the loopback with etf, which accepts only those of CLOCK_TAI.
pub(super) fn with_etf() -> Attempt {
    let delta = u32::try_from(ETF_DELTA.as_nanos())?;
    let _set = Set::on_loopback(Discipline::Etf { delta })?;
    kept(&Loop::open()?.sender, By::Etf)
}

/// Does the same as [`with_fq`] for a pacing rate.
pub(super) fn paced_with_fq() -> Attempt {
    let fq = Set::on_loopback(Discipline::Fq);
    let wire = Loop::open()?;
    let seen = paced(&wire.sender)?;
    Ok(without(&fq, seen))
}

fn without<E: std::fmt::Display>(fq: &Result<Set, E>, seen: Seen) -> Seen {
    match (fq, seen) {
        (Err(why), Seen::Ignored(what)) => Seen::Ignored(format!("{what}; {why}")),
        (_, seen) => seen,
    }
}

/// The discipline that is to honour a departure.
#[derive(Clone, Copy)]
enum By {
    Fq,
    Etf,
}

fn kept(socket: &UdpSocket, by: By) -> Attempt {
    match by {
        By::Fq => set_departures(socket)?,
        By::Etf => {
            // `sock_txtime`: clock, flags.
            let wish = [libc::CLOCK_TAI.cast_unsigned(), 0].map(u32::to_ne_bytes).concat();
            raw::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TXTIME, &wish)?;
        }
    }
    let departure = clock::now().saturating_add(AHEAD);
    let (asked, early) = match by {
        By::Fq => (departure, EARLY),
        By::Etf => (clock::tai().saturating_add(AHEAD), ETF_DELTA.saturating_add(EARLY)),
    };
    let sent = stamps(socket, 1, |_| Outgoing::default().not_before(asked))?;
    Ok(match sent.first() {
        None => Seen::Ignored("a datagram with a departure time never left".to_owned()),
        Some(&left) if left.saturating_add(early) >= departure => Seen::Works(match by {
            By::Fq => {
                format!(
                    "a datagram left {} after the time asked for",
                    left.saturating_since(departure)
                )
            }
            By::Etf => format!("a datagram left within {ETF_DELTA} before the time asked for"),
        }),
        Some(&left) => {
            let early = departure.saturating_since(left).as_nanos() / 1_000_000;
            Seen::Ignored(format!("accepted, and a datagram left {early} ms early"))
        }
    })
}

fn paced(socket: &UdpSocket) -> Attempt {
    set_pace(socket, PACE)?;
    let payload = [0; PACED_PAYLOAD];
    let parts = [Place::of(&payload)];
    let sent = stamps(socket, PACED, |_| Outgoing::new(&parts))?;
    let (Some(first), Some(last), PACED) = (sent.first(), sent.last(), sent.len()) else {
        return Ok(Seen::Ignored(format!("{} of {PACED} paced datagrams left", sent.len())));
    };
    let ms = last.saturating_since(*first).as_nanos() / 1_000_000;
    Ok(if last.saturating_since(*first) >= PACED_LEAST {
        Seen::Works(format!("{PACED} datagrams left within {ms} ms, where 90 was asked for"))
    } else {
        Seen::Ignored(format!("accepted, and {PACED} datagrams left within {ms} ms instead of 90"))
    })
}

/// Returns the time at which each of `count` datagrams was handed to the driver.
fn stamps<'a>(
    socket: &UdpSocket,
    count: usize,
    datagram: impl Fn(usize) -> Outgoing<'a>,
) -> Result<Vec<Instant>, Box<dyn std::error::Error>> {
    socket.set_stamps(Stamps { sent: true, ..Stamps::default() })?;
    let offset = WallOffset::measure();
    let until = clock::now().saturating_add(PATIENCE);
    for number in 0..count {
        // The error that the port has no listener comes in place of sending, and does not matter.
        while let Err(error) = socket.send(&datagram(number)) {
            if error != SendError::Refused || clock::now() > until {
                return Err(error.into());
            }
        }
    }
    let mut sent = Vec::new();
    while sent.len() < count && clock::now() < until && socket.wait(Readiness::Readable, until)? {
        if let Some(Notice::Sent(stamp)) = socket.take_notice()? {
            sent.extend(offset.monotonic(stamp.at));
        }
    }
    Ok(sent)
}

pub(super) fn tbf() -> Attempt {
    shapes(Discipline::Tbf { rate: RATE, burst_bytes: BURST, limit_bytes: 1 << 20 })
}

pub(super) fn htb() -> Attempt {
    shapes(Discipline::Htb { rate: RATE, burst_bytes: BURST })
}

/// Sends more than the burst, and measures how long it takes to arrive.
fn shapes(discipline: Discipline) -> Attempt {
    let _set = Set::on_loopback(discipline)?;
    let mut wire = Loop::open()?;
    let start = clock::now();
    for _ in 0..DATAGRAMS {
        wire.send(&[0; PAYLOAD])?;
    }
    let got = wire.receive(DATAGRAMS, Duration::from_millis(250))?.len();
    let took = clock::now().saturating_since(start);
    let seen = format!("{got} of {DATAGRAMS} kB in {} ms at 1 MB/s", took.as_nanos() / 1_000_000);
    Ok(if got == DATAGRAMS && took >= LEAST { Seen::Works(seen) } else { Seen::Ignored(seen) })
}

/// A discipline of the loopback, until it is dropped.
struct Set {
    index: u32,
}

impl Set {
    fn on_loopback(discipline: Discipline) -> Result<Self, DisciplineError> {
        let index = Interface::named("lo").map_or(1, |lo| lo.index);
        route::set_discipline(index, discipline)?;
        Ok(Self { index })
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // The namespace is about to end, so an error does not matter.
        let _ = route::remove_discipline(self.index);
    }
}
