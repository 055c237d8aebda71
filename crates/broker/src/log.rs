//! The log, limited in lines per person, so that no person fills a disk or hides the lines about
//! others.
//!
//! A line names the user that caused it in its field `uid`. A line of the front without that field
//! is about a client not yet identified; all such lines count as one person's.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::kernel::persons::Persons;
use crate::pace::Pace;

/// The number of lines about a person that may be written at once.
const AT_ONCE: u32 = 50;

/// The time after which a person may cause one more line.
const APART: Duration = Duration::from_secs(1);

/// The pseudo-user for clients not yet identified.
const STRANGERS: u32 = u32::MAX;

/// The time between two lines that say how many of a person's lines were left out.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The limits of the process's one log.
static LIMITS: OnceLock<Mutex<Limits>> = OnceLock::new();

#[derive(Debug)]
struct Limits {
    pace: Pace,
    persons: Persons,
    /// The number of lines of each person that were left out and not yet reported.
    left_out: BTreeMap<u32, u64>,
    told: Instant,
}

impl Limits {
    fn new() -> Self {
        let (left_out, persons) = Default::default();
        Self { pace: Pace::new(APART, AT_ONCE), persons, left_out, told: Instant::ZERO }
    }

    /// Returns whether a line about a user may be written.
    fn may_write(&mut self, uid: u32, now: Instant) -> bool {
        let person = self.persons.of(uid);
        let may = self.pace.ask(person, now).is_ok();
        if !may {
            *self.left_out.entry(person).or_default() += 1;
        }
        may
    }

    /// Returns how many lines of each person were left out since the last report, if a report is
    /// due.
    fn left_out(&mut self, now: Instant) -> BTreeMap<u32, u64> {
        if now.saturating_since(self.told) < TOLD_EVERY {
            return BTreeMap::new();
        }
        self.told = now;
        self.pace.forget(now);
        std::mem::take(&mut self.left_out)
    }
}

/// Sends the log of this process to standard error from here on, as text or as lines of JSON.
/// `RUST_LOG` selects the lines; by default everything from `info` on.
pub fn start(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let to = fmt::layer().with_writer(std::io::stderr);
    let all = tracing_subscriber::registry().with(filter).with(PerPerson);
    if json {
        all.with(to.json().flatten_event(true)).init();
    } else if std::env::var_os("JOURNAL_STREAM").is_some() {
        // The journal has its own clock.
        all.with(to.without_time().with_ansi(false).with_target(false)).init();
    } else {
        all.with(to.with_ansi(false).with_target(false)).init();
    }
}

/// Reports how many lines were left out, and uses the delegated ids in `persons` from here on. Call
/// this regularly.
pub(crate) fn tidy(persons: &Persons) {
    let left_out = with_limits(|limits| {
        if limits.persons != *persons {
            limits.persons = persons.clone();
        }
        limits.left_out(clock::now())
    });
    for (person, lines) in left_out {
        warn!(person, lines, "lines of the log were left out: this user causes too many");
    }
}

fn with_limits<T>(act: impl FnOnce(&mut Limits) -> T) -> T {
    let limits = LIMITS.get_or_init(|| Mutex::new(Limits::new()));
    act(&mut limits.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Drops the lines beyond a person's pace.
struct PerPerson;

impl<S: Subscriber> Layer<S> for PerPerson {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut found = Uid(None);
        event.record(&mut found);
        let of_front = event.metadata().target().starts_with("punctual_broker::front");
        let Some(uid) = found.0.or(of_front.then_some(STRANGERS)) else { return true };
        with_limits(|limits| limits.may_write(uid, clock::now()))
    }
}

struct Uid(Option<u32>);

impl Visit for Uid {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "uid" {
            self.0 = u32::try_from(value).ok();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_person_has_so_many_lines_and_the_rest_is_counted() {
        let mut limits = Limits::new();
        let mut now = Instant::from_nanos(1_000_000_000_000);
        let written = (0..10_000).filter(|_| limits.may_write(1_000, now)).count();
        assert_eq!(written, AT_ONCE as usize);
        assert!(limits.may_write(1_001, now), "somebody else");
        assert_eq!(limits.left_out(now), BTreeMap::from([(1_000, 10_000 - u64::from(AT_ONCE))]));
        now += Duration::from_secs(5);
        assert_eq!((0..100).filter(|_| limits.may_write(1_000, now)).count(), 5);
        assert_eq!(limits.left_out(now), BTreeMap::new(), "it was just told");
        now += TOLD_EVERY;
        assert_eq!(limits.left_out(now), BTreeMap::from([(1_000, 95)]));
    }
}
