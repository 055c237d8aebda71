//! Collects a page's numbers from the broker, from /proc and from the observer.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use punctual_client::Broker;
use punctual_client::wire::{ChannelsStatus, GrantStatus, Status};
use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service};

use super::page::{self, Page};
use super::tasks::Tasks;
use crate::exit::Failure;
use crate::watch::gather::{ask, promise, thread_of};
use crate::watch::observed::{Observed, Target, tree};

/// The shortest time between two queries to the broker, however many clients scrape.
const SHORTEST: Duration = Duration::from_millis(250);
/// The period at which the kernel's records are collected.
const TURN: Duration = Duration::from_millis(50);
/// The period at which the broker is asked for the threads to watch.
const LOOK: Duration = Duration::from_secs(1);

/// The connection to the broker, and its latest answer with the time of it.
#[derive(Default)]
struct Known {
    broker: Option<Broker>,
    answer: Option<(Instant, Option<(Status, ChannelsStatus)>)>,
}

/// Makes pages.
pub(super) struct Source {
    socket: PathBuf,
    /// The broker's process id, if it is known.
    process: Option<u32>,
    known: Mutex<Known>,
    /// `None` if this host does not permit an observer, or it has ended.
    observed: Mutex<Option<page::Observer>>,
}

impl Source {
    /// Creates a source for the broker that listens at `socket`.
    pub(super) fn new(socket: PathBuf, process: Option<u32>) -> Self {
        let (known, observed) = Default::default();
        Self { socket, process, known, observed }
    }

    /// Returns the current numbers.
    pub(super) fn page(&self) -> Page {
        let cpu = self.process.and_then(|process| cpu_of(&process.to_string()));
        let observer = self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let observer = observer.map(|known| page::Observer { cpu: page::own_cpu(), ..known });
        Page { broker: self.ask(), broker_cpu: cpu, observer }
    }

    /// Asks the broker, and returns `None` if it does not answer.
    fn ask(&self) -> Option<(Status, ChannelsStatus)> {
        // A concurrent caller waits for this answer instead of asking again.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &known.answer
            && clock::now().saturating_since(*at) < SHORTEST
        {
            return answer.clone();
        }
        let answer = ask(&mut known.broker, &self.socket);
        if let Err(why) = &answer {
            known.broker = None;
            if !matches!(known.answer, Some((_, None))) {
                // Reported once, not at every scrape.
                anstream::eprintln!("punctual metrics: {why}");
            }
        }
        let answer = answer.ok();
        known.answer = Some((clock::now(), answer.clone()));
        answer
    }

    /// Watches the granted threads in a separate thread until the process ends.
    pub(super) fn watch(self: &Arc<Self>, observed: Observed) -> Result<(), Failure> {
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Default::default());
        let this = Arc::clone(self);
        let watches = thread::Builder::new().name("metrics-watch".into());
        let watches = watches.spawn(move || this.watches(observed));
        watches.map(drop).map_err(|why| Failure::cannot_here(format!("no thread: {why}")))
    }

    fn watches(&self, mut observed: Observed) {
        // If this thread ends, which only a panic causes, the page shows it.
        let _down = Down(&self.observed);
        let mut tasks = Tasks::default();
        let mut next_look = clock::now();
        loop {
            for job_event in observed.turn() {
                tasks.add(&job_event);
            }
            let now = clock::now();
            if now >= next_look {
                next_look = now + LOOK;
                if let Some((status, _)) = self.ask() {
                    observed.watch(&targets(&status.grants));
                    tasks.called(names(&status.grants));
                }
            }
            let threads = observed.threads();
            let counts = observed.counts();
            let known =
                page::Observer { threads, counts, tasks: tasks.clone(), cpu: Service::ZERO };
            *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
            clock::sleep(TURN);
        }
    }
}

struct Down<'a>(&'a Mutex<Option<page::Observer>>);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn targets(grants: &[GrantStatus]) -> Vec<Target> {
    let of = |grant| Target { thread: thread_of(grant), promise: promise(grant) };
    grants.iter().map(of).collect()
}

/// Returns the current name of each thread, which may be executing another program by now.
fn names(grants: &[GrantStatus]) -> BTreeMap<u32, String> {
    let named = |grant| {
        let thread = thread_of(grant);
        Some((thread, tree::name(thread)?))
    };
    grants.iter().filter_map(named).collect()
}

/// Returns the processor time of a process with all its threads, including ended ones
/// (/proc/PID/stat, proc_pid_stat(5)).
pub(super) fn cpu_of(process: &str) -> Option<Service> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the numbers is in parentheses, and may contain parentheses itself.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Service::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_processor_time_grows() {
        let before = cpu_of("self").expect("we live");
        let until = clock::thread_cpu_time() + Service::from_millis(60);
        while clock::thread_cpu_time() < until {}
        let after = cpu_of("self").expect("we live");
        assert!(after > before, "{before} {after}");
        assert_eq!(cpu_of("4294967295"), None);
    }

    #[test]
    fn without_a_broker_a_page_says_so() {
        let source = Source::new("/nonexistent/broker.sock".into(), None);
        let page = source.page().text();
        assert!(page.contains("\npunctual_broker_up 0.0\n"), "{page}");
        assert!(page.contains("\npunctual_observer_up 0.0\n"), "{page}");
        assert!(page.ends_with("# EOF\n") && !page.contains("punctual_granted"), "{page}");
    }
}
