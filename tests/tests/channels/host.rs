//! A broker that carries channels, and its clients.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, thread};

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_channel::client::{Receiving, Sending};
use punctual_client::want::WantedChannel;
use punctual_client::wire::{ChannelStatus, ChannelsStatus};
use punctual_client::{Broker as Connection, GrantedChannel};
use punctual_linux::process::{Signal, die_with_parent, send};
use punctual_linux::sched::Class;
use punctual_model::Duration;
use punctual_model::channel::{Framing, LinearBounded};
use system_tests::live;
use system_tests::network::Node;
use tempfile::TempDir;

const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Serialises the tests: their threads run above everything else.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> Option<MutexGuard<'static, ()>> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    live::may(Class::Fifo { priority: 82 }).then_some(guard)
}

pub(crate) const CONFIG: &str = r#"
    [broker]
    grace = "3s"
    [channels]
    link = "1gbit/s"
    per_packet = "10us"
    cpu = "8ms/10ms"
    room = 64
    [default]
    share = "60%"
    link = "100%"
    max_grants = 2000
    queue_memory = "1GiB"
    allow = ["channels"]
"#;

/// Plays the role of another process; not a test.
#[test]
fn other_process() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split_once(' ') {
        Some(("broker", folder)) => {
            let folder = PathBuf::from(folder);
            punctual_broker::log::start(false);
            let server = Server::open(Options {
                config: folder.join("broker.toml"),
                config_must_exist: true,
                socket: folder.join("socket"),
                state: folder.join("state"),
                measured: None,
                part: |part| this_program(format!("part {}", part.name())),
            });
            server.expect("opens").run().expect("runs");
        }
        Some(("part", name)) => {
            punctual_broker::log::start(false);
            Part::of_name(name).expect("a part").run().expect("runs");
        }
        Some(("client", rest)) => crate::deaths::publish_and_wait(rest),
        _ => panic!("{role}"),
    }
}

/// Returns a command that runs this program again.
pub(crate) fn another(role: String) -> Command {
    let mut command = this_program(role);
    die_with_parent(&mut command);
    command
}

fn this_program(role: String) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "host::other_process", "--nocapture", "--quiet"]).env(ROLE, role);
    command
}

/// A broker, which is killed when this value is dropped.
pub(crate) struct Broker<'a> {
    folder: TempDir,
    child: Child,
    /// The node that it runs on.
    node: Option<&'a Node>,
}

impl<'a> Broker<'a> {
    pub(crate) fn start(config: &str) -> Self {
        Self::start_in(None, config)
    }

    pub(crate) fn start_in(node: Option<&'a Node>, config: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("punctual-channels").tempdir();
        let folder = folder.expect("a folder");
        fs::write(folder.path().join("broker.toml"), config).expect("written");
        let child = spawn(&folder, node);
        let broker = Self { folder, child, node };
        broker.wait_until_it_answers();
        broker
    }

    fn wait_until_it_answers(&self) {
        let answers = || Connection::connect_to(&self.socket()).is_ok();
        assert!(live::eventually(answers), "no answer:\n{}", self.log());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::connect_to(&self.socket()).expect("it runs")
    }

    pub(crate) fn channels(&self) -> ChannelsStatus {
        self.connect().channels().expect("it answers")
    }

    pub(crate) fn channel(&self, granted: &GrantedChannel) -> ChannelStatus {
        let all = self.channels().channels;
        all.into_iter().find(|one| one.grant == granted.id()).expect("it is there")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Signals its own process, but not its front and guard.
    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    /// Stops the broker, and returns when none of its threads runs any more: each stops by itself
    /// when it notices the signal.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stands = |thread: fs::DirEntry| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        };
        let threads = || fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        assert!(live::eventually(|| threads().flatten().all(stands)), "it does not stop");
    }

    /// Ends the broker as a service manager does.
    pub(crate) fn end(&mut self) {
        send(&self.child, Signal::TERM).expect("our child");
        let ended = || self.child.try_wait().expect("our child").is_some();
        assert!(live::eventually(ended), "it does not end:\n{}", self.log());
    }

    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, self.node);
        self.wait_until_it_answers();
    }

    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id());
        fs::read_dir(folder).expect("it lives").count()
    }

    /// Returns the number of its mappings.
    pub(crate) fn mappings(&self) -> usize {
        let file = format!("/proc/{}/maps", self.child.id());
        fs::read_to_string(file).expect("it lives").lines().count()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn spawn(folder: &TempDir, node: Option<&Node>) -> Child {
    let mut command = this_program(format!("broker {}", folder.path().display()));
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("ours"));
    match node {
        None => {
            die_with_parent(&mut command);
            command.spawn().expect("this program")
        }
        // The thread that starts it ends, and that thread would count as its parent.
        Some(node) => node.start(&mut command),
    }
}

impl Drop for Broker<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("the broker's log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the arrivals of a message of up to `bytes` every `spacing_us`.
pub(crate) fn arrivals(bytes: u32, spacing_us: u64, burst: u32) -> LinearBounded {
    LinearBounded::new(1, bytes, Duration::from_micros(spacing_us), burst).expect("valid")
}

/// Returns a channel to `to`, with a delay bound that is exceeded only if the host stalls.
pub(crate) fn to(to: SocketAddr, bytes: u32, spacing_us: u64, framing: Framing) -> WantedChannel {
    let bound = Some(Duration::from_millis(50));
    let burst = 8;
    WantedChannel {
        framing,
        ..WantedChannel::sending("test", arrivals(bytes, spacing_us, burst), bound, to)
    }
}

pub(crate) fn open_sending(
    broker: &mut Connection,
    want: &WantedChannel,
) -> (GrantedChannel, Sending) {
    let granted = broker.open_channel(want).expect("there is room");
    let sending = broker.attach_channel(&granted).expect("as granted");
    (granted, sending)
}

pub(crate) fn open_receiving(
    broker: &mut Connection,
    want: &WantedChannel,
) -> (GrantedChannel, Receiving) {
    let granted = broker.open_channel(want).expect("there is room");
    let receiving = broker.attach_channel(&granted).expect("as granted");
    (granted, receiving)
}

/// Returns a plain socket that receives the messages, and its address.
pub(crate) fn listener() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a socket");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// Returns a message whose first four bytes are a number.
pub(crate) fn numbered(number: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![number as u8; bytes];
    message[..4].copy_from_slice(&number.to_be_bytes());
    message
}

pub(crate) fn number_of(message: &[u8]) -> u32 {
    let [a, b, c, d, rest @ ..] = message else { panic!("{} bytes", message.len()) };
    let number = u32::from_be_bytes([*a, *b, *c, *d]);
    assert!(rest.iter().all(|byte| *byte == number as u8), "the bytes of {number}");
    number
}
