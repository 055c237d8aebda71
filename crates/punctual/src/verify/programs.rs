//! Runs the commands of the contract by `punctual run`, and finds the command of each thread.
//!
//! That is a process of its own, although [`crate::run`] could run the commands in this one:
//! - A run and a verification both wait for signals (SIGTERM, SIGINT, …) and take them one at a
//!   time: a signal that one of them takes never reaches the other. A signal is also how a run is
//!   told to end its programs.
//! - A run reaps its programs and, while it is stopped by job control, stops its whole process.
//! - The session tells work from enforcement by processes: the descendants of `punctual run` are
//!   the work, and its threads, which stop the programs at the end of their budgets, are the
//!   enforcers. In one process the stand-ins for tasks and channels would be among these.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Signal, die_with_parent};
use punctual_model::command::Backend;
use punctual_model::{Contract, Duration, HostProfile};
use punctual_trace::Promise;

use super::promises::Options;
use crate::Failure;
use crate::run::{Planned, Prepared, Settings};

/// The time for `punctual run` to end. It gives its programs two seconds and then kills them.
const GRACE: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(5);
/// The most processes between a thread and `punctual run` for which the descent is followed.
const DEEPEST: usize = 64;

/// Returns how each command would be started, in file order.
pub(super) fn plan(
    contract: &Contract,
    host: &HostProfile,
    broker: &Path,
) -> Result<Vec<Planned>, Failure> {
    if contract.commands.is_empty() {
        return Ok(Vec::new());
    }
    let settings = Settings { broker: Some(broker.to_owned()), ..Settings::default() };
    let prepared = Prepared::contract(contract, host, &[], settings, &mut |_| {});
    let plan = prepared.and_then(|prepared| prepared.plan());
    plan.map(|plan| plan.commands).map_err(|error| match error.into() {
        // The contract was admitted, so the refusal is about this host.
        Failure::Refused(why) => Failure::CannotHere(why.message),
        other => other,
    })
}

fn cannot_run(why: impl std::fmt::Display) -> Failure {
    Failure::cannot_here(format!("the program that runs the commands cannot be started: {why}"))
}

/// The child `punctual run` with its programs. All die with this process.
pub(super) struct Programs {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Programs {
    /// Starts the programs; `None` if there are none, or no program to run them by. Their output goes to standard
    /// error, because standard output is for the verdict.
    pub(super) fn start(
        file: &Path,
        options: &Options,
        contract: &Contract,
        signals: &Blocked,
    ) -> Result<Option<Self>, Failure> {
        let Some(run_by) = options.run_by.as_ref().filter(|_| !contract.commands.is_empty()) else {
            return Ok(None);
        };
        let mut command = Command::new(run_by);
        command.args(["run", "--quiet", "--broker"]).arg(&options.broker).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
        signals.unblock_on_exec(&mut command);
        die_with_parent(&mut command);
        command.spawn().map(|child| Some(Self { child, ended: None })).map_err(cannot_run)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn have_ended(&mut self) -> Result<bool, Failure> {
        if self.ended.is_none() {
            self.ended = process::poll(&self.child).map_err(cannot_run)?.map(|ended| ended.status);
        }
        Ok(self.ended.is_some())
    }

    /// Asks the programs to end if they have not. Returns the exit status if they ended by
    /// themselves.
    pub(super) fn end(mut self) -> Result<Option<ExitStatus>, Failure> {
        if self.have_ended()? {
            return Ok(self.ended);
        }
        process::send(&self.child, Signal::TERM).map_err(cannot_run)?;
        let until = clock::now() + GRACE;
        while clock::now() < until {
            if self.have_ended()? {
                return Ok(None);
            }
            clock::sleep(LOOK);
        }
        self.child.kill().and_then(|()| self.child.wait()).map(|_| None).map_err(cannot_run)
    }
}

/// The command of each thread, and its promise.
#[derive(Clone)]
pub(super) struct Owners(Arc<Mutex<Inner>>);

struct Inner {
    /// The process `punctual run`.
    run: Option<u32>,
    commands: Vec<Owner>,
    /// The first process of each command, as far as found.
    roots: BTreeMap<u32, usize>,
    threads: BTreeMap<u32, usize>,
}

struct Owner {
    words: Vec<Vec<u8>>,
    promise: Promise,
    only_first_thread: bool,
}

impl Owners {
    pub(super) fn new(contract: &Contract, plan: Vec<Planned>) -> Self {
        let commands = contract.commands.iter().zip(plan).map(|(command, planned)| {
            let words = std::iter::once(command.program());
            let words = words.chain(command.arguments().iter().map(String::as_str));
            let promise = command.held().map(|held| {
                // The contract's validation ensures that the index is in range.
                let reservation = contract.reservations[held.reservation].reservation;
                Promise {
                    period: None,
                    relative_deadline: Some(reservation.period()),
                    wcet: Some(reservation.budget()),
                }
            });
            Owner {
                words: words.map(|word| word.as_bytes().to_vec()).collect(),
                promise: promise.unwrap_or_default(),
                only_first_thread: planned
                    .terms
                    .is_some_and(|terms| terms.choice.backend == Backend::Kernel),
            }
        });
        let (run, roots, threads) = (None, BTreeMap::new(), BTreeMap::new());
        let commands = commands.collect();
        Self(Arc::new(Mutex::new(Inner { run, commands, roots, threads })))
    }

    /// Notes that the programs are children of this process.
    pub(super) fn started(&self, run: u32) {
        self.inner().run = Some(run);
    }

    /// Returns a function that gives the session the promise of a thread.
    pub(super) fn asked(&self) -> impl FnMut(u32) -> Promise + Send + 'static {
        let owners = self.clone();
        move |tid| owners.inner().promise_of(tid)
    }

    /// Returns the position of the command of a thread.
    pub(super) fn of(&self, tid: u32) -> Option<usize> {
        self.inner().threads.get(&tid).copied()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn promise_of(&mut self, tid: u32) -> Promise {
        let Some(command) = self.root_of(tid).and_then(|root| self.command_of(root)) else {
            return Promise::default();
        };
        self.threads.insert(tid, command);
        let Owner { promise, only_first_thread, .. } = &self.commands[command];
        let is_first = self.roots.get(&tid) == Some(&command);
        if *only_first_thread && !is_first { Promise::default() } else { *promise }
    }

    /// Finds the child of `punctual run` from which a thread descends.
    fn root_of(&self, tid: u32) -> Option<u32> {
        let mut process = status(tid, "Tgid:")?;
        for _ in 0..DEEPEST {
            let parent = status(process, "PPid:")?;
            if Some(parent) == self.run {
                return Some(process);
            }
            process = parent;
        }
        None
    }

    /// Finds a command by its command line; if several are alike, the first without a process. The
    /// command line of a script begins with its interpreter.
    fn command_of(&mut self, root: u32) -> Option<usize> {
        if let Some(&command) = self.roots.get(&root) {
            return Some(command);
        }
        let line = fs::read(format!("/proc/{root}/cmdline")).ok()?;
        let words: Vec<&[u8]> = line.strip_suffix(&[0])?.split(|&byte| byte == 0).collect();
        let is_it = |owner: &Owner| {
            let own: Vec<&[u8]> = owner.words.iter().map(Vec::as_slice).collect();
            let (arguments, rest) = (&own[1..], words.len().checked_sub(own.len() - 1));
            rest.is_some_and(|rest| rest > 0 && words[rest..] == *arguments)
                && (words[0] == own[0] || words.len() > own.len())
        };
        let taken: Vec<usize> = self.roots.values().copied().collect();
        let mut free = (0..self.commands.len()).filter(|at| !taken.contains(at));
        let command = free.find(|&at| is_it(&self.commands[at]))?;
        self.roots.insert(root, command);
        Some(command)
    }
}

/// Reads a number of /proc/TID/status (proc(5)).
fn status(tid: u32, key: &str) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}
