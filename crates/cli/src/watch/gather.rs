//! Asks the broker and the kernel, and makes pictures of their answers.
//!
//! - `account`: counts what a watched thread did.
//! - `grants`: turns the broker's answers into rows.
//! - `threads`: turns a process and its descendants into rows.

mod account;
mod grants;
mod threads;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration as Time;

use punctual_client::wire::{ChannelsStatus, Status};
use punctual_client::{Broker, ClientError};
use punctual_trace::Promise;

use self::account::Account;
pub(crate) use self::grants::{promise, thread_of};
use self::threads::Uses;
use super::observed::tree::Tree;
use super::observed::{JobEvent, Observed, Target};
use super::picture::Picture;

/// The longest wait for an answer of the broker.
const PATIENCE: Time = Time::from_secs(1);

/// The things to watch.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The broker's socket.
    pub(crate) socket: PathBuf,
    /// A process that is watched with its descendants.
    pub(crate) root: Option<u32>,
    /// The promise that its threads are held to.
    pub(crate) promise: Promise,
}

/// Collects the data. It needs a thread of its own.
pub(crate) struct Gatherer {
    asked: Scope,
    broker: Option<Broker>,
    /// `None` if the kernel's records are unavailable; `blind` says why.
    observed: Option<Observed>,
    blind: Option<String>,
    accounts: BTreeMap<u32, Account>,
    uses: Uses,
    this_program: Option<PathBuf>,
}

impl Gatherer {
    /// Starts to watch. Failures appear in its pictures.
    pub(crate) fn start(asked: Scope) -> Self {
        let (observed, blind) = match Observed::start() {
            Ok(observed) => (Some(observed), None),
            Err(why) => (None, Some(format!("Jobs, latencies and causes are not seen: {why}"))),
        };
        Self {
            asked,
            broker: None,
            observed,
            blind,
            accounts: BTreeMap::new(),
            uses: Uses::default(),
            this_program: std::env::current_exe().ok(),
        }
    }

    /// Collects the kernel's records. Must be called at least ten times a second.
    pub(crate) fn turn(&mut self) {
        let Some(observed) = &mut self.observed else { return };
        for job_event in observed.turn() {
            let (JobEvent::Began { thread, .. } | JobEvent::Ended { thread, .. }) = job_event;
            if let Some(account) = self.accounts.get_mut(&thread) {
                account.add(&job_event);
            }
        }
    }

    /// Updates the set of threads, and returns the current picture.
    pub(crate) fn look(&mut self) -> Picture {
        let answer = self.ask();
        let tree = self.asked.root.map(|root| Tree::of(root, self.this_program.as_deref()));
        let tree = tree.unwrap_or_default();
        let grants = answer.as_ref().map_or(&[][..], |(status, _)| &status.grants[..]);
        let mut targets: BTreeMap<u32, Promise> = grants.iter().map(grants::target).collect();
        for (_, thread) in &tree.threads {
            let promise = targets.entry(*thread).or_insert(self.asked.promise);
            // The user's deadline takes precedence over the granted one.
            if self.asked.promise.relative_deadline.is_some() {
                *promise = self.asked.promise;
            }
        }
        if let Some(observed) = &mut self.observed {
            let list: Vec<Target> =
                targets.iter().map(|(&thread, &promise)| Target { thread, promise }).collect();
            observed.watch(&list);
            observed.enforcers(tree.enforcers.iter().copied());
            self.accounts.retain(|thread, _| targets.contains_key(thread));
            for (thread, promise) in targets {
                self.accounts.entry(thread).or_default().promise = promise;
            }
        }
        let mut picture = Picture::default();
        match &answer {
            Ok((status, channels)) => {
                picture.host.push(grants::host(status));
                picture.host.extend(grants::link(channels));
                let granted = status.grants.iter();
                picture.rows.extend(granted.map(|grant| grants::grant(grant, &self.accounts)));
                picture.rows.extend(channels.channels.iter().map(grants::channel));
            }
            Err(why) => picture.notes.push(why.to_string()),
        }
        let rows = self.uses.rows(&tree, &self.accounts);
        let is_granted = |thread: u32| {
            grants.iter().any(|grant| u32::try_from(grant.thread).is_ok_and(|one| one == thread))
        };
        let rows = rows.into_iter().filter(|(thread, _)| !is_granted(*thread));
        picture.rows.extend(rows.map(|(_, row)| row));
        if let Some(root) = self.asked.root.filter(|_| tree == Tree::default()) {
            picture.notes.push(format!("Process {root} and what it started have ended."));
        }
        picture.notes.extend(self.blind.clone());
        picture
    }

    fn ask(&mut self) -> Result<(Status, ChannelsStatus), ClientError> {
        let answer = ask(&mut self.broker, &self.asked.socket);
        if answer.is_err() {
            self.broker = None;
        }
        answer
    }
}

/// Asks the broker for everything, over a kept connection. After an error, the caller drops the
/// connection.
pub(crate) fn ask(
    broker: &mut Option<Broker>,
    socket: &std::path::Path,
) -> Result<(Status, ChannelsStatus), ClientError> {
    let broker = match broker {
        Some(broker) => broker,
        none => none.insert(Broker::connect_within(socket, PATIENCE)?),
    };
    // Events that the broker sends by itself concern no grant of ours.
    broker.events(|_, _| ())?;
    Ok((broker.status()?, broker.channels()?))
}
