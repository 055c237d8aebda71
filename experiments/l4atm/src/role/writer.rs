//! A client that sends through one channel.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use punctual_channel::client::{SendError, Sending};
use punctual_client::Broker;
use punctual_client::want::WantedChannel;
use punctual_client::wire::ChannelStatus;
use punctual_linux::clock;
use punctual_model::channel::{Framing, LinearBounded, Sensitivity, TooEarly};
use punctual_model::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::{Stamp, begin};
use crate::extent::Error;

/// A channel and its traffic.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Writer {
    pub(crate) socket: PathBuf,
    pub(crate) to: SocketAddr,
    /// The number in the stamps.
    pub(crate) number: u32,
    pub(crate) bytes: u32,
    pub(crate) spacing_ns: u64,
    pub(crate) burst: u32,
    pub(crate) slots: u32,
    /// The delay bound, or `None` for best effort.
    pub(crate) bound_ns: Option<u64>,
    pub(crate) fragments: bool,
    /// Whether the server loses messages that come too early, or lets them wait.
    pub(crate) loses: bool,
    /// The credits for messages in an interval: 2, 10 or 50, or 0 for policing by spacing and
    /// burst.
    pub(crate) credits: u32,
    pub(crate) pattern: Pattern,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) start_ns: u64,
    pub(crate) until_ns: u64,
}

/// The times at which it sends.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Pattern {
    /// Whenever there is room.
    Tight,
    /// At this distance; messages that find no room are lost.
    Paced { every_ns: u64 },
}

/// The result of a writer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct WriterReport {
    /// The messages that were put into the queue.
    pub(crate) messages: u64,
    /// The messages for which there was no room.
    pub(crate) no_room: u64,
    /// The processor time used for that.
    pub(crate) cpu_ns: u64,
    /// The number of times it slept meanwhile.
    pub(crate) sleeps: u64,
    /// The server's status when the queue was empty, or two seconds later.
    pub(crate) status: ChannelStatus,
}

/// The shortest time between wake-ups; a faster sender sends several messages each time.
const WAKES_EVERY: Duration = Duration::from_micros(500);

impl Writer {
    fn want(&self) -> Result<WantedChannel, Error> {
        let spacing = Duration::from_nanos(self.spacing_ns);
        let arrivals = LinearBounded::fixed(self.bytes, spacing, self.burst)?;
        let bound = self.bound_ns.map(Duration::from_nanos);
        let name = format!("writer {}", self.number);
        let mut want = WantedChannel::sending(name, arrivals, bound, self.to);
        if self.fragments {
            want.framing = Framing::Fragments;
        }
        if self.loses {
            want.too_early = TooEarly::Discard;
        }
        let sensitivity = Sensitivity::NAMES.iter().find(|(_, one)| one.pdus() == self.credits);
        if let Some((_, sensitivity)) = sensitivity {
            want = want.with_credits(*sensitivity);
        }
        (want.number, want.slots) = (self.number, self.slots);
        Ok(want)
    }

    pub(super) fn write(&self) -> Result<WriterReport, Error> {
        begin(self.start_ns, None)?;
        let mut broker = Broker::connect_to(&self.socket)?;
        let want = self.want()?;
        let granted = broker.open_channel(&want)?;
        let mut sending: Sending = broker.attach_channel(&granted)?;
        let until = Instant::from_nanos(self.until_ns);
        let (cpu, slept) = (clock::thread_cpu_time(), sleeps());
        let (messages, no_room) = match self.pattern {
            Pattern::Tight => (self.tight(&mut sending, until)?, 0),
            Pattern::Paced { every_ns } => self.paced(&mut sending, until, every_ns.max(1))?,
        };
        let cpu_ns = (clock::thread_cpu_time() - cpu).as_nanos();
        let sleeps = sleeps() - slept;
        // Its report shows what is left then.
        let _ = sending.drain_until(clock::now() + Duration::from_secs(2));
        let all = broker.channels()?.channels;
        let status = all.into_iter().find(|one| one.grant == granted.id());
        let status = status.ok_or("the server does not know this channel")?;
        broker.release_channel(granted)?;
        Ok(WriterReport { messages, no_room, cpu_ns, sleeps, status })
    }

    fn tight(&self, sending: &mut Sending, until: Instant) -> Result<u64, Error> {
        let mut message = vec![0x5a; self.bytes as usize];
        let mut number = 0;
        loop {
            let now = clock::now();
            if now >= until {
                return Ok(number);
            }
            Stamp { number, at: now, of: self.number }.write(&mut message);
            match sending.send_until(&message, until) {
                Ok(()) => number += 1,
                Err(SendError::TimedOut { .. }) => return Ok(number),
                Err(other) => return Err(other.into()),
            }
        }
    }

    fn paced(
        &self,
        sending: &mut Sending,
        until: Instant,
        every_ns: u64,
    ) -> Result<(u64, u64), Error> {
        let mut message = vec![0x5a; self.bytes as usize];
        let (mut number, mut no_room) = (0, 0);
        let start = clock::now();
        let due = |number: u64| start + Duration::from_nanos(every_ns * number);
        loop {
            let now = clock::now();
            if now >= until {
                return Ok((number - no_room, no_room));
            }
            while due(number) <= now {
                Stamp { number, at: due(number), of: self.number }.write(&mut message);
                match sending.try_send(&message) {
                    Ok(()) => {}
                    Err(SendError::Full { .. }) => no_room += 1,
                    Err(other) => return Err(other.into()),
                }
                number += 1;
            }
            let often = Duration::from_nanos(every_ns) < WAKES_EVERY;
            let soonest = if often { now + WAKES_EVERY } else { now };
            clock::sleep_until(due(number).max(soonest));
        }
    }
}

/// Returns how often this thread has given up its CPU (proc(5)).
fn sleeps() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
