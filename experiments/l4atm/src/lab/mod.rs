//! Two hosts and the processes on them.
//!
//! ```text
//! near: server, clients, plain senders ──right── veth ──left── far: listeners
//! ```
//! The thread that sets it up is on the near host from then on, and so is everything that it
//! starts.

mod broker;
mod far;
mod processes;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_linux::process::Blocked;
use punctual_linux::thread;
use system_tests::network::{Network, higher, lower};

use crate::Error;
use crate::role::Role;
pub(crate) use broker::{Broker, Config};
pub(crate) use far::{Listener, Received, Sink};
pub(crate) use processes::Member;

/// The two hosts of an experiment.
pub(crate) struct Lab<'a> {
    network: Network,
    folder: &'a Path,
    blocked: &'a Blocked,
    /// Whether the server keeps CPUs from entering idle states.
    awake: bool,
}

/// The near end of the link.
pub(crate) const DEVICE: &str = "right";

impl<'a> Lab<'a> {
    /// Makes both hosts, and enters the near one.
    pub(crate) fn set_up(
        folder: &'a Path,
        blocked: &'a Blocked,
        awake: bool,
    ) -> Result<Self, Error> {
        // Ten thousand channels have more descriptors than most hosts allow a process.
        raise_descriptors();
        let network = Network::line(2).ok_or("no networks to measure on: see above")?;
        network.node(0).namespace().enter()?;
        Ok(Self { network, folder, blocked, awake })
    }

    /// Returns the address of a port on the far host.
    pub(crate) fn port(&self, port: u16) -> SocketAddr {
        higher(0).port(false, port)
    }

    /// Receives and records the datagrams to a port there.
    pub(crate) fn listen(&self, port: u16) -> Result<Listener, Error> {
        let at = self.port(port);
        Listener::start(self.network.node(1).run(|| Listener::open(at))?)
    }

    /// Counts the datagrams to a port there, and drops them.
    pub(crate) fn sink(&self, port: u16) -> Result<Sink, Error> {
        let at = self.port(port);
        self.network.node(1).run(|| Sink::open(at))
    }

    /// Starts a server.
    pub(crate) fn broker(&self, config: &Config) -> Result<Broker, Error> {
        Broker::start(self, self.folder, config)
    }

    /// Starts this program in a role.
    pub(crate) fn start(&self, role: &Role) -> Result<Member, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("role").arg(serde_json::to_string(role)?);
        self.start_command(&mut command)
    }

    /// Starts this program in a role, on one CPU.
    pub(crate) fn start_on(&self, cpu: usize, role: &Role) -> Result<Member, Error> {
        self.on(cpu, || self.start(role))
    }

    /// Runs `work` on one CPU; processes that it starts stay there.
    pub(crate) fn on<T>(
        &self,
        cpu: usize,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = thread::affinity();
        thread::pin_to(cpu)?;
        let done = work();
        thread::set_affinity(&before)?;
        done
    }

    /// Starts another program.
    pub(crate) fn start_command(&self, command: &mut Command) -> Result<Member, Error> {
        Member::start(command, self.blocked)
    }

    /// Starts another program on the far host.
    pub(crate) fn start_far(&self, command: &mut Command) -> Result<Member, Error> {
        self.network.node(1).namespace().enter()?;
        let started = self.start_command(command);
        self.network.node(0).namespace().enter()?;
        started
    }

    /// Sets the queueing discipline at the near end in the syntax of tc(8), or removes it for
    /// `None`.
    pub(crate) fn shape(&self, lines: Option<&str>) -> Result<(), Error> {
        let index = self.network.interface(lower(0)).index;
        // There is none at the beginning.
        let _ = punctual_linux::net::route::remove_discipline(index);
        let Some(lines) = lines else { return Ok(()) };
        let mut command = Command::new("tc");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(format!("{lines}\n").as_bytes())?;
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("tc: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }

    /// Sets a token bucket of this rate, in bits a second of Ethernet frames without their gaps.
    pub(crate) fn bucket(&self, bps: u64, burst: u32) -> Result<(), Error> {
        self.shape(Some(&format!(
            "qdisc add dev {DEVICE} root tbf rate {bps}bit burst {burst} limit 400000"
        )))
    }
}

/// Raises the limit as far as possible: more than the hard limit takes CAP_SYS_RESOURCE.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const MANY: u64 = 200_000;
    let more = Rlimit { current: Some(MANY), maximum: Some(MANY) };
    if setrlimit(Resource::Nofile, more).is_err() {
        let most = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    }
}
