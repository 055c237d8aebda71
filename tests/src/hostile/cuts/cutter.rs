//! The process that cuts: it follows the system calls of another process and acts at the n-th.
//!
//! It is a process of its own, since a tracer that waits for its children takes stops for ends. The
//! commands on its input are `arm ACTION AT PID [exec]`, answered with `armed`, and `done`,
//! answered with `cut CALLS NAME` or `whole CALLS`. With the action `hold` it reports `held` in
//! between, and the command `go` lets the victim continue.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use libc::{c_long, pid_t};
use punctual_linux::clock;
use punctual_linux::net::interface::Interface;
use punctual_model::Duration;

use super::ptrace::{self, Call, Stop};
use crate::hostile::person::{Person, say, this_program};

/// How long a stopped process stands still, and an unplugged loopback stays down.
const STOPPED: Duration = Duration::from_millis(30);

/// The action taken on a process at its n-th system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// SIGKILL before the call, which is not made.
    Kill,
    /// SIGKILL before the n-th instruction.
    KillAtInstruction,
    /// SIGSTOP after the call, and SIGCONT a while later.
    Stop,
    /// A full disk: from the n-th call on that takes room on a disk, none is left; that call itself
    /// writes half.
    Full,
    /// A hold: the thread stops before the call until the test has done something else.
    Hold,
    /// An unplugged network: the loopback goes down before the call and comes up again a while
    /// later.
    Unplug,
}

impl Action {
    /// All actions, with their names on the command line.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Kill, "kill"),
        (Self::KillAtInstruction, "kill-instruction"),
        (Self::Stop, "stop"),
        (Self::Full, "full"),
        (Self::Hold, "hold"),
        (Self::Unplug, "unplug"),
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(action, _)| *action == self).map_or("", |(_, name)| name)
    }
}

/// How the pursuit of a victim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The victim was cut at this call.
    Cut(String),
    /// The victim made only this many calls.
    Whole(u64),
}

/// A handle of the cutting process, for the process that runs the sweep.
#[derive(Debug)]
pub(super) struct Cutter(Person);

impl Cutter {
    pub(super) fn start() -> Self {
        Self(Person::start_as(this_program("cutter -")))
    }

    /// Follows a process from here on. With `from_exec` the process stands still; it is then let
    /// go, and its calls count from its next execve(2).
    pub(super) fn arm(
        &mut self,
        action: Action,
        at: u64,
        process: u32,
        from_exec: bool,
    ) -> Result<(), String> {
        let exec = if from_exec { " exec" } else { "" };
        let said = self.0.ask(&format!("arm {} {at} {process}{exec}", action.name()));
        if said == "armed" { Ok(()) } else { Err(said) }
    }

    /// Waits until the victim is held. Returns `false` if it has ended.
    pub(super) fn is_held(&mut self) -> bool {
        self.0.ask("held?") == "held"
    }

    /// Lets a held victim continue.
    pub(super) fn go(&mut self) {
        self.0.ask("go");
    }

    /// Ends the pursuit.
    pub(super) fn done(&mut self) -> Ended {
        let said = self.0.ask("done");
        match said.split(' ').collect::<Vec<_>>()[..] {
            ["cut", calls, name] => Ended::Cut(format!("{name} ({calls})")),
            ["whole", calls] => Ended::Whole(calls.parse().expect("a number")),
            _ => panic!("{said}"),
        }
    }
}

/// Runs in the cutter's process.
pub(in crate::hostile) fn obey() {
    ptrace::be_interruptible();
    say("ready");
    let mut pursuit: Option<Pursuit> = None;
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        let words: Vec<&str> = line.split(' ').collect();
        let said = match (&words[..], &mut pursuit) {
            (["arm", action, at, process, rest @ ..], place) => {
                let number = |word: &str| word.parse::<u64>().expect("a number");
                let action =
                    Action::ALL.into_iter().find(|(_, name)| name == action).expect("an action").0;
                match Pursuit::start(action, number(at), number(process) as pid_t, rest == ["exec"])
                {
                    Ok(started) => {
                        *place = Some(started);
                        "armed".to_owned()
                    }
                    Err(why) => format!("failed: {why}"),
                }
            }
            (["held?"], Some(pursuit)) => {
                if pursuit.held.recv().is_ok() { "held" } else { "ended" }.to_owned()
            }
            (["go"], Some(pursuit)) => {
                let _ = pursuit.go.send(());
                "gone".to_owned()
            }
            (["done"], place) => place.take().map_or_else(|| "whole 0".into(), Pursuit::end),
            _ => panic!("{line}"),
        };
        say(&said);
    }
}

/// A thread that follows a process and releases everything that it traces when it ends.
struct Pursuit {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    held: Receiver<()>,
    go: Sender<()>,
}

#[derive(Default)]
struct Shared {
    tracer: AtomicI32,
    is_over: AtomicBool,
    calls: AtomicU64,
    cut: Mutex<Option<String>>,
}

impl Pursuit {
    fn start(action: Action, at: u64, process: pid_t, from_exec: bool) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let (say_held, held) = channel();
        let (go, may_go) = channel();
        let (say_ready, ready) = channel();
        let with = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            with.tracer.store(punctual_linux::thread::current().as_raw(), Ordering::Release);
            let mut chase = Chase {
                action,
                at,
                process,
                counts: !from_exec,
                threads: BTreeSet::new(),
                failing: BTreeSet::new(),
                shared: with,
                say_held: Some(say_held),
                may_go,
            };
            let begun = chase.begin();
            let is_begun = begun.is_ok();
            let _ = say_ready.send(begun);
            if is_begun {
                chase.follow();
                chase.release();
            }
        });
        ready.recv().expect("the thread lives").map_err(|why| why.to_string())?;
        Ok(Self { shared, thread, held, go })
    }

    /// Releases everything that is traced.
    fn end(self) -> String {
        drop(self.go);
        self.shared.is_over.store(true, Ordering::Release);
        while !self.thread.is_finished() {
            ptrace::wake(self.shared.tracer.load(Ordering::Acquire));
            clock::sleep(Duration::from_micros(200));
        }
        let _ = self.thread.join();
        let calls = self.shared.calls.load(Ordering::Acquire);
        let cut = self.shared.cut.lock().expect("no panic").take();
        cut.map_or_else(|| format!("whole {calls}"), |name| format!("cut {calls} {name}"))
    }
}

/// The state of a pursuit, in its thread.
struct Chase {
    action: Action,
    at: u64,
    process: pid_t,
    /// Whether calls are being counted yet.
    counts: bool,
    threads: BTreeSet<pid_t>,
    /// The threads whose call was skipped and must fail.
    failing: BTreeSet<pid_t>,
    shared: Arc<Shared>,
    say_held: Option<Sender<()>>,
    may_go: Receiver<()>,
}

impl Chase {
    fn begin(&mut self) -> std::io::Result<()> {
        // The process stops itself, and is let go only then.
        while !self.counts && !is_stopped(self.process)? {
            clock::sleep(Duration::from_micros(200));
        }
        // Repeat until all threads are traced: an untraced thread may start another.
        loop {
            let found: Vec<pid_t> = fs::read_dir(format!("/proc/{}/task", self.process))?
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
                .filter(|thread| !self.threads.contains(thread))
                .collect();
            if found.is_empty() {
                break;
            }
            for thread in found {
                match ptrace::seize(thread) {
                    Ok(()) => ptrace::interrupt(thread),
                    // The thread has ended, or is traced as the child of a traced thread.
                    Err(_) if self.process != thread => {}
                    Err(why) => return Err(why),
                }
                self.threads.insert(thread);
            }
        }
        if !self.counts {
            ptrace::kill(self.process, libc::SIGCONT);
        }
        Ok(())
    }

    fn follow(&mut self) {
        while !self.shared.is_over.load(Ordering::Acquire) {
            match ptrace::wait() {
                Ok((thread, stop)) => self.react(thread, stop),
                Err(_) if self.shared.is_over.load(Ordering::Acquire) => {}
                // Nothing is left to follow.
                Err(_) => clock::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Stops every thread and lets it continue untraced.
    fn release(&mut self) {
        self.threads.iter().copied().for_each(ptrace::interrupt);
        loop {
            match ptrace::wait() {
                Ok((_, Stop::Gone)) => {}
                // The end of a system call is a step, too. Its signal would come after tracing has
                // ended, so wait for it.
                Ok((thread, stop)) if !self.is_step(stop) && self.has_stepped(thread) => {
                    ptrace::go_on(thread, 0);
                }
                Ok((thread, stop)) => {
                    let signal = match stop {
                        Stop::Signal(signal) if !self.is_step(stop) => signal,
                        _ => 0,
                    };
                    if stop == Stop::Behind && self.failing.remove(&thread) {
                        ptrace::fail(thread, libc::ENOSPC);
                    }
                    ptrace::detach(thread, signal);
                }
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
                // None is left.
                Err(_) => return,
            }
        }
    }

    /// Returns whether a thread has stopped because it has executed its single instruction.
    fn is_step(&self, stop: Stop) -> bool {
        self.action == Action::KillAtInstruction && stop == Stop::Signal(libc::SIGTRAP)
    }

    /// Returns whether the signal that ends a step is pending for a thread.
    fn has_stepped(&self, thread: pid_t) -> bool {
        self.action == Action::KillAtInstruction && is_pending(thread, libc::SIGTRAP)
    }

    fn react(&mut self, thread: pid_t, stop: Stop) {
        // Threads started since then are traced, too.
        self.threads.insert(thread);
        let mut signal = 0;
        match stop {
            Stop::Gone => {
                self.threads.remove(&thread);
                if thread == self.process {
                    self.say_held = None;
                }
                return;
            }
            Stop::Held => return ptrace::listen(thread),
            Stop::Executed => self.counts = true,
            Stop::Signal(_) if self.is_step(stop) => {
                if self.is_due() {
                    return self.kill("instruction".into());
                }
            }
            Stop::Signal(other) => signal = other,
            Stop::Before(call) if self.counts => {
                if self.before(thread, call) {
                    return;
                }
            }
            Stop::Behind if self.counts => {
                if self.failing.remove(&thread) {
                    ptrace::fail(thread, libc::ENOSPC);
                } else if self.action == Action::Stop && self.is_due() {
                    *self.shared.cut.lock().expect("no panic") = Some("behind".into());
                    ptrace::kill(self.process, libc::SIGSTOP);
                    let process = self.process;
                    thread::spawn(move || {
                        clock::sleep(STOPPED);
                        ptrace::kill(process, libc::SIGCONT);
                    });
                }
            }
            Stop::Before(_) | Stop::Behind | Stop::Other => {}
        }
        if self.action == Action::KillAtInstruction && self.counts {
            ptrace::step(thread, signal);
        } else {
            ptrace::go_on(thread, signal);
        }
    }

    /// Counts a call and returns whether it is the one to act at.
    fn is_due(&self) -> bool {
        self.shared.calls.fetch_add(1, Ordering::AcqRel) + 1 == self.at
    }

    fn kill(&self, what: String) {
        *self.shared.cut.lock().expect("no panic") = Some(what);
        ptrace::kill(self.process, libc::SIGKILL);
    }

    /// Acts before a call. Returns whether the thread stays where it is.
    fn before(&mut self, thread: pid_t, call: Call) -> bool {
        match self.action {
            Action::Kill => {
                if self.is_due() {
                    self.kill(name(call));
                    return true;
                }
            }
            Action::Hold => {
                if self.is_due() {
                    *self.shared.cut.lock().expect("no panic") = Some(name(call));
                    let _ = self.say_held.take().map(|held| held.send(()));
                    // Released, or the pursuit is over.
                    let _ = self.may_go.recv();
                }
            }
            Action::Full => self.fill(thread, call),
            Action::Unplug => {
                if self.is_due() {
                    *self.shared.cut.lock().expect("no panic") = Some(name(call));
                    set_loopback(false);
                    thread::spawn(|| {
                        clock::sleep(STOPPED);
                        set_loopback(true);
                    });
                }
            }
            Action::Stop | Action::KillAtInstruction => {}
        }
        false
    }

    /// Makes a call that takes room on a disk find none.
    fn fill(&mut self, thread: pid_t, call: Call) {
        if !takes_room(thread, call) {
            return;
        }
        let is_due = self.is_due();
        let is_write =
            call.number == c_long::from(libc::SYS_write) || call.number == libc::SYS_pwrite64;
        if is_due {
            *self.shared.cut.lock().expect("no panic") = Some(name(call));
        }
        if is_due && is_write && call.arguments[2] > 1 {
            ptrace::shorten(thread, call.arguments[2] / 2);
        } else if self.shared.calls.load(Ordering::Acquire) >= self.at && ptrace::skip(thread) {
            self.failing.insert(thread);
        }
    }
}

/// Takes the loopback of this process's network namespace up or down.
fn set_loopback(up: bool) {
    let loopback = Interface::named("lo").expect("every network has one");
    loopback.set_up(up).expect("root may");
}

/// Returns whether a process has been stopped by a signal (proc(5)).
fn is_stopped(process: pid_t) -> std::io::Result<bool> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    Ok(stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T')))
}

/// Returns whether a signal is pending for a thread (proc(5)).
fn is_pending(thread: pid_t, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    pending.is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

/// Returns whether a call writes to a file on a disk, or creates one.
fn takes_room(thread: pid_t, call: Call) -> bool {
    let [first, _, third, fourth, ..] = call.arguments;
    match call.number {
        libc::SYS_openat => third & libc::O_CREAT as u64 != 0,
        libc::SYS_mkdir | libc::SYS_mkdirat | libc::SYS_link | libc::SYS_linkat => true,
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_symlinkat => true,
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_fallocate => {
            let link = format!("/proc/{thread}/fd/{}", first as i32);
            let file = fs::read_link(&link).unwrap_or_default();
            let in_place = call.number == libc::SYS_pwrite64
                && fs::metadata(&link).is_ok_and(|is| is_reserved(&is, fourth + third));
            if in_place {
                return false;
            }
            let elsewhere = ["/dev/", "/proc", "/sys", "/memfd:"];
            // A file system in memory can be full, too.
            file.starts_with("/dev/shm")
                || file.is_absolute()
                    && file.extension().is_none_or(|is| is != "log")
                    && !elsewhere.iter().any(|not| {
                        file.starts_with(Path::new(not)) || file.to_string_lossy().starts_with(not)
                    })
        }
        _ => false,
    }
}

/// Returns whether a file has all its room reserved as far as `end`. Writing there then needs no
/// more room, even on a file system in memory.
fn is_reserved(file: &fs::Metadata, end: u64) -> bool {
    end <= file.len() && file.len() <= file.blocks() * 512
}

/// Returns the usual name of a system call, or its number.
fn name(call: Call) -> String {
    let known = [
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_close, "close"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_ftruncate, "ftruncate"),
        (libc::SYS_rename, "rename"),
        (libc::SYS_linkat, "linkat"),
        (libc::SYS_unlink, "unlink"),
        (libc::SYS_mkdir, "mkdir"),
        (libc::SYS_rmdir, "rmdir"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_sendmmsg, "sendmmsg"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_poll, "poll"),
        (libc::SYS_clone, "clone"),
        (libc::SYS_clone3, "clone3"),
        (libc::SYS_sched_setattr, "sched_setattr"),
        (libc::SYS_sched_setscheduler, "sched_setscheduler"),
        (libc::SYS_sched_setaffinity, "sched_setaffinity"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_exit_group, "exit_group"),
    ];
    let found = known.into_iter().find(|(number, _)| *number == call.number);
    found.map_or_else(|| format!("call-{}", call.number), |(_, name)| name.to_owned())
}
