//! Starts buses, brokers, services and callers, and ends them whatever happens.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration as Time;
use std::{env, thread};

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_client::Broker;
use punctual_client::wire::{GrantStatus, Status};
use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use tempfile::TempDir;

const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// The user id of `nobody`.
pub(crate) const USER: u32 = 65_534;

/// Serialises the tests: they share the kernel's real-time CPU time.
static ALONE: Mutex<()> = Mutex::new(());

/// A bus on which everybody may do everything.
pub(crate) const OPEN: &str = r#"<policy context="default"><allow user="*"/><allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/></policy>"#;

/// A broker that promises enough, and waits for services on a busy host.
pub(crate) const GENEROUS: &str = r#"
    [broker]
    grace = "3s"
    penalty = "5s"
    run_limit = "1s"
    sample = "50ms"
    [default]
    share = "60%"
    shortest_period = "1ms"
    allow = ["upcalls", "reservations", "priority"]
"#;

/// A service that needs no polkit.
pub(crate) const TRUSTING: &str = "[rtkit]\nwithout_polkit = \"allow\"\n";

/// Plays the role of another process; not a test.
#[test]
fn other_process() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split_once(' ') {
        Some(("broker", folder)) => {
            punctual_broker::log::start(false);
            let server = Server::open(options(folder.into())).expect("opens");
            server.run().expect("runs");
        }
        Some(("part", name)) => {
            punctual_broker::log::start(false);
            Part::of_name(name).expect("a part").run().expect("runs");
        }
        Some(("caller", _)) => crate::caller::obey(),
        Some(("polkit", folder)) => crate::polkit::serve(Path::new(folder)),
        _ => panic!("{role}"),
    }
}

fn options(folder: PathBuf) -> Options {
    Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part,
    }
}

fn part(part: Part) -> Command {
    let mut command = again(&format!("part {}", part.name()));
    // The guard outlives its broker and ends by itself when there is nothing left to police.
    if part != Part::Guard {
        die_with_parent(&mut command);
    }
    command
}

fn again(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "host::other_process", "--nocapture", "--quiet"]).env(ROLE, role);
    command
}

/// Waits up to ten seconds until `holds` returns true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        thread::sleep(Time::from_millis(10));
    }
    panic!("not within ten seconds: {what}");
}

/// A process that is killed when this value is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus, a broker and a service in a folder of their own, while no other test has them.
pub(crate) struct Host {
    service: Option<Killed>,
    broker: Option<Killed>,
    polkit: Option<Killed>,
    _bus: Killed,
    folder: TempDir,
    /// The user that the broker has become.
    account: u32,
    _alone: MutexGuard<'static, ()>,
}

impl Host {
    /// Starts everything. Returns `None` if this host cannot.
    pub(crate) fn start(broker: &str, service: &str) -> Option<Self> {
        let mut host = Self::without_service(broker, OPEN)?;
        host.start_service(service);
        Some(host)
    }

    /// Starts a bus with this policy, and a broker.
    pub(crate) fn without_service(broker: &str, policy: &str) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = sched::try_out(Class::Fifo { priority: 80 }) {
            println!("skipped: {why}");
            return None;
        }
        let mut probe = Command::new(env::current_exe().expect("this program"));
        probe.arg("--list").uid(USER).gid(USER).stdout(Stdio::null());
        if let Err(why) = probe.status() {
            println!("skipped: user {USER} cannot run this program: {why}");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("punctual-rtkit").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        fs::write(folder.path().join("broker.toml"), broker).expect("written");
        let bus = bus(folder.path(), policy)?;
        let (polkit, service) = (None, None);
        let mut host =
            Self { service, broker: None, polkit, _bus: bus, folder, account: 0, _alone: alone };
        host.start_broker();
        Some(host)
    }

    pub(crate) fn start_broker(&mut self) {
        let mut command = again(&format!("broker {}", self.path().display()));
        die_with_parent(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log_file("broker.log"));
        let broker = Killed(command.spawn().expect("this program"));
        eventually("the broker answers", || Broker::connect_to(&self.socket()).is_ok());
        self.account = account_of(&broker.0);
        self.broker = Some(broker);
    }

    pub(crate) fn kill_broker(&mut self) {
        self.broker = None;
    }

    /// Starts the service as root without any capability. (The broker's own user has no name on most
    /// hosts, and a bus turns users without a name away.)
    pub(crate) fn start_service(&mut self, config: &str) {
        fs::write(self.path().join("rtkit.toml"), config).expect("written");
        let state = self.path().join("rtkit");
        if !state.exists() {
            fs::create_dir(&state).expect("ours");
        }
        let lines = self.log().lines().count();
        let mut command = self.service_command(0);
        die_with_parent(&mut command);
        command.stdin(Stdio::null()).stderr(self.log_file("service.log"));
        self.service = Some(Killed(command.spawn().expect("the program")));
        eventually("the service is ready", || {
            self.log().lines().skip(lines).any(|line| line.contains("ready"))
        });
    }

    /// Waits until the service has ended by itself, and returns its exit code.
    pub(crate) fn ended_service(&mut self) -> Option<i32> {
        let mut service = self.service.take().expect("it was started");
        let mut ended = None;
        eventually("the service ends", || {
            ended = service.0.try_wait().expect("our child");
            ended.is_some()
        });
        ended.expect("it has ended").code()
    }

    pub(crate) fn kill_service(&mut self) {
        self.service = None;
    }

    /// Returns the command that runs the service on this bus as user `uid`.
    pub(crate) fn service_command(&self, uid: u32) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-all"]);
        command
            .arg(env!("CARGO_BIN_EXE_punctual-rtkit"))
            .arg("--config")
            .arg(self.path().join("rtkit.toml"));
        command.arg("--broker").arg(self.socket());
        command.arg("--state").arg(self.path().join("rtkit"));
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.address()).uid(uid).gid(uid);
        command
    }

    pub(crate) fn start_polkit(&mut self) {
        let mut command = again(&format!("polkit {}", self.path().display()));
        die_with_parent(&mut command);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.address());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.polkit = Some(Killed(command.spawn().expect("this program")));
        eventually("polkit is ready", || self.path().join("polkit.ready").exists());
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("socket")
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.path().join("bus").display())
    }

    /// Returns everything that the service has logged, without colours.
    pub(crate) fn log(&self) -> String {
        let text = fs::read_to_string(self.path().join("service.log")).unwrap_or_default();
        let mut plain = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').map_or("", |(_, after)| after);
        }
        plain + rest
    }

    fn log_file(&self, name: &str) -> File {
        let path = self.path().join(name);
        File::options().create(true).append(true).open(path).expect("ours")
    }

    pub(crate) fn status(&self) -> Status {
        Broker::connect_to(&self.socket()).expect("it runs").status().expect("it answers")
    }

    /// Returns the grants of a process.
    pub(crate) fn grants_of(&self, caller: &Caller) -> Vec<GrantStatus> {
        let mut grants = self.status().grants;
        grants.retain(|grant| grant.pid == caller.pid());
        grants
    }

    /// Starts a caller of an ordinary user.
    pub(crate) fn caller(&self) -> Caller {
        self.caller_of(USER)
    }

    /// Starts a caller of the broker's user.
    pub(crate) fn colleague(&self) -> Caller {
        self.caller_of(self.account)
    }

    fn caller_of(&self, uid: u32) -> Caller {
        let mut command = again("caller of-the-service");
        die_with_parent(&mut command);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.address());
        command.uid(uid).gid(uid).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut caller = Caller { child: Killed(child), input, output, thread: 0 };
        let ready = caller.read();
        caller.thread = ready.strip_prefix("ready ").expect("ready").parse().expect("a number");
        caller
    }

    /// Calls a method of the service with dbus-send(1) as this user.
    pub(crate) fn dbus_send(&self, uid: u32, method: &str, arguments: &[String]) -> Output {
        let mut command = Command::new("dbus-send");
        command.arg(format!("--bus={}", self.address())).arg("--print-reply");
        command.args(["--dest=org.freedesktop.RealtimeKit1", "/org/freedesktop/RealtimeKit1"]);
        command.arg(format!("org.freedesktop.RealtimeKit1.{method}")).args(arguments);
        command.uid(uid).gid(uid).output().expect("dbus-send, of the package of dbus-daemon")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("the service's log:\n{}", self.log());
            let broker = fs::read_to_string(self.path().join("broker.log")).unwrap_or_default();
            println!("the broker's log:\n{broker}");
        }
    }
}

/// Returns the user that a broker has become: not all threads of this program, as the harness has one
/// of its own.
fn account_of(broker: &Child) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{}/task", broker.id())).expect("it lives");
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
    let uid = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let uids = tasks.filter_map(|task| uid(status(task.ok()?)?));
    uids.max().expect("a thread")
}

/// Starts a bus; `None` if there is no program for that.
fn bus(folder: &Path, policy: &str) -> Option<Killed> {
    let socket = folder.join("bus");
    let config = format!(
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\" \
         \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n\
         <busconfig><type>custom</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>{policy}\
         </busconfig>",
        socket.display()
    );
    let file = folder.join("bus.conf");
    fs::write(&file, config).expect("written");
    let mut command = Command::new("dbus-daemon");
    command.arg(format!("--config-file={}", file.display())).args(["--nofork", "--nopidfile"]);
    die_with_parent(&mut command);
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => {
            let bus = Killed(child);
            eventually("the bus listens", || socket.exists());
            Some(bus)
        }
        Err(why) => {
            println!("skipped: dbus-daemon (Debian package dbus-daemon): {why}");
            None
        }
    }
}

/// A program of an ordinary user that asks the service, controlled by commands.
pub(crate) struct Caller {
    child: Killed,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    thread: i32,
}

impl Caller {
    pub(crate) fn pid(&self) -> i32 {
        self.child.0.id() as i32
    }

    /// Returns the thread that asks.
    pub(crate) fn thread(&self) -> Tid {
        Tid::from_raw(self.thread).expect("positive")
    }

    pub(crate) fn policy(&self) -> &'static str {
        sched::get(self.thread()).expect("it lives").policy_name()
    }

    /// Sends a command without waiting for the answer.
    pub(crate) fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").expect("it lives");
    }

    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.read()
    }

    /// Returns its next line, without the harness's own lines.
    fn read(&mut self) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("it lives");
            assert!(length > 0, "the caller has ended");
            if let Some((_, said)) = line.split_once("> ") {
                return said.trim_end().to_owned();
            }
        }
    }
}
