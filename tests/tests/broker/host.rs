//! Starts brokers and clients, and cleans up after them whatever happens.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, thread};

use punctual_broker::kernel::peer::{Process, start_of};
use punctual_broker::ledger::ProcessId;
use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_client::Broker as Connection;
use punctual_client::wire::Status;
use punctual_linux::process::{Signal, die_with_parent, is_stopped, send};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use system_tests::live::may;
use tempfile::TempDir;

pub(crate) const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// The user id of `nobody`.
const USER: u32 = 65_534;

/// Serialises the tests: they share the kernel's bandwidth.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps other tests out. Returns `None` if this host allows no reservations.
pub(crate) fn alone() -> Option<MutexGuard<'static, ()>> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let reservation = "1ms/100ms".parse().expect("valid");
    let reserves = Class::Deadline { reservation, reset_on_fork: true };
    if !may(reserves) || !may(Class::Fifo { priority: 80 }) {
        return None;
    }
    // A client must be able to execute this program as another user.
    let mut probe = Command::new(env::current_exe().expect("this program"));
    probe.arg("--list").uid(USER).gid(USER).stdout(Stdio::null());
    if let Err(error) = probe.status() {
        println!("skipped: user {USER} cannot run this program: {error}");
        return None;
    }
    Some(guard)
}

/// Waits up to thirty seconds until `holds` returns true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not within thirty seconds: {what}");
}

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
        Some(("client", socket)) => crate::client::obey(socket.into()),
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
    let mut command = again(&format!("part {}", part.name()), None);
    // The guard outlives its broker and ends by itself when there is nothing left to police.
    if part != Part::Guard {
        die_with_parent(&mut command);
    }
    command
}

fn this_program(role: String, shell: Option<&str>) -> Command {
    let mut command = again(&role, shell);
    die_with_parent(&mut command);
    command
}

fn again(role: &str, shell: Option<&str>) -> Command {
    let exe = env::current_exe().expect("this program");
    let mut command = match shell {
        None => Command::new(exe),
        Some(before) => {
            let mut sh = Command::new("sh");
            sh.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]).arg(exe);
            sh
        }
    };
    command.args(["--exact", "host::other_process", "--nocapture", "--quiet"]).env(ROLE, role);
    command
}

/// A broker with a folder of its own. It is killed when this value is dropped.
pub(crate) struct Broker {
    folder: TempDir,
    child: Child,
    before: Option<&'static str>,
}

pub(crate) const GENEROUS: &str = r#"
    [broker]
    grace = "300ms"
    choose = "400ms"
    penalty = "5s"
    run_limit = "1s"
    sample = "50ms"
    [default]
    share = "60%"
    max_grants = 2000
    shortest_period = "1ms"
    allow = ["upcalls", "reservations", "priority"]
"#;

/// Returns [`GENEROUS`] with a grace period long enough for every client to come back on a busy
/// host.
pub(crate) fn patient() -> String {
    GENEROUS.replace("grace = \"300ms\"", "grace = \"2s\"")
}

impl Broker {
    pub(crate) fn start(config: &str) -> Self {
        Self::start_after(config, None)
    }

    /// Starts a broker from a shell that runs `before` first, for limits.
    pub(crate) fn start_after(config: &str, before: Option<&'static str>) -> Self {
        let folder =
            tempfile::Builder::new().prefix("punctual-broker").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        fs::write(folder.path().join("broker.toml"), config).expect("written");
        let child = spawn(&folder, before);
        let broker = Self { folder, child, before };
        broker.wait_until_it_answers();
        broker
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn wait_until_it_answers(&self) {
        eventually("the broker answers", || Connection::connect_to(&self.socket()).is_ok());
    }

    /// Returns the status, as root sees it.
    pub(crate) fn status(&self) -> Status {
        let mut connection = Connection::connect_to(&self.socket()).expect("it runs");
        connection.status().expect("it answers")
    }

    pub(crate) fn granted_ppm(&self) -> u64 {
        self.status().totals.granted_ppm
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    pub(crate) fn is_stopped(&self) -> bool {
        is_stopped(&self.child).expect("our child")
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns its guard: the child process started in that role.
    pub(crate) fn guard(&self) -> Process {
        let is_guard = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let role = format!("{ROLE}=part guard");
            parent == Some(self.child.id().to_string().as_str())
                && environ.split(|byte| *byte == 0).any(|entry| entry == role.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("it is there");
        let mut ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let pid = ids.find(is_guard).expect("the broker has a guard");
        let start = start_of(pid, pid).expect("it lives");
        Process::find(ProcessId { pid, start }).expect("it lives")
    }

    /// Waits until it has ended by itself, and returns its exit status.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        self.child.wait().expect("our child")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, self.before);
        self.wait_until_it_answers();
    }

    pub(crate) fn reload(&self, config: &str) {
        fs::write(self.folder.path().join("broker.toml"), config).expect("written");
        self.signal(Signal::HUP);
    }

    /// Returns everything that it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("ours")
    }

    pub(crate) fn client(&self) -> Client {
        let socket = self.socket();
        let mut command = this_program(format!("client {}", socket.display()), None);
        command.uid(USER).gid(USER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Client { child, input, output };
        assert_eq!(client.read(), "ready");
        client
    }
}

fn spawn(folder: &TempDir, before: Option<&str>) -> Child {
    let mut command = this_program(format!("broker {}", folder.path().display()), before);
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("ours"));
    command.spawn().expect("this program")
}

impl Drop for Broker {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("the broker's log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of an ordinary user, controlled by commands. It is killed when this value is dropped.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Sends a command without waiting for the answer.
    pub(crate) fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").expect("it lives");
    }

    /// Returns its next line, without the harness's own lines.
    pub(crate) fn read(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).expect("it lives") > 0,
                "the client has ended"
            );
            if let Some((_, said)) = line.split_once("> ") {
                return said.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.read()
    }

    /// Requests something that must be granted, and returns the number of the grant.
    pub(crate) fn granted(&mut self, what: &str) -> u64 {
        let answer = self.ask(what);
        let number = answer.strip_prefix("granted ").unwrap_or_else(|| panic!("{what}: {answer}"));
        number.parse().expect("a number")
    }

    pub(crate) fn thread(&self) -> Tid {
        // The test's thread, which prints its id, and not the harness's.
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it lives");
        let named = |id: i32| {
            let path = format!("/proc/{}/task/{id}/comm", self.child.id());
            fs::read_to_string(path).is_ok_and(|name| name.starts_with("host::other_pro"))
        };
        let mut ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
        Tid::from_raw(ids.find(|id| named(*id)).expect("the harness names its thread"))
            .expect("positive")
    }

    /// Returns its first thread.
    pub(crate) fn leader(&self) -> Tid {
        Tid::from_raw(self.child.id() as i32).expect("positive")
    }

    pub(crate) fn policy(&self) -> &'static str {
        sched::get(self.thread()).expect("it lives").policy_name()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
