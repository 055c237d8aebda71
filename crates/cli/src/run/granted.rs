//! Reservations by the broker, for who has no privilege: whether to ask, and what it tells while the
//! program runs.

use std::path::{Path, PathBuf};
use std::process::Child;

use punctual_broker::client::{Broker, ClientError, Granted, RequestError, Spawned};
use punctual_broker::grant::GrantId;
use punctual_broker::kernel::take::residual;
use punctual_broker::wire::{Event, Offered};
use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_model::units::percent;
use punctual_model::{Duration, Instant, Reservation};

use super::not_started::NotStarted;
use super::{Manner, say};

/// Before a broker that is gone is looked for again, and how long its answer is waited for: both well
/// within the grace that a broker gives (5 s unless configured).
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// Through whom a program has its reservation, where not by our own right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Through {
    /// Where the broker listens.
    pub(super) path: PathBuf,
    /// Once it was granted.
    pub(super) grant: Option<GrantId>,
}

/// Why we may not use SCHED_DEADLINE, if the reason is one that the broker is there for.
pub(super) fn missing_privilege() -> Option<SchedError> {
    let reservation: Reservation = "1ms/100ms".parse().ok()?;
    let tried = sched::try_out(Class::Deadline { reservation, reset_on_fork: true });
    let privilege = |refused: &SchedError| {
        matches!(refused, SchedError::NoDeadlinePrivilege | SchedError::Forbidden)
    };
    tried.err().filter(privilege)
}

/// The broker at `path`, if one answers there; else what is missing (`refused`), and both ways to get
/// it.
pub(super) fn through(path: Option<&Path>, refused: &str) -> Result<Through, NotStarted> {
    let Some(path) = path else {
        return Err(NotStarted::CannotHere(format!(
            "{refused}; or let the broker grant it: leave --no-broker out (docs/broker.md)"
        )));
    };
    match Broker::connect_to(path) {
        Ok(_) => Ok(Through { path: path.to_owned(), grant: None }),
        Err(no) => Err(NotStarted::CannotHere(format!(
            "{refused}; or let the broker grant it (docs/broker.md), and there is none to ask: {no}"
        ))),
    }
}

/// The broker's voice while a program runs.
pub(super) struct Told {
    /// The command's name; none of one that was typed.
    name: Option<String>,
    path: PathBuf,
    /// None while the broker is gone.
    broker: Option<Broker>,
    look_again: Instant,
    granted: Granted,
    reservation: Reservation,
    revoked: Option<(Instant, String)>,
}

impl Told {
    /// The program, and what is said of it from here on.
    pub(super) fn of(spawned: Spawned, path: PathBuf, reservation: Reservation) -> (Child, Self) {
        let Spawned { child, broker, granted } = spawned;
        let (broker, look_again, revoked) = (Some(broker), clock::now(), None);
        (child, Self { name: None, path, broker, look_again, granted, reservation, revoked })
    }

    pub(super) fn called(&mut self, name: &str) {
        self.name = Some(name.to_owned());
    }

    /// When the reservation was taken back, and why, if it was.
    pub(super) fn revoked(&self) -> Option<&(Instant, String)> {
        self.revoked.as_ref()
    }

    /// Says what has come. Looks for a broker that is gone, and goes on with its successor.
    pub(super) fn hear(&mut self, manner: Manner) {
        if self.revoked.is_some() {
            return;
        }
        let mut events = Vec::new();
        match &mut self.broker {
            Some(broker) => {
                let mine = self.granted.id();
                let heard = broker.events(|grant, event| {
                    if grant == Some(mine) {
                        events.push(event);
                    }
                });
                if heard.is_err() {
                    self.broker = None;
                    self.look_again = clock::now();
                }
            }
            None if clock::now() >= self.look_again => events.extend(self.find_again()),
            None => {}
        }
        for event in events {
            if let Event::Revoked { why } = &event {
                self.revoked = Some((clock::now(), why.clone()));
            }
            self.tell(&event, manner);
        }
    }

    /// The grant is over if a broker answers and does not know it.
    fn find_again(&mut self) -> Option<Event> {
        self.look_again = clock::now() + AGAIN;
        let mut broker = Broker::connect_within(&self.path, PATIENCE).ok()?;
        match broker.resume(&mut self.granted) {
            Ok(()) => {
                self.broker = Some(broker);
                None
            }
            Err(RequestError::Client(ClientError::Broker(why))) => Some(Event::Revoked { why }),
            Err(_) => None,
        }
    }

    fn tell(&self, event: &Event, manner: Manner) {
        let grant = self.granted.id();
        match manner {
            Manner::Json => {
                let line =
                    serde_json::json!({ "command": self.name, "grant": grant, "event": event });
                say(&line.to_string());
            }
            Manner::Quiet if !matters(event) => {}
            Manner::Quiet | Manner::Text => {
                let name = self.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
                let text = words(event, self.reservation);
                if let Some(text) = text {
                    say(&format!("punctual: {name}grant {grant}: {text}"));
                }
            }
        }
    }
}

/// What must not pass in silence.
fn matters(event: &Event) -> bool {
    matches!(event, Event::Revoked { .. } | Event::Choose { .. })
}

/// A sentence; none for what is about nobody's reservation.
fn words(event: &Event, reservation: Reservation) -> Option<String> {
    Some(match event {
        Event::NearLimit { used_ppm, granted_ppm } => format!(
            "near its limit: it uses {} of a CPU, and {} is granted",
            percent(*used_ppm),
            percent(*granted_ppm)
        ),
        Event::Broken { used_ppm, granted_ppm, owed_ns, most_ns, within_ms } => format!(
            "it used {} of a CPU, and {} is granted: it owes {}, must rest until that is paid back, \
             within {}, and loses its grant when it owes {}",
            percent(*used_ppm),
            percent(*granted_ppm),
            Duration::from_nanos(*owed_ns),
            Duration::from_millis(*within_ms),
            Duration::from_nanos(*most_ns),
        ),
        Event::Choose { must_free_ppm, within_ms, offers } => {
            let changes: Vec<&str> =
                offers.iter().map(|Offered { change, .. }| &**change).collect();
            let smaller = match changes.as_slice() {
                [] => String::new(),
                some => format!(", or run it with {}", some.join(", or ")),
            };
            format!(
                "the host got tighter, and {} of a CPU must be given back within {}: the newest \
                 grants are taken back then; end a program{smaller}",
                percent(*must_free_ppm),
                Duration::from_millis(*within_ms)
            )
        }
        Event::Revoked { why } => format!("{}; {why}", taken_back(reservation)),
        Event::ChannelEnded { why } => format!("its channel has ended: {why}"),
        Event::MoreAvailable { .. } => return None,
        Event::Unknown(said) => format!("the broker says what this program does not know: {said}"),
    })
}

/// What a program is left with that cannot leave SCHED_DEADLINE by itself.
pub(super) fn taken_back(reservation: Reservation) -> String {
    format!(
        "the broker took the reservation back, and the program goes on with at most {}",
        residual(reservation)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation() -> Reservation {
        "5ms/10ms".parse().expect("valid")
    }

    #[test]
    fn each_event_is_a_sentence_with_its_numbers() {
        let offered = |change: &str| Offered {
            change: change.into(),
            want: punctual_broker::want::RawWant::Priority { thread: 1, share_ppm: 1_000 },
        };
        for (event, parts) in [
            (
                Event::NearLimit { used_ppm: 190_000, granted_ppm: 200_000 },
                &["19.0 %", "20.0 % is granted"][..],
            ),
            (
                Event::Broken {
                    used_ppm: 250_000,
                    granted_ppm: 200_000,
                    owed_ns: 3_000_000,
                    most_ns: 840_000_000,
                    within_ms: 10_000,
                },
                &["25.0 %", "owes 3ms", "within 10s", "840ms"],
            ),
            (
                Event::Choose {
                    must_free_ppm: 50_000,
                    within_ms: 10_000,
                    offers: vec![offered("a budget of 1ms")],
                },
                &["5.0 %", "within 10s", "run it with a budget of 1ms"],
            ),
            (Event::Revoked { why: "overuse".into() }, &["at most 2ms/100ms", "overuse"]),
        ] {
            let text = words(&event, reservation()).expect("a sentence");
            for part in parts {
                assert!(text.contains(part), "{text}");
            }
        }
        assert_eq!(words(&Event::MoreAvailable { ppm: 1 }, reservation()), None);
    }

    #[test]
    fn only_what_ends_a_reservation_is_said_to_those_who_want_quiet() {
        assert!(matters(&Event::Revoked { why: String::new() }));
        assert!(!matters(&Event::NearLimit { used_ppm: 1, granted_ppm: 1 }));
    }
}
