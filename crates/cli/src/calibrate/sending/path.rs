//! Where packets are sent.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use punctual_channel::fragment::HEADER_BYTES;
use punctual_channel::server::sender::thread::trial::Destination;
use punctual_linux::clock;
use punctual_linux::net::namespace::Namespace;
use punctual_linux::net::{Inbox, Outgoing, Readiness, Setup, UdpSocket, probe};
use punctual_model::Duration;

use super::Why;

/// Larger packets than Ethernet's, so that what size costs shows.
const MTU: u32 = 9_000;

/// For how long the two ends of our own network may need to find each other.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often that is tried.
const AGAIN: Duration = Duration::from_millis(20);

/// Datagrams that are thrown away in one go.
const DRAINED: usize = 64;

/// A way for packets, and who is at its end.
pub(super) struct Path {
    /// In words.
    pub(super) name: String,
    pub(super) destination: Destination,
    /// The most bytes that a packet may have beside our header.
    pub(super) largest_packet: u32,
    /// Of a network of our own, the other end.
    far: Option<UdpSocket>,
    /// They end with their last descriptor.
    _namespaces: Vec<Namespace>,
}

impl Path {
    /// To an address, as the kernel routes it: packets leave.
    pub(super) fn to(to: SocketAddr) -> Result<Self, Why> {
        let near = UdpSocket::open(&Setup::to(to)).map_err(|why| why.to_string())?;
        Self::of(near, None, to.to_string(), Vec::new())
    }

    /// Where nobody notices: between two network namespaces of our own, else on the loopback.
    pub(super) fn of_our_own() -> Result<Self, Why> {
        match veth() {
            Ok((near, far, namespaces)) => Self::of(near, Some(far), "veth".to_owned(), namespaces),
            Err(_) => {
                let (near, far) = connected("127.0.0.1:0")?;
                Self::of(near, Some(far), "loopback".to_owned(), Vec::new())
            }
        }
    }

    fn of(
        near: UdpSocket,
        far: Option<UdpSocket>,
        name: String,
        namespaces: Vec<Namespace>,
    ) -> Result<Self, Why> {
        let payload = near.longest_payload().map_err(|why| why.to_string())?;
        let largest_packet = payload.saturating_sub(HEADER_BYTES as u32);
        // As the broker asks before it starts its thread.
        let trains = probe::trains().works();
        let destination = Destination::Network { socket: Arc::new(near), trains };
        Ok(Self { name, destination, largest_packet, far, _namespaces: namespaces })
    }

    /// Throws away what has come to the other end, so that there is room for more.
    pub(super) fn drain(&self) {
        let Some(far) = &self.far else { return };
        let mut inbox = Inbox::new(DRAINED, 1);
        while far.receive(&mut inbox).is_ok_and(|arrivals| arrivals == DRAINED) {}
    }
}

/// A socket, and one that speaks with it alone, in this namespace.
fn connected(at: &str) -> Result<(UdpSocket, UdpSocket), Why> {
    let at = at.parse().map_err(|_| format!("\"{at}\" is no address"))?;
    let far = UdpSocket::open(&Setup::at(at)).map_err(|why| why.to_string())?;
    let here = far.local_address().map_err(|why| why.to_string())?;
    let near = UdpSocket::open(&Setup::to(here)).map_err(|why| why.to_string())?;
    Ok((near, far))
}

/// Two namespaces joined by a pair of interfaces, and a socket in each.
fn veth() -> Result<(UdpSocket, UdpSocket, Vec<Namespace>), Why> {
    let make = || Namespace::make().map_err(|why| why.to_string());
    let (near, far) = (make()?, make()?);
    // A path through this process: the namespace has no name. With the same number at both ends the
    // kernel may tell of their carriers up to a second late.
    let there = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
    ip(
        &near,
        &format!(
            "link add near index 100 mtu {MTU} type veth peer name far mtu {MTU} netns {there}\n\
             address add 10.0.0.1/24 dev near\nlink set near up\n"
        ),
    )?;
    ip(&far, "address add 10.0.0.2/24 dev far\nlink set far up\n")?;
    let inside = |namespace: &Namespace, setup: &Setup| {
        let opened = namespace.run(|| UdpSocket::open(setup)).map_err(|why| why.to_string())?;
        opened.map_err(|why| why.to_string())
    };
    let at = SocketAddr::from(([10, 0, 0, 2], 0));
    let receiver = inside(&far, &Setup::at(at))?;
    let to = receiver.local_address().map_err(|why| why.to_string())?;
    let sender = inside(&near, &Setup::to(to))?;
    let until = clock::now().saturating_add(PATIENCE);
    while clock::now() < until {
        // An error tells of an earlier try.
        let _ = sender.send(&Outgoing::default());
        let soon = clock::now().saturating_add(AGAIN);
        if receiver.wait(Readiness::Readable, soon) == Ok(true) {
            return Ok((sender, receiver, vec![near, far]));
        }
    }
    Err(format!("a pair of veth interfaces carried nothing within {PATIENCE}"))
}

/// Lines for ip(8), inside.
fn ip(namespace: &Namespace, lines: &str) -> Result<(), Why> {
    let run = || -> std::io::Result<std::process::Output> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(lines.as_bytes())?;
        }
        child.wait_with_output()
    };
    match namespace.run(run).map_err(|why| why.to_string())? {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(why) => Err(format!("ip cannot be run: {why}")),
    }
}
