//! Runs the server as a process of its own.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_client::Broker as Connection;
use punctual_client::wire::ChannelsStatus;
use punctual_linux::clock;
use punctual_model::Duration;

use super::{Lab, Member};
use crate::Error;
use crate::role::Role;

/// The part of the configuration that differs between experiments.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The link, as written in the configuration.
    pub(crate) link: String,
    pub(crate) packet: u32,
    pub(crate) packets_per_block: u32,
    /// The bytes around each payload: Ethernet with its gap, IPv4, UDP, and the header of fragments
    /// if there is one.
    pub(crate) headers: u32,
    pub(crate) cpu: &'static str,
    pub(crate) per_packet: &'static str,
    pub(crate) room: u32,
    pub(crate) on: Option<usize>,
}

/// Ethernet with preamble and gap, IPv4 and UDP.
pub(crate) const DATAGRAM_HEADERS: u32 = 38 + 28;

impl Config {
    /// Returns the configuration for datagrams of up to 1,472 bytes.
    pub(crate) fn datagrams(link: &str) -> Self {
        Self {
            link: link.into(),
            packet: 1_472,
            packets_per_block: 1,
            headers: DATAGRAM_HEADERS,
            cpu: "500us/1ms",
            per_packet: "10us",
            room: 64,
            on: None,
        }
    }

    /// Returns the configuration for messages in fragments of 1,440 bytes, in trains of `train`.
    pub(crate) fn fragments(link: &str, train: u32) -> Self {
        Self {
            packet: 1_440,
            packets_per_block: train,
            headers: DATAGRAM_HEADERS + 32,
            // Over a longer time than a message's: within a millisecond all messages could come at once.
            cpu: "5ms/10ms",
            ..Self::datagrams(link)
        }
    }

    fn to_toml(&self, awake: bool) -> String {
        let Self { link, packet, packets_per_block, headers, cpu, per_packet, room, .. } = self;
        format!(
            "[channels]\nlink = \"{link}\"\npacket = {packet}\npackets_per_block = \
             {packets_per_block}\nheaders = {headers}\ncpu = \"{cpu}\"\nper_packet = \
             \"{per_packet}\"\nroom = {room}\nawake = {awake}\n[default]\nshare = \"60%\"\nlink = \
             \"100%\"\nmax_grants = 20000\nqueue_memory = \"4GiB\"\nallow = [\"channels\"]\n"
        )
    }
}

/// The server's process, which is killed when this value is dropped, and its folder, which is
/// removed.
pub(crate) struct Broker {
    folder: tempfile::TempDir,
    pub(crate) process: Member,
}

impl Broker {
    pub(super) fn start(lab: &Lab<'_>, within: &Path, config: &Config) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("server").tempdir_in(within)?;
        fs::write(folder.path().join("broker.toml"), config.to_toml(lab.awake))?;
        let role = Role::Server { folder: folder.path().into() };
        let process = match config.on {
            Some(cpu) => lab.start_on(cpu, &role),
            None => lab.start(&role),
        }?;
        let broker = Self { folder, process };
        let until = clock::now() + Duration::from_secs(10);
        while let Err(why) = Connection::connect_to(&broker.socket()) {
            if clock::now() > until {
                return Err(format!("the server does not answer: {why}").into());
            }
            clock::sleep(Duration::from_millis(5));
        }
        Ok(broker)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn channels(&self) -> Result<ChannelsStatus, Error> {
        Ok(Connection::connect_to(&self.socket())?.channels()?)
    }
}
