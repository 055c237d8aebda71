//! One modem on this host whose line leads to another host.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use punctual_frontend::exit::{Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_linux::clock;
use punctual_linux::net::{Inbox, Outgoing, Place, ReceiveError, Setup, UdpSocket};
use punctual_model::{Duration, Instant};
use punctual_modem::SAMPLE_RATE;
use punctual_modem::rtp::Law;
use punctual_modem::trunk::{Trunk, TrunkConfig};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::modems::every_block;
use crate::pty::{Pty, Terminal};
use crate::traced::Services;

/// The largest number of datagrams handled in one period. The rest of a flood waits in the socket
/// or is lost there.
const MOST_A_PERIOD: usize = 64;

/// Room for a datagram: no G.711 packet of a sensible length is longer.
const ROOM: usize = 2_048;

/// The peers of the line.
#[derive(clap::Args)]
pub(crate) struct Network {
    /// Accept calls at this address of this host and UDP port
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "pair")]
    listen: Option<String>,
    /// Address that any number dialled reaches
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "pair")]
    call: Option<String>,
    /// Encoding of the audio that is sent; both are understood
    #[arg(long, value_enum, default_value_t = Codec::Pcmu,
          conflicts_with_all = ["pair", "wav_in", "wav_out"])]
    codec: Codec,
    /// Delay of the jitter buffer, in ms: packets later than that are lost
    #[arg(long, value_name = "MS", default_value_t = 60,
          conflicts_with_all = ["pair", "wav_in", "wav_out"],
          value_parser = clap::value_parser!(u32).range(20..=120))]
    jitter_ms: u32,
}

/// G.711's laws by their RTP names.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Codec {
    /// µ-law
    Pcmu,
    /// A-law
    Pcma,
}

/// Runs the modem, and prints the packet counts at the end.
pub(crate) fn main(
    link: &Path,
    network: &Network,
    lasting: Option<Duration>,
    trace: &TraceArgs,
) -> Outcome {
    if network.listen.is_none() && network.call.is_none() {
        return Err(Failure::bad_input(
            "--tty needs --listen HOST:PORT to be called, --call HOST:PORT to call, or both; or \
             files for a line: --wav-in, --wav-out",
        ));
    }
    let calls = network.call.as_deref().map(resolved).transpose()?;
    let setup = match (&network.listen, calls) {
        (Some(listen), _) => Setup::at(resolved(listen)?),
        // From any local port; packets go only to `calls`.
        (None, Some(calls)) => Setup { remote: None, ..Setup::to(calls) },
        (None, None) => unreachable!("one of both was given"),
    };
    if let Some(calls) = calls.filter(|calls| calls.is_ipv6() != setup.local.is_ipv6()) {
        let local = setup.local;
        return Err(Failure::bad_input(format!(
            "{calls} cannot be called from {local}: give both as IPv4 or both as IPv6 addresses"
        )));
    }
    let mut line = Line::open(&setup)?;
    let mut trunk = Trunk::new(TrunkConfig {
        calls,
        listens: network.listen.is_some(),
        law: match network.codec {
            Codec::Pcmu => Law::Mu,
            Codec::Pcma => Law::A,
        },
        delay: network.jitter_ms * SAMPLE_RATE / 1_000,
        seed: random()?,
    });
    let services = Services::traced(trace, "modem")?;
    let mut terminal = Terminal::new(Pty::open(link)?);
    output::print(&format!("{} is a modem: {}\n", link.display(), terminal.pty().tty()))?;
    if network.listen.is_some() {
        let local = line.socket.local_address().map_err(Failure::cannot_here)?;
        output::print(&format!("it can be called at {local}\n"))?;
    }
    let outcome = every_block(lasting, services, |now| {
        line.receive(&mut trunk)?;
        terminal.serve(now, trunk.station()).map_err(Failure::cannot_here)?;
        line.step(now, &mut trunk);
        Ok(())
    })?;
    let stats = trunk.stats();
    output::print(&format!(
        "packets: {} sent, {} unsent, {} received, {} dropped, {} late, {} slips\n",
        stats.sent - line.unsent,
        line.unsent,
        stats.received,
        stats.dropped,
        stats.late,
        stats.slips
    ))?;
    Ok(outcome)
}

/// The socket and its buffers.
struct Line {
    socket: UdpSocket,
    inbox: Inbox,
    packet: Vec<u8>,
    /// Packets that the kernel did not take.
    unsent: u64,
}

impl Line {
    fn open(setup: &Setup) -> Result<Self, Failure> {
        let socket = UdpSocket::open(setup).map_err(Failure::cannot_here)?;
        Ok(Self { socket, inbox: Inbox::new(MOST_A_PERIOD, ROOM), packet: vec![], unsent: 0 })
    }

    fn receive(&mut self, trunk: &mut Trunk) -> Result<(), Failure> {
        // The error queue reports on sent packets first, and is ignored: a far end that is not
        // there does not answer, and the modem notices one that went away.
        for _ in 0..MOST_A_PERIOD {
            match self.socket.receive(&mut self.inbox) {
                Ok(_) => break,
                Err(ReceiveError::Pending(_)) => drop(self.socket.take_notice()),
                Err(why) => return Err(Failure::cannot_here(why)),
            }
        }
        // The time of arrival, not the due time, so that the measured jitter is the real one.
        let now = clock::now();
        for datagram in self.inbox.datagrams() {
            if let Some(from) = datagram.arrival.from {
                trunk.packet(now, from, datagram.bytes);
            }
        }
        Ok(())
    }

    fn step(&mut self, now: Instant, trunk: &mut Trunk) {
        let Some(to) = trunk.step(now, &mut self.packet) else { return };
        let parts = [Place::of(&self.packet)];
        let outgoing = Outgoing::new(&parts).to(to);
        // A socket with a pending error reports it once instead of sending: it belongs to an
        // earlier packet. A packet that fails twice is lost, as on any network.
        let sent = self.socket.send(&outgoing).or_else(|_| self.socket.send(&outgoing));
        self.unsent += u64::from(sent.is_err());
    }
}

/// Resolves a name to its first address.
fn resolved(name: &str) -> Result<SocketAddr, Failure> {
    let mut addresses = name.to_socket_addrs().map_err(|why| {
        Failure::bad_input(format!("{name}: {why}; give HOST:PORT, as in 192.0.2.1:5004"))
    })?;
    addresses.next().ok_or_else(|| Failure::bad_input(format!("{name} has no address")))
}

fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|why| Failure::cannot_here(format!("no random numbers: getrandom(2): {why}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
