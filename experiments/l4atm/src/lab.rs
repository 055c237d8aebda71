//! Two hosts and the processes on them.
//!
//! ```text
//! near: server, clients, plain senders ──right── veth ──left── far: listeners
//! ```
//! The thread that sets it up is on the near host from then on, and so is everything that it
//! starts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use punctual_channel::fragment::Header;
use punctual_client::Broker as Connection;
use punctual_client::wire::ChannelsStatus;
use punctual_linux::net::{Inbox, Readiness, Setup, Stamps, UdpSocket, WallOffset};
use punctual_linux::process::{Blocked, die_with_parent};
use punctual_linux::sched::Class;
use punctual_linux::{clock, sched, thread};
use punctual_model::{Duration, Instant};
use serde::de::DeserializeOwned;
use system_tests::network::{Network, higher, lower};

use crate::extent::Error;
use crate::role::{Role, Stamp};

/// The near end of the link.
pub(crate) const DEVICE: &str = "right";

/// Ethernet with preamble and gap, IPv4 and UDP.
const DATAGRAM_HEADERS: u32 = 38 + 28;

/// Below the server's threads and above everything else: it must not lose datagrams.
const PRIORITY: u8 = 40;

/// The kernel counts the memory of a datagram, not its bytes.
const BUFFER: usize = 64 << 20;

/// The two hosts of an experiment.
pub(crate) struct Lab<'a> {
    network: Network,
    folder: &'a Path,
    blocked: &'a Blocked,
    /// Whether the server keeps CPUs from entering idle states.
    awake: bool,
}

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

/// A process, which is killed when this value is dropped.
pub(crate) struct Member {
    child: Child,
    /// The thread that reads its output, so that it never waits for a full pipe.
    printed: Option<JoinHandle<std::io::Result<String>>>,
}

impl Member {
    fn start(command: &mut Command, blocked: &Blocked) -> Result<Self, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        die_with_parent(command);
        blocked.unblock_on_exec(command);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().map_err(|why| format!("{}: {why}", program.display()))?;
        let printed = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).map(|_| text)
            })
        });
        Ok(Self { child, printed })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output once it has ended, within this time.
    pub(crate) fn output(mut self, patience: Duration) -> Result<String, Error> {
        let until = clock::now() + patience;
        while self.child.try_wait()?.is_none() {
            if clock::now() > until {
                return Err(format!("process {} does not end", self.pid()).into());
            }
            clock::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait()?;
        let text = match self.printed.take().map(JoinHandle::join) {
            Some(Ok(text)) => text?,
            _ => return Err("nobody read what a process printed".into()),
        };
        match status.success() {
            true => Ok(text),
            false => Err(format!("a process of the experiment ended with {status}").into()),
        }
    }

    /// Returns its output, parsed as the report of its role.
    pub(crate) fn report<T: DeserializeOwned>(self, patience: Duration) -> Result<T, Error> {
        Ok(serde_json::from_str(&self.output(patience)?)?)
    }

    /// Returns the processor time of its first thread, in nanoseconds, as the scheduler counts it.
    pub(crate) fn first_thread_time(&self) -> Result<u64, Error> {
        let books = fs::read_to_string(format!("/proc/{}/schedstat", self.pid()))?;
        Ok(books.split(' ').next().unwrap_or_default().parse()?)
    }

    /// Returns the processor time of its thread of this name, in nanoseconds, as the scheduler
    /// counts it.
    pub(crate) fn thread_time(&self, name: &str) -> Result<u64, Error> {
        let tasks = format!("/proc/{}/task", self.pid());
        for task in fs::read_dir(&tasks)? {
            let task = task?.path();
            if fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name) {
                let books = fs::read_to_string(task.join("schedstat"))?;
                let ran = books.split(' ').next().unwrap_or_default();
                return Ok(ran.parse()?);
            }
        }
        Err(format!("no thread \"{name}\" in {tasks}").into())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    fn start(lab: &Lab<'_>, within: &Path, config: &Config) -> Result<Self, Error> {
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

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The time at which it came through the veth, by the kernel's stamp on CLOCK_MONOTONIC.
    pub(crate) at: Instant,
    /// The bytes of the message in it.
    pub(crate) bytes: u32,
    /// The stamp that its sender wrote at its beginning. Of fragments, only the first of a message
    /// has one.
    pub(crate) stamp: Option<Stamp>,
}

/// Receives until it is asked for what it received.
pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Received>, Error>>>,
}

impl Listener {
    fn open(at: SocketAddr) -> Result<UdpSocket, Error> {
        let socket = UdpSocket::open(&Setup::at(at))?;
        socket.set_receive_buffer(BUFFER)?;
        socket.set_stamps(Stamps { receive: true, ..Stamps::default() })?;
        Ok(socket)
    }

    fn start(socket: UdpSocket) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("listener".into()).spawn(move || {
            sched::set(thread::current(), Class::Fifo { priority: PRIORITY })?;
            receive(&socket, &stopped)
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Returns everything that arrived until a moment from now.
    pub(crate) fn received(mut self) -> Result<Vec<Received>, Error> {
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

fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Result<Vec<Received>, Error> {
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
                // Without a stamp if the kernel had not begun to make them.
                let Some(at) = stamp else { continue };
                let (payload, first) = match Header::read(datagram.bytes) {
                    Ok((header, piece)) => (piece, header.offset == 0),
                    Err(_) => (datagram.bytes, true),
                };
                let stamp = first.then(|| Stamp::read(payload)).flatten();
                heard.push(Received { at, bytes: payload.len() as u32, stamp });
            }
        }
    }
    match offset.holds(&WallOffset::measure()) {
        true => Ok(heard),
        false => Err("the wall clock was set meanwhile: the stamps mean nothing".into()),
    }
}

/// A socket that is never read: it counts datagrams, and costs the sender no more than that.
pub(crate) struct Sink {
    socket: UdpSocket,
}

impl Sink {
    fn open(at: SocketAddr) -> Result<Self, Error> {
        let socket = UdpSocket::open(&Setup::at(at))?;
        socket.set_receive_buffer(1)?;
        Ok(Self { socket })
    }

    /// Returns the number of datagrams that arrived and were dropped, modulo 2³²: all but the first
    /// one or two.
    pub(crate) fn count(&self) -> Result<u32, Error> {
        Ok(self.socket.drops()?)
    }
}
