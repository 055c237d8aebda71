//! Collects a page's numbers from the broker, from /proc and from the observed jobs.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use punctual_client::ClientError;
use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service};

use super::format::Format;
use super::page::{Observer, Page};
use crate::watch::{BrokerLink, BrokerState, Jobs, promise_of, thread_of};

/// The shortest time between two queries to the broker, however many clients scrape.
const SHORTEST: Duration = Duration::from_millis(250);
/// The period at which the kernel's records are collected.
const TURN: Duration = Duration::from_millis(50);
/// The period at which the broker is asked for the threads to watch.
const LOOK: Duration = Duration::from_secs(1);

/// The connection to the broker, and its latest answer with the time of it.
struct Known {
    link: BrokerLink,
    answer: Option<(Instant, Option<BrokerState>)>,
}

/// Is told once that the broker no longer answers.
type OnLost = dyn Fn(&ClientError) + Send + Sync;

/// Makes pages.
pub struct Source {
    /// The broker's process id, if it is known.
    process: Option<u32>,
    known: Mutex<Known>,
    /// `None` if this host does not permit jobs to be observed, or their thread has failed.
    jobs: Mutex<Option<Jobs>>,
    on_lost: Box<OnLost>,
}

impl Source {
    /// Creates a source for the broker that listens at `socket`, and whose process id is `process`
    /// if it is known. Calls `on_lost` when the broker does not answer, once until it answers again.
    pub fn new(
        socket: PathBuf,
        process: Option<u32>,
        on_lost: impl Fn(&ClientError) + Send + Sync + 'static,
    ) -> Self {
        let known = Mutex::new(Known { link: BrokerLink::new(socket), answer: None });
        Self { process, known, jobs: Mutex::default(), on_lost: Box::new(on_lost) }
    }

    /// Returns the current numbers as a page in this format.
    pub fn page(&self, format: Format) -> String {
        format.of(&self.numbers().text())
    }

    fn numbers(&self) -> Page {
        let jobs = self.jobs().as_ref().map(Jobs::state);
        let observer = jobs.and_then(|jobs| {
            let cpu = cpu_of("self").unwrap_or(Service::ZERO);
            Some(Observer {
                threads: jobs.threads.len(),
                counts: jobs.counts.ok()?,
                tasks: jobs.tasks,
                cpu,
            })
        });
        let broker_cpu = self.process.and_then(|process| cpu_of(&process.to_string()));
        Page { broker: self.ask(), broker_cpu, observer }
    }

    fn jobs(&self) -> MutexGuard<'_, Option<Jobs>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the broker, and returns `None` if it does not answer.
    fn ask(&self) -> Option<BrokerState> {
        // A concurrent caller waits for this answer instead of asking again.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &known.answer
            && clock::now().saturating_since(*at) < SHORTEST
        {
            return answer.clone();
        }
        let answer = known.link.ask();
        if let Err(why) = &answer
            && !matches!(known.answer, Some((_, None)))
        {
            // Reported once, not at every scrape.
            (self.on_lost)(why);
        }
        let answer = answer.ok();
        known.answer = Some((clock::now(), answer.clone()));
        answer
    }

    /// Watches the granted threads in a separate thread until the process ends.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn watch(self: &Arc<Self>, jobs: Jobs) -> io::Result<()> {
        *self.jobs() = Some(jobs);
        let this = Arc::clone(self);
        let watches = thread::Builder::new().name("metrics-watch".into());
        watches.spawn(move || this.watches()).map(drop)
    }

    fn watches(&self) {
        // If this thread ends, which only a panic causes, the page shows it.
        let _down = Down(&self.jobs);
        let mut next_look = clock::now();
        loop {
            let now = clock::now();
            let mut state = None;
            if now >= next_look {
                next_look = now + LOOK;
                state = self.ask();
            }
            if let Some(jobs) = &mut *self.jobs() {
                jobs.collect();
                if let Some(BrokerState { status, .. }) = state {
                    let grants = status.grants.iter();
                    let targets = grants.map(|grant| (thread_of(grant), promise_of(grant)));
                    jobs.watch(&targets.collect(), &[]);
                }
            }
            clock::sleep(TURN);
        }
    }
}

struct Down<'a>(&'a Mutex<Option<Jobs>>);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns the processor time of a process with all its threads, including ended ones
/// (/proc/PID/stat, proc_pid_stat(5)).
fn cpu_of(process: &str) -> Option<Service> {
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
        let source = Source::new("/nonexistent/broker.sock".into(), None, |_| ());
        let page = source.page(Format::OpenMetrics);
        assert!(page.contains("\npunctual_broker_up 0.0\n"), "{page}");
        assert!(page.contains("\npunctual_observer_up 0.0\n"), "{page}");
        assert!(page.ends_with("# EOF\n") && !page.contains("punctual_granted"), "{page}");
    }
}
