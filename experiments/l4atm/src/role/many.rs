//! A client with very many channels.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use punctual_channel::client::{Attach as _, Sending};
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, GrantedChannel};
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_model::channel::{Framing, LinearBounded};
use serde::{Deserialize, Serialize};

use super::Stamp;
use crate::extent::Error;

/// The number of channels, and the steps to that.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Many {
    pub(crate) socket: PathBuf,
    /// The server's process.
    pub(crate) server: u32,
    pub(crate) to: SocketAddr,
    /// The number of its first channel.
    pub(crate) first: u32,
    pub(crate) levels: Vec<u32>,
    /// A file that it makes when all channels are open.
    pub(crate) ready: PathBuf,
    /// A file for which it then waits before it sends.
    pub(crate) go: PathBuf,
}

/// The longest wait for that file.
const PATIENCE: Duration = Duration::from_secs(120);

/// The measurements at each number of channels.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Opened {
    /// Before the first channel.
    pub(crate) nothing: [Resources; 2],
    pub(crate) levels: Vec<Level>,
    /// Why there are fewer channels than requested, if there are.
    pub(crate) stopped: Option<String>,
    /// The messages that had left at the last status.
    pub(crate) left: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Level {
    pub(crate) channels: u32,
    /// The round trips of opening and attaching since the previous level, and the making of the
    /// queue between them, in nanoseconds.
    pub(crate) open_ns: Vec<u64>,
    pub(crate) attach_ns: Vec<u64>,
    pub(crate) queue_ns: Vec<u64>,
    /// The resources of the server, and of the client.
    pub(crate) held: [Resources; 2],
}

/// The resources that a process holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Resources {
    pub(crate) resident_kb: u64,
    pub(crate) mappings: u64,
    pub(crate) descriptors: u64,
}

/// Returns a channel with room for 8 messages of 64 bytes, one a second. It uses fragments, so that
/// all channels share a socket.
fn want(to: SocketAddr, number: u32) -> Result<WantedChannel, Error> {
    let second = Duration::from_secs(1);
    let arrivals = LinearBounded::fixed(64, second, 1)?;
    let want = WantedChannel::sending("one of many", arrivals, Some(second), to);
    Ok(WantedChannel { framing: Framing::Fragments, number, ..want })
}

impl Many {
    pub(super) fn open(&self) -> Result<Opened, Error> {
        let Self { server, to, first, .. } = *self;
        let levels = &self.levels;
        let mut broker = Broker::connect_to(&self.socket)?;
        let held = || -> Result<[Resources; 2], Error> {
            Ok([Resources::of(server)?, Resources::of(std::process::id())?])
        };
        let most = levels.iter().copied().max().unwrap_or(0) as usize;
        let mut all: Vec<(GrantedChannel, Sending)> = Vec::with_capacity(most);
        let mut opened = Opened { nothing: held()?, levels: Vec::new(), stopped: None, left: 0 };
        let began = clock::now();
        'levels: for &channels in levels {
            let mut level = Level {
                channels,
                open_ns: Vec::new(),
                attach_ns: Vec::new(),
                queue_ns: Vec::new(),
                held: Default::default(),
            };
            while all.len() < channels as usize {
                let want = want(to, first + all.len() as u32)?;
                let times = one(&mut broker, &want).map(|(granted, sending, times)| {
                    all.push((granted, sending));
                    times
                });
                match times {
                    Ok([open, queue, attach]) => {
                        level.open_ns.push(open);
                        level.queue_ns.push(queue);
                        level.attach_ns.push(attach);
                    }
                    Err(why) => {
                        opened.stopped = Some(format!("channel {}: {why}", all.len()));
                        level.channels = all.len() as u32;
                        level.held = held()?;
                        opened.levels.push(level);
                        break 'levels;
                    }
                }
            }
            let took = clock::now().saturating_since(began);
            eprintln!("{channels} channels after {took}");
            level.held = held()?;
            opened.levels.push(level);
        }
        fs::write(&self.ready, "")?;
        let until = clock::now() + PATIENCE;
        while !self.go.exists() {
            if clock::now() > until {
                return Err("nobody said go".into());
            }
            clock::sleep(Duration::from_millis(10));
        }
        let mut message = [0x5a; 64];
        for (number, (_, sending)) in all.iter_mut().enumerate() {
            let (number, of) = (number as u64, first + number as u32);
            Stamp { number, at: clock::now(), of }.write(&mut message);
            sending.send(&message)?;
        }
        let until = clock::now() + Duration::from_secs(5);
        for (_, sending) in &mut all {
            opened.left += u64::from(sending.drain_until(until).is_ok());
        }
        Ok(opened)
    }
}

fn one(
    broker: &mut Broker,
    want: &WantedChannel,
) -> Result<(GrantedChannel, Sending, [u64; 3]), Error> {
    let began = clock::now();
    let granted = broker.open_channel(want)?;
    let asked = clock::now();
    let queue = broker.make_queue(&granted, 0)?;
    let sending = Sending::map(queue, want.geometry())?;
    let made = clock::now();
    broker.say_mapped(&granted)?;
    let attached = clock::now();
    let times = [asked - began, made - asked, attached - made].map(|time| time.as_nanos());
    Ok((granted, sending, times))
}

impl Resources {
    fn of(process: u32) -> Result<Self, Error> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.split_whitespace().next());
        Ok(Self {
            resident_kb: resident.ok_or("no VmRSS")?.parse()?,
            mappings: fs::read_to_string(format!("/proc/{process}/maps"))?.lines().count() as u64,
            descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
        })
    }
}
