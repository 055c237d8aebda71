//! Makes a private network, on which packets disturb no other program, and paths for packets.

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

use super::seat::Reason;

/// Larger packets than Ethernet's, so that the cost of size shows.
const MTU: u32 = 9_000;

/// The longest wait until both ends of the network can communicate.
const PATIENCE: Duration = Duration::from_secs(3);

/// The interval between attempts.
const AGAIN: Duration = Duration::from_millis(20);

/// Two network namespaces of our own, or else the loopback.
pub(super) struct Ground {
    /// The description, in words.
    pub(super) name: &'static str,
    /// The namespaces end with their last descriptors.
    namespaces: Option<[Namespace; 2]>,
}

impl Ground {
    /// Returns the best network that is available here.
    pub(super) fn find() -> Self {
        match veth() {
            Ok(namespaces) => Self { name: "veth", namespaces: Some(namespaces) },
            Err(_) => Self { name: "loopback", namespaces: None },
        }
    }

    /// Opens a socket, and the one at the far end that it is connected to.
    pub(super) fn pair(&self) -> Result<(UdpSocket, UdpSocket), Reason> {
        let open = |setup: &Setup| UdpSocket::open(setup).map_err(|why| why.to_string());
        match &self.namespaces {
            Some(namespaces) => joined(namespaces),
            None => {
                let far = open(&Setup::at(SocketAddr::from(([127, 0, 0, 1], 0))))?;
                let here = far.local_address().map_err(|why| why.to_string())?;
                Ok((open(&Setup::to(here))?, far))
            }
        }
    }
}

/// Makes two namespaces joined by a pair of interfaces that carries packets.
fn veth() -> Result<[Namespace; 2], Reason> {
    let make = || Namespace::make().map_err(|why| why.to_string());
    let (near, far) = (make()?, make()?);
    // A namespace has no name, so it is given by a path through this process. With the same
    // interface number at both ends the kernel may report their carriers up to a second late.
    let there = format!("/proc/{}/fd/{}", std::process::id(), far.as_fd().as_raw_fd());
    ip(
        &near,
        &format!(
            "link add near index 100 mtu {MTU} type veth peer name far mtu {MTU} netns {there}\n\
             address add 10.0.0.1/24 dev near\nlink set near up\n"
        ),
    )?;
    ip(&far, "address add 10.0.0.2/24 dev far\nlink set far up\n")?;
    let namespaces = [near, far];
    let (sender, receiver) = joined(&namespaces)?;
    let until = clock::now().saturating_add(PATIENCE);
    while clock::now() < until {
        // An error here belongs to an earlier attempt.
        let _ = sender.send(&Outgoing::default());
        let soon = clock::now().saturating_add(AGAIN);
        if receiver.wait(Readiness::Readable, soon) == Ok(true) {
            return Ok(namespaces);
        }
    }
    Err(format!("a pair of veth interfaces carried nothing within {PATIENCE}"))
}

/// Opens a socket in each namespace.
fn joined([near, far]: &[Namespace; 2]) -> Result<(UdpSocket, UdpSocket), Reason> {
    let inside = |namespace: &Namespace, setup: &Setup| {
        let opened = namespace.run(|| UdpSocket::open(setup)).map_err(|why| why.to_string())?;
        opened.map_err(|why| why.to_string())
    };
    let receiver = inside(far, &Setup::at(SocketAddr::from(([10, 0, 0, 2], 0))))?;
    let to = receiver.local_address().map_err(|why| why.to_string())?;
    Ok((inside(near, &Setup::to(to))?, receiver))
}

/// Passes lines to ip(8) inside the namespace.
fn ip(namespace: &Namespace, lines: &str) -> Result<(), Reason> {
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

/// The number of datagrams that are discarded in one call.
const DRAINED: usize = 64;

/// A path for packets, and its far end.
pub(super) struct Path {
    /// The description, in words.
    pub(super) name: String,
    pub(super) destination: Destination,
    /// The most bytes of a packet besides our header.
    pub(super) largest_packet: u32,
    /// The far end of a network of our own.
    far: Option<UdpSocket>,
    _ground: Option<Ground>,
}

impl Path {
    /// Makes a path to an address as the kernel routes it. Packets leave the host.
    pub(super) fn to(to: SocketAddr) -> Result<Self, Reason> {
        let near = UdpSocket::open(&Setup::to(to)).map_err(|why| why.to_string())?;
        Self::of(near, None, to.to_string(), None)
    }

    /// Makes a path on a network of our own.
    pub(super) fn of_our_own() -> Result<Self, Reason> {
        let ground = Ground::find();
        let (near, far) = ground.pair()?;
        Self::of(near, Some(far), ground.name.to_owned(), Some(ground))
    }

    fn of(
        near: UdpSocket,
        far: Option<UdpSocket>,
        name: String,
        ground: Option<Ground>,
    ) -> Result<Self, Reason> {
        let payload = near.longest_payload().map_err(|why| why.to_string())?;
        let largest_packet = payload.saturating_sub(HEADER_BYTES as u32);
        // The broker makes the same check before it starts its thread.
        let trains = probe::trains().works();
        let destination = Destination::Network { socket: Arc::new(near), trains };
        Ok(Self { name, destination, largest_packet, far, _ground: ground })
    }

    /// Discards the datagrams that have arrived at the far end, to make room for more.
    pub(super) fn drain(&self) {
        let Some(far) = &self.far else { return };
        let mut inbox = Inbox::new(DRAINED, 1);
        while far.receive(&mut inbox).is_ok_and(|arrivals| arrivals == DRAINED) {}
    }
}
