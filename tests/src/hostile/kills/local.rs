//! Kills processes that need no broker: upcalls, and programs under `punctual run`.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::cgroup::Hierarchy;
use punctual_linux::process::{Signal, die_with_parent};
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, shm, thread};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::{RUNNING, set_table};
use punctual_runtime::{Placement, Upcalls};
use tempfile::TempDir;

use super::{Cycle, must};
use crate::hostile::groups;
use crate::hostile::person::{Person, say, this_program};
use crate::live;

/// A handler that counts its jobs.
struct Counter(Arc<AtomicU64>);

impl Handler for Counter {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed);
        pdus
    }
}

/// Runs, in the process that is killed, an upcall every five milliseconds, in a table shared with
/// another process. Prints the number of jobs so far whenever it reads a line.
pub(crate) fn run_upcalls(table: &str) {
    assert!(set_table(table), "nothing ran yet");
    let _ = thread::pin_to(*thread::affinity().last().expect("some CPU"));
    let jobs = Arc::new(AtomicU64::new(0));
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    let upcall = Upcall::new(UpcallSpec {
        name: "u".into(),
        period: Duration::from_millis(5),
        batch: 2,
        quantum: 1,
        time_per_pdu: Service::from_micros(100),
    });
    upcalls.create(upcall.expect("valid"), Counter(Arc::clone(&jobs))).expect("admitted");
    let running = upcalls.run(clock::now()).expect("has its class");
    say("ready");
    for line in std::io::stdin().lines() {
        match line.as_deref() {
            Ok("jobs") => say(&jobs.load(Ordering::Relaxed).to_string()),
            _ => break,
        }
    }
    let _ = running.stop();
    say("stopped");
}

/// A process with upcalls that must go on whatever happens to the other processes.
pub(in crate::hostile) struct Beside {
    person: Person,
    /// A table that no other program uses, and that is gone once this process has ended in order.
    table: Option<PathBuf>,
    /// The folder of its program.
    _built: Option<TempDir>,
}

impl Beside {
    /// Starts a process with a table that only it and the processes started [beside
    /// it](Self::another) use.
    pub(in crate::hostile) fn start() -> Result<Self, String> {
        sched::try_out(Class::Fifo { priority: RUNNING }).map_err(|why| why.to_string())?;
        let table = Some(shm::path(&table_name()));
        Ok(Self { person: Person::start_as(upcalls_command()), table, _built: None })
    }

    /// Starts another process with upcalls and the same table.
    pub(in crate::hostile) fn another(&self) -> Person {
        Person::start_as(upcalls_command())
    }

    /// Returns the name of its table.
    pub(in crate::hostile) fn table_name(&self) -> String {
        table_name()
    }

    /// Checks that jobs are still done, whatever has happened to the other processes.
    pub(in crate::hostile) fn goes_on(&mut self) -> Result<(), String> {
        let before = self.jobs();
        must("the process beside it stands still", || self.jobs() > before + 2)
    }

    fn jobs(&mut self) -> u64 {
        self.person.ask("jobs").parse().expect("a number")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.person.end();
        let Some(table) = &self.table else { return };
        let is_left = table.exists();
        let _ = shm::remove_left_over(table);
        assert!(!is_left || std::thread::panicking(), "{} is left", table.display());
    }
}

/// Prepares processes with upcalls in Rust.
pub(super) fn upcalls() -> Result<Cycle, String> {
    let start = || Person::start_as(upcalls_command());
    beside_each_other(start, Some(shm::path(&table_name())), None)
}

/// Returns the name of the table for the processes with upcalls that this one starts.
fn table_name() -> String {
    format!("kills-{}", std::process::id())
}

fn upcalls_command() -> Command {
    this_program(&format!("upcalls {}", table_name()))
}

/// Prepares processes with upcalls in C, using the library of `make test` or `make soak-kills`.
pub(super) fn c_upcalls() -> Result<Cycle, String> {
    let library = built_library()?;
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let (source, program) = (folder.path().join("upcalls.c"), folder.path().join("upcalls"));
    fs::write(&source, include_str!("upcalls.c")).map_err(|why| why.to_string())?;
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../include")]);
    compile.arg(&source).arg("-o").arg(&program).arg(&library);
    compile.args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
    let output = compile.output().map_err(|why| format!("no C compiler: {why}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let start = move || {
        let mut command = Command::new(&program);
        die_with_parent(&mut command);
        Person::start_as(command)
    };
    beside_each_other(start, None, Some(folder))
}

fn beside_each_other(
    start: impl Fn() -> Person + 'static,
    table: Option<PathBuf>,
    built: Option<TempDir>,
) -> Result<Cycle, String> {
    sched::try_out(Class::Fifo { priority: RUNNING }).map_err(|why| why.to_string())?;
    let mut beside = Beside { person: start(), table, _built: built };
    Ok(Box::new(move |moments| {
        let victim = start();
        moments.pass();
        victim.kill();
        beside.goes_on().map(|()| true)
    }))
}

/// Returns the path of the static C library, which has a target folder of its own: for a program in
/// target/debug or target/debug/deps it is in target/library/quick, and in release for release.
fn built_library() -> Result<PathBuf, String> {
    let this = std::env::current_exe().expect("this program");
    let profiles = [("debug", "quick"), ("release", "release")];
    let find = |folder: &Path| {
        let (_, profile) = profiles.iter().find(|(name, _)| folder.ends_with(name))?;
        Some(folder.parent()?.join("library").join(profile).join("libpunctual.a"))
    };
    let library = this.ancestors().skip(1).take(2).find_map(find);
    library.filter(|path| path.is_file()).ok_or("libpunctual.a was not built".to_owned())
}

/// Returns the path of a file that was built with this program: in its folder or one above.
pub(in crate::hostile) fn built(name: &str) -> Result<PathBuf, String> {
    let this = std::env::current_exe().expect("this program");
    let mut places = this
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(name), folder.join("deps").join(name)]);
    places.find(|path| path.is_file()).ok_or_else(|| format!("{name} was not built"))
}

/// A program under `punctual run`, and its processes. It is killed when this value is dropped.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        groups::signal(&self.0, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Prepares a program under `punctual run`. Not all of its processes die with `punctual run`:
/// processes that the program starts are left alone.
pub(super) fn run(how: &'static [&'static str], policy: &'static str) -> Result<Cycle, String> {
    let program = built("punctual")?;
    let start = move || {
        let mut command = Command::new(&program);
        command.args(["run", "--reserve", "1ms/10ms"]).args(how);
        command
            .args(["--", "sh", "-c", "while :; do :; done"])
            .env("PUNCTUAL_HOST_PROFILE", "ideal")
            .process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        die_with_parent(&mut command);
        Run(command.spawn().expect("was built"))
    };
    let first = start();
    if !live::eventually(|| holds(&first, policy)) {
        return Err("punctual run holds no program here".into());
    }
    drop(first);
    let mut swept_by_the_next = Vec::new();
    Ok(Box::new(move |moments| {
        let mut run = start();
        let in_force = moments.waits() && live::eventually(|| holds(&run, policy));
        if in_force {
            let left = |groups: &[PathBuf]| groups.iter().any(|group| group.exists());
            if left(&swept_by_the_next) {
                return Err(format!("the next one has not removed {swept_by_the_next:?}"));
            }
            swept_by_the_next.clear();
        }
        moments.pass();
        run.0.kill().map_err(|why| why.to_string())?;
        let group = run.0.id();
        let threads = || groups::threads_of(group);
        must("", || threads().is_empty()).map_err(|_| format!("processes: {:?}", threads()))?;
        must("", || control_groups_of(group).iter().all(|left| is_empty(left)))
            .map_err(|_| format!("control groups: {:?}", control_groups_of(group)))?;
        // A group that the victim was making when it died was not yet tracked.
        swept_by_the_next.extend(control_groups_of(group));
        Ok(in_force)
    }))
}

/// Returns whether a control group has no members, or is gone.
pub(in crate::hostile) fn is_empty(group: &Path) -> bool {
    let members = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    members("cgroup.procs").is_empty() && members("tasks").is_empty()
}

/// Returns whether one of its programs runs in this class.
fn holds(run: &Run, policy: &str) -> bool {
    let all = groups::threads_of(run.0.id());
    let others = all.into_iter().filter(|id| run.0.id() as i32 != *id).collect();
    !groups::of_class(others, policy).is_empty()
}

/// Returns the control groups that a process has made for itself.
pub(in crate::hostile) fn control_groups_of(pid: u32) -> Vec<PathBuf> {
    let me = i32::try_from(std::process::id()).expect("positive");
    let name = format!("punctual-{pid}-");
    let hierarchies = [Hierarchy::v2(), Hierarchy::v1("freezer")].into_iter().flatten();
    let entries = hierarchies.filter_map(|hierarchy| fs::read_dir(hierarchy.group_of(me)?).ok());
    let paths = entries.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let is_its = |path: &PathBuf| {
        path.file_name().is_some_and(|other| other.to_string_lossy().starts_with(&name))
    };
    paths.filter(is_its).collect()
}
