//! The grant of a running program: receives the broker's events.

use std::path::PathBuf;
use std::process::Child;

use punctual_client::want::Guarantee;
use punctual_client::wire::Event as GrantEvent;
use punctual_client::{Broker, ClientError, Granted, RequestError, Spawned};
use punctual_linux::clock;
use punctual_model::command::Backend;
use punctual_model::{Duration, Instant, Reservation};

use super::notice::{GrantNews, Notice, Observer};

/// The interval between attempts to find a broker that is gone, and the longest wait for its
/// answer. Both are well within the grace period that a broker gives (5 s unless configured).
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// A grant of the broker while its program runs.
pub(super) struct GrantWatch {
    /// The program's name, if it has one.
    name: Option<String>,
    path: PathBuf,
    /// `None` while the broker is gone.
    broker: Option<Broker>,
    look_again: Instant,
    granted: Granted,
    reservation: Reservation,
    revoked: Option<(Instant, String)>,
}

impl GrantWatch {
    /// Splits the answer of the broker at `path` into the program and the connection for events of
    /// its grant.
    pub(super) fn of(
        spawned: Spawned,
        name: Option<&str>,
        path: PathBuf,
        reservation: Reservation,
    ) -> (Child, Self) {
        let Spawned { child, broker, granted } = spawned;
        let (broker, look_again, revoked) = (Some(broker), clock::now(), None);
        let name = name.map(str::to_owned);
        (child, Self { name, path, broker, look_again, granted, reservation, revoked })
    }

    /// Returns the time and the reason of the revocation, if there was one.
    pub(super) fn revoked(&self) -> Option<&(Instant, String)> {
        self.revoked.as_ref()
    }

    /// Passes on the events that have arrived. If the broker is gone, it looks for its successor
    /// and goes on with that.
    pub(super) fn poll(&mut self, observer: &mut Observer<'_>) {
        if self.revoked.is_some() {
            return;
        }
        let mut events = Vec::new();
        let grant = self.granted.id();
        match &mut self.broker {
            Some(broker) => {
                let polled = broker.events(|of, event| {
                    if of == Some(grant) {
                        events.push(event);
                    }
                });
                if polled.is_err() {
                    self.broker = None;
                    self.look_again = clock::now();
                }
            }
            None if clock::now() >= self.look_again => events.extend(self.find_again()),
            None => {}
        }
        for event in events {
            if let GrantEvent::Revoked { why } = &event {
                self.revoked = Some((clock::now(), why.clone()));
            }
            let (command, reservation) = (self.name.as_deref(), self.reservation);
            let backend = match self.granted.want().what {
                Guarantee::Program { .. } => Backend::Server,
                _ => Backend::Kernel,
            };
            observer(&Notice::Grant(GrantNews {
                command,
                grant,
                reservation,
                backend,
                event: &event,
            }));
        }
    }

    /// Asks the successor of a broker that is gone. The grant is over if the successor answers and
    /// does not know it.
    fn find_again(&mut self) -> Option<GrantEvent> {
        self.look_again = clock::now() + AGAIN;
        let mut broker = Broker::connect_within(&self.path, PATIENCE).ok()?;
        match broker.resume(&mut self.granted) {
            Ok(()) => {
                self.broker = Some(broker);
                None
            }
            Err(RequestError::Client(ClientError::Broker(why))) => {
                Some(GrantEvent::Revoked { why })
            }
            Err(_) => None,
        }
    }
}
