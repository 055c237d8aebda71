//! Starts actors, and checks the state of this host afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, path::PathBuf};

use punctual_linux::bandwidth;
use punctual_linux::process::{Signal, die_with_parent, send, threads_of};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_linux::{clock, shm};
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order::RUNNING;
use system_tests::live::{self, may};
use system_tests::stalls::Witness;

use crate::actor::ROLE;

/// Serialises the tests: they share a CPU, the table and the kernel's bandwidth.
static ALONE: Mutex<()> = Mutex::new(());

/// The amount by which the kernel's bandwidth varies by itself, in millionths of a CPU.
const SWAY: u64 = 30_000;

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(live::eventually(holds), "not within {}: {what}", live::PATIENCE);
}

/// Returns the CPU that all actors share.
fn shared_cpu() -> usize {
    *thread::affinity().last().expect("some CPU")
}

/// Checks the account of an upcall with a period of `period` ms under `catch_up`: no job was done
/// twice, no release was off the grid, and no job was skipped except while the machine stood still.
#[track_caller]
pub(crate) fn lost_nothing(account: &[u64], period: u64, machine: &Witness) {
    let [_, twice, passed_over, off_grid] = account[..4] else { panic!("short: {account:?}") };
    assert_eq!((twice, off_grid), (0, 0), "twice, off the grid");
    let excused = machine.excuses(millis(period));
    assert!(
        passed_over <= excused,
        "{passed_over} passed over; the machine stood still for {}",
        machine.stood_still()
    );
}

/// Runs `body` alone, beside one onlooking process, whose jobs must all complete. Afterwards the
/// host must be as before.
pub(crate) fn beside_another(body: impl FnOnce(&Witness)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    let machine = Witness::of(shared_cpu());
    let left = || bandwidth::left().map_or(0, |bandwidth| bandwidth.left_ppm);
    let (before, groups_before) = (left(), groups());
    let mut onlooker = Onlooker::start();
    body(&machine);
    onlooker.has_lost_nothing(&machine);
    // As the last process it removes the table, unless other programs use it.
    drop(onlooker);
    eventually("no shared memory is left", || !shm::left_over().contains(&shm::path("releases")));
    eventually("no group is left", || groups().iter().all(|group| groups_before.contains(group)));
    // This cannot be checked if another program reserves at the same time.
    let is_back = || left() + SWAY >= before || somebody_is_reserved();
    let expected = format!("the bandwidth is back: {before} ppm before, {} after", left());
    eventually(&expected, is_back);
}

/// Returns whether any thread of this host is under SCHED_DEADLINE. All of this test's have ended.
fn somebody_is_reserved() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.flat_map(threads_of)
        .any(|tid| sched::get(tid).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE"))
}

/// Returns Punctual's control groups, of any process, two levels deep.
fn groups() -> Vec<PathBuf> {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let hierarchies = below("/sys/fs/cgroup".into());
    let all = hierarchies.iter().cloned().flat_map(below).chain(hierarchies.clone());
    all.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("punctual-"))
    })
    .collect()
}

/// Another process that obeys commands. It is killed when this value is dropped.
pub(crate) struct Actor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Actor {
    pub(crate) fn start() -> Self {
        Self::start_with(&[]).expect("it starts")
    }

    /// Starts it through programs that change something first and then execute the rest. Returns
    /// `None` if they could not.
    pub(crate) fn start_with(by_way_of: &[&str]) -> Option<Self> {
        let exe = env::current_exe().expect("this program");
        let mut command = match by_way_of {
            [] => Command::new(exe),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(exe);
                command
            }
        };
        command.args(["--exact", "other_process", "--nocapture", "--quiet"]);
        // The harness then makes no thread, so all threads are Punctual's.
        command.arg("--test-threads=1").env(ROLE, "actor");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        die_with_parent(&mut command);
        let mut child = command.spawn().ok()?;
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut actor = Self { child, input, output };
        (actor.read().as_deref() == Some("ready")).then_some(actor)
    }

    /// Starts it on the shared CPU, with these upcalls.
    pub(crate) fn with(upcalls: &str) -> Self {
        let mut actor = Self::start();
        actor.share_a_cpu();
        assert_eq!(actor.ask(&format!("start {upcalls}")), "running");
        actor
    }

    pub(crate) fn share_a_cpu(&mut self) {
        assert_eq!(self.ask(&format!("pin {}", shared_cpu())), "done");
    }

    /// Sets a soft limit of the process (setrlimit(2)).
    pub(crate) fn limit(&mut self, what: &str, to: u64) {
        assert_eq!(self.ask(&format!("limit {what} {to}")), "done");
    }

    /// Returns its next line, or `None` if it has ended.
    fn read(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(said) = line.strip_prefix("> ") {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").expect("it lives");
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.read().unwrap_or_else(|| panic!("it ended instead of: {what}"))
    }

    /// Returns an answer that consists of numbers.
    #[track_caller]
    pub(crate) fn numbers(&mut self, what: &str) -> Vec<u64> {
        let answer = self.ask(what);
        let words = answer.strip_prefix("stopped ").unwrap_or(&answer).split_whitespace();
        words.map(|word| word.parse().unwrap_or_else(|_| panic!("{what}: {answer}"))).collect()
    }

    /// Waits until the upcall at this position completes some more jobs.
    #[track_caller]
    pub(crate) fn goes_on(&mut self, upcall: usize) {
        let before = self.numbers("jobs")[upcall];
        eventually("it goes on", || self.numbers("jobs")[upcall] > before + 3);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    /// Stops the process with all its threads.
    pub(crate) fn halt(&self) {
        self.signal(Signal::STOP);
        let path = format!("/proc/{}/task", self.pid());
        let stopped = |entry: fs::DirEntry| {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        eventually("it stops", || fs::read_dir(&path).expect("it lives").flatten().all(stopped));
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An onlooking process with a job every 10 ms.
struct Onlooker {
    actor: Actor,
    since: Instant,
}

impl Onlooker {
    fn start() -> Self {
        let mut actor = Actor::with("catch_up counts 10");
        actor.goes_on(0);
        Self { actor, since: clock::now() }
    }

    /// Checks that four of five released jobs are complete, each once, and none was skipped.
    fn has_lost_nothing(&mut self, machine: &Witness) {
        let enough = |jobs: u64, since: Instant| {
            let released = clock::now().saturating_since(since) / millis(10);
            jobs * 5 >= released * 4
        };
        let since = self.since;
        eventually("it keeps up", || enough(self.actor.numbers("jobs")[0], since));
        lost_nothing(&self.actor.numbers("stop"), 10, machine);
    }
}

/// Returns how a thread is scheduled, in the words of the manual page. The owner of the thread is a
/// grandchild.
pub(crate) fn policy_of(id: u64) -> &'static str {
    let tid = Tid::from_raw(i32::try_from(id).expect("an id")).expect("positive");
    sched::get(tid).map_or("ended", |now| now.policy_name())
}
