//! Processes that need no broker: upcalls, and programs under `punctual run`.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::cgroup::Hierarchy;
use punctual_linux::process::{Signal, die_with_parent};
use punctual_linux::sched::Class;
use punctual_linux::{clock, shm, thread};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::ceiling::{CEILING, set_table};
use punctual_runtime::{Placement, Upcalls};

use super::{Cycle, must};
use crate::hostile::groups;
use crate::hostile::person::{Person, say, this_program};
use crate::live;

/// Counts its jobs.
struct Counter(Arc<AtomicU64>);

impl Handler for Counter {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed);
        pdus
    }
}

/// In the process that is killed: an upcall every five milliseconds, in a table that it shares with another
/// process. Says how many jobs there were whenever it is asked.
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

/// A process that goes on whatever happens to the others.
struct Beside {
    person: Person,
    table: String,
}

impl Beside {
    fn jobs(&mut self) -> u64 {
        self.person.ask("jobs").parse().expect("a number")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.person.tell("stop");
        while self.person.read().is_some() {}
        // The last one that ends in order takes the table with it, whoever was killed before.
        let path = shm::path(&self.table);
        let is_left = path.exists();
        let _ = shm::remove_left_over(&path);
        assert!(!is_left || std::thread::panicking(), "{} is left", path.display());
    }
}

pub(super) fn upcalls() -> Result<Cycle, String> {
    if !live::may(Class::Fifo { priority: CEILING }) {
        return Err("no real-time priority here".into());
    }
    let table = format!("kills-{}", std::process::id());
    let start = {
        let table = table.clone();
        move || Person::start_as(this_program(&format!("upcalls {table}")))
    };
    let mut beside = Beside { person: start(), table };
    Ok(Box::new(move |moments| {
        let victim = start();
        moments.pass();
        victim.kill();
        let before = beside.jobs();
        must("the process beside it stands still", || beside.jobs() > before + 2).map(|()| true)
    }))
}

/// Where the program is that was built with this one.
fn program() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("PUNCTUAL") {
        return Ok(path.into());
    }
    let this = std::env::current_exe().expect("this program");
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join("punctual"));
    let mut found = found.filter(|path| path.is_file());
    found
        .next()
        .ok_or_else(|| "punctual was not built, and PUNCTUAL does not say where it is".into())
}

/// A program under `punctual run`, and all that belongs to it. It is killed when this is dropped.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        groups::signal(&self.0, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Not all of its processes die with `punctual run`: a program may start others, which are left alone.
pub(super) fn run(how: &'static [&'static str], policy: &'static str) -> Result<Cycle, String> {
    let program = program()?;
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
    Ok(Box::new(move |moments| {
        let mut run = start();
        let in_force = moments.waits() && live::eventually(|| holds(&run, policy));
        moments.pass();
        run.0.kill().map_err(|why| why.to_string())?;
        let group = run.0.id();
        let threads = || groups::threads_of(group);
        must("", || threads().is_empty()).map_err(|_| format!("processes: {:?}", threads()))?;
        must("", || control_groups_of(group).is_empty())
            .map_err(|_| format!("control groups: {:?}", control_groups_of(group)))?;
        Ok(in_force)
    }))
}

/// Whether a program is there that runs in this class.
fn holds(run: &Run, policy: &str) -> bool {
    let all = groups::threads_of(run.0.id());
    let others = all.into_iter().filter(|id| run.0.id() as i32 != *id).collect();
    !groups::of_class(others, policy).is_empty()
}

/// The control groups that a process has made for itself.
fn control_groups_of(pid: u32) -> Vec<PathBuf> {
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
