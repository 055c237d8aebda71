//! Channels from the broker.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::time::Duration as Time;

use punctual_channel::client::Sending;
use punctual_channel::client::compact::Compact;
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, GrantedChannel};

use crate::process::{Holder, Opened, Opener};

/// How long the program's first datagram may wait for an answer, and a later one after the broker
/// has ended.
const PATIENCE: Time = Time::from_secs(2);
const AGAIN: Time = Time::from_millis(200);

/// The broker that listens at this path.
#[derive(Debug)]
pub(crate) struct AtBroker(pub(crate) PathBuf);

struct Held {
    path: PathBuf,
    broker: Broker,
    granted: GrantedChannel,
}

impl Opener for AtBroker {
    fn open(&self, request: &Compact, to: SocketAddr) -> Result<Opened, String> {
        let words = |why: &dyn std::fmt::Display| why.to_string();
        let path = self.0.clone();
        let mut broker = Broker::connect_within(&path, PATIENCE).map_err(|why| words(&why))?;
        let name = program().unwrap_or_else(|| "program".to_owned());
        let want = WantedChannel::of_line(name, request, to);
        let granted = broker.open_channel(&want).map_err(|why| words(&why))?;
        let sending = broker.attach_channel(&granted).map_err(|why| words(&why))?;
        Ok(Opened { sending, held: Box::new(Held { path, broker, granted }) })
    }
}

impl Holder for Held {
    fn rejoin(&mut self, sending: &mut Sending) -> Result<(), String> {
        let words = |why: &dyn std::fmt::Display| why.to_string();
        let mut broker = Broker::connect_within(&self.path, AGAIN).map_err(|why| words(&why))?;
        broker.resume_channel(&mut self.granted).map_err(|why| words(&why))?;
        broker.reattach_channel(&self.granted, sending).map_err(|why| words(&why))?;
        self.broker = broker;
        Ok(())
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.broker.as_fd().as_raw_fd())
    }
}

/// Returns the program's name, limited to 32 printable ASCII characters.
fn program() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    let name = path.file_name()?.to_string_lossy();
    let name: String = name.chars().filter(char::is_ascii_graphic).take(32).collect();
    (!name.is_empty()).then_some(name)
}
