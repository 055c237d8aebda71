//! A broker with a folder of its own, and a count of what its processes hold.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_client::Broker as Connection;
use punctual_client::wire::{ChannelsStatus, Status};
use punctual_linux::process::{Signal, send_to};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use tempfile::TempDir;

use super::person::{person_of, this_program};
use crate::live;

/// Small quotas, as an administrator would set them for unknown users.
pub const CONFIG: &str = r#"
    [broker]
    grace = "500ms"
    choose = "500ms"
    penalty = "1s"
    run_limit = "1s"
    sample = "50ms"
    [channels]
    link = "1gbit/s"
    per_packet = "10us"
    cpu = "2ms/10ms"
    room = 64
    [default]
    share = "10%"
    link = "20%"
    max_grants = 16
    shortest_period = "1ms"
    allow = ["upcalls", "reservations", "priority", "programs", "channels"]
"#;

/// The share of a CPU that [`CONFIG`] allows one user, in parts per million.
pub const QUOTA_PPM: u64 = 100_000;

/// The number of grants, and of channels, that it allows one user.
pub const QUOTA_GRANTS: u64 = 16;

/// A file in the folder of a broker that must not know what later kernels can do.
const OLD_KERNEL: &str = "old-kernel";

/// Makes the kernel report to this process and its descendants that it lacks SO_PASSRIGHTS
/// (unix(7)).
fn be_on_an_older_kernel() {
    const SO_PASSRIGHTS: u64 = 83;
    let (other, action) = (SeccompAction::Allow, SeccompAction::Errno(libc::ENOPROTOOPT as u32));
    let option = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, SO_PASSRIGHTS);
    let rule = SeccompRule::new(vec![option.expect("valid")]).expect("valid");
    let rules = BTreeMap::from([(libc::SYS_setsockopt, vec![rule])]);
    let arch = std::env::consts::ARCH.try_into().expect("known");
    let filter = SeccompFilter::new(rules, other, action, arch).expect("valid");
    let program: BpfProgram = filter.try_into().expect("valid");
    seccompiler::apply_filter(&program).expect("filters are there");
}

/// Serves from `folder` until this process is killed.
pub(super) fn serve(folder: &Path) {
    if folder.join(OLD_KERNEL).exists() {
        be_on_an_older_kernel();
    }
    punctual_broker::log::start(false);
    let server = Server::open(Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part: |part| this_program(&format!("part {}", part.name())),
    });
    server.expect("opens").run().expect("runs");
}

/// Serves as the part `name` of a broker.
pub(super) fn serve_part(name: &str) {
    punctual_broker::log::start(false);
    let part = Part::NAMES.into_iter().find(|(known, _)| *known == name);
    part.expect("a part").1.run().expect("runs");
}

/// A broker and all its processes. They are killed when this value is dropped.
#[derive(Debug)]
pub struct Broker {
    folder: TempDir,
    child: Child,
    /// The command executed in place of the broker, with the broker's command line appended.
    before: Vec<String>,
}

impl Broker {
    /// Starts a broker.
    pub fn start(config: &str) -> Self {
        Self::start_in(new_folder(config), Vec::new())
    }

    /// Starts a broker in a mount namespace of its own, in which /etc/subuid gives ordinary users
    /// their subordinate users. Returns `None` where that is not possible.
    pub fn start_with_subordinate_users(config: &str) -> Option<Self> {
        let folder = new_folder(config);
        let subuid = folder.path().join("subuid");
        fs::write(&subuid, super::person::subordinate_users()).expect("written");
        let shell = format!("mount --bind {} /etc/subuid && exec \"$0\" \"$@\"", subuid.display());
        let before = ["unshare", "--mount", "sh", "-c", &shell].map(str::to_owned).to_vec();
        let tried = Command::new(&before[0]).args(&before[1..]).arg("true").status();
        if !tried.is_ok_and(|status| status.success()) {
            println!("skipped: no mount namespace with another /etc/subuid here");
            return None;
        }
        Some(Self::start_in(folder, before))
    }

    /// Starts a broker for which no socket can be made to refuse files, as before Linux 6.16.
    pub fn start_as_before_refusals(config: &str) -> Self {
        let folder = new_folder(config);
        fs::write(folder.path().join(OLD_KERNEL), "").expect("written");
        Self::start_in(folder, Vec::new())
    }

    fn start_in(folder: TempDir, before: Vec<String>) -> Self {
        let child = spawn(&folder, &before);
        let broker = Self { folder, child, before };
        broker.wait_until_it_answers();
        broker
    }

    fn wait_until_it_answers(&self) {
        assert!(live::eventually(|| self.answers()), "no answer:\n{}", self.log());
    }

    /// Returns whether the broker greets a client that connects.
    pub fn answers(&self) -> bool {
        Connection::connect_to(&self.socket()).is_ok()
    }

    /// Returns whether its first process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Kills all its processes and starts it again with the same ledger.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.folder, &self.before);
        self.wait_until_it_answers();
    }

    /// Kills all its processes and starts it again with the same ledger, from a shell that stops
    /// itself before it becomes the broker. Returns its first process.
    pub(super) fn restart_held(&mut self) -> u32 {
        self.kill();
        let shell = "kill -STOP $$; exec \"$0\" \"$@\"";
        self.child = spawn(&self.folder, &["sh", "-c", shell].map(str::to_owned));
        self.child.id()
    }

    /// Returns the broker's process that plays the part `name`.
    pub(super) fn part(&self, name: &str) -> Result<u32, String> {
        let role = format!("{}=part {name}", super::ROLE);
        let plays = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == role.as_bytes())
        };
        let found = self.processes().into_iter().skip(1).find(plays);
        found.map(|pid| pid as u32).ok_or_else(|| format!("this broker has no {name}"))
    }

    /// Returns the grants, as root sees them, or `None` if the broker does not answer.
    pub(super) fn try_status(&self) -> Option<Status> {
        Connection::connect_to(&self.socket()).ok()?.status().ok()
    }

    /// Kills its first process, and with it every process that is set to end with that one.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns a folder that every user may read.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Connects as root.
    pub fn connect(&self) -> Connection {
        Connection::connect_to(&self.socket()).expect("it runs")
    }

    /// Returns the grants, as root sees them.
    pub fn status(&self) -> Status {
        self.connect().status().expect("it answers")
    }

    /// Returns the channels, as root sees them.
    pub fn channels(&self) -> ChannelsStatus {
        self.connect().channels().expect("it answers")
    }

    /// Returns each user's share in parts per million of a CPU, and the number of grants.
    pub fn held(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut held: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for grant in self.status().grants {
            let (ppm, grants) = held.entry(person_of(grant.uid)).or_default();
            (*ppm, *grants) = (*ppm + grant.share_ppm, *grants + 1);
        }
        held
    }

    /// Returns everything that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("log")).unwrap_or_default())
            .into_owned()
    }

    /// Returns its first process and all descendants.
    pub fn processes(&self) -> Vec<i32> {
        let mut all = vec![self.child.id() as i32];
        let mut next = 0;
        while let Some(pid) = all.get(next).copied() {
            all.extend(children_of(pid));
            next += 1;
        }
        all
    }

    /// Sends a signal to all its processes.
    pub fn signal_all(&self, signal: Signal) {
        for pid in self.processes() {
            // A process may have ended meanwhile.
            let _ = send_to(pid, signal);
        }
    }

    /// Returns descriptions of the open files of all its processes, for a person to read.
    pub fn open_files(&self) -> Vec<String> {
        let links = |pid| {
            let folder = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            folder.filter_map(move |entry| {
                let link = fs::read_link(entry.path()).ok()?.display().to_string();
                let info = fs::read_to_string(format!(
                    "/proc/{pid}/fdinfo/{}",
                    entry.file_name().to_str()?
                ));
                let of = info
                    .ok()?
                    .lines()
                    .find_map(|line| line.strip_prefix("Pid:\t").map(str::to_owned));
                Some(match of {
                    Some(process) => format!("{link} of {process}"),
                    None => link,
                })
            })
        };
        self.processes().into_iter().flat_map(links).collect()
    }

    /// Returns what it holds after its clients have come and gone.
    pub fn holds_with_no_client(&self) -> Holds {
        drop((self.connect(), self.connect()));
        let mut last = self.holds();
        live::eventually(|| std::mem::replace(&mut last, self.holds()) == last);
        last
    }

    /// Returns what all its processes hold together.
    pub fn holds(&self) -> Holds {
        let mut holds = Holds::default();
        for pid in self.processes() {
            let count = |folder: &str| {
                fs::read_dir(format!("/proc/{pid}/{folder}")).map_or(0, Iterator::count)
            };
            holds.descriptors += count("fd");
            holds.threads += count("task");
            holds.memory_kb += memory_kb(pid);
        }
        holds.granted_ppm = self.status().totals.granted_ppm;
        holds
    }
}

/// The resources that the processes of a broker hold, and the CPU time that they have promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// The number of open files.
    pub descriptors: usize,
    /// The number of threads.
    pub threads: usize,
    /// The resident memory.
    pub memory_kb: u64,
    /// The promised share of all CPUs, including the share set aside for channels.
    pub granted_ppm: u64,
}

/// Returns the children of all threads of a process (proc(5)).
fn children_of(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let texts = tasks.filter_map(|task| of_task(task.ok()?));
    texts
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}

fn memory_kb(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn new_folder(config: &str) -> TempDir {
    // In memory, as /run is: each grant waits for the storage of its ledger.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("punctual-hostile").tempdir_in(place);
    let folder = folder.expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    fs::write(folder.path().join("broker.toml"), config).expect("written");
    folder
}

fn spawn(folder: &TempDir, before: &[String]) -> Child {
    let role = format!("broker {}", folder.path().display());
    let mut command = this_program(&role);
    if let [program, rest @ ..] = before {
        let mut by = Command::new(program);
        by.args(rest).arg(command.get_program());
        super::person::as_role(&mut by, &role);
        punctual_linux::process::die_with_parent(&mut by);
        command = by;
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("ours"));
    command.spawn().expect("this program")
}

impl Drop for Broker {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            println!("the end of the broker's log:\n{}", last.join("\n"));
        }
        let rest = self.processes();
        self.kill();
        for pid in rest.into_iter().skip(1) {
            let _ = send_to(pid, Signal::KILL);
        }
    }
}
