//! The grant of a running program: receives the broker's events.

use std::path::PathBuf;
use std::process::Child;

use punctual_client::want::Guarantee;
use punctual_client::wire::Event as GrantEvent;
use punctual_client::{Broker, ClientError, Granted, RequestError, Spawned};
use punctual_linux::clock;
use punctual_model::command::Backend;
use punctual_model::{Duration, Instant, Reservation, Service};
use rustix::event::{PollFd, PollFlags, poll};

use super::notice::{GrantNews, Notice, Observer};

/// The interval between attempts to find a broker that is gone, and the longest wait for its
/// answer. Both are well within the grace period that a broker gives (5 s unless configured).
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// The longest wait for the account of a program that has ended.
const SETTLING: Duration = Duration::from_millis(200);

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
    /// Whether another broker took the grant over, which does not know all that was used.
    is_taken_over: bool,
    account: Option<Account>,
}

/// The processor time that a program used under its grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Within its budgets.
    pub(super) inside: Service,
    /// In all.
    pub(super) all: Service,
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
        let (is_taken_over, account) = (false, None);
        let watch = Self {
            name,
            path,
            broker,
            look_again,
            granted,
            reservation,
            revoked,
            is_taken_over,
            account,
        };
        (child, watch)
    }

    /// Returns the time and the reason of the revocation, if there was one.
    pub(super) fn revoked(&self) -> Option<&(Instant, String)> {
        self.revoked.as_ref()
    }

    /// Returns what the program used, as the broker told after its end.
    pub(super) fn account(&self) -> Option<Account> {
        self.account
    }

    /// Passes on the last events of a program that has ended, and waits a little for its account.
    pub(super) fn settle(&mut self, observer: &mut Observer<'_>) {
        let until = clock::now() + SETTLING;
        loop {
            self.poll(observer);
            let is_held = matches!(self.granted.want().what, Guarantee::Program { .. });
            let comes = is_held && self.account.is_none() && self.revoked.is_none();
            let Some(broker) = self.broker.as_ref().filter(|_| comes && !self.is_taken_over) else {
                return;
            };
            let left = until.saturating_since(clock::now());
            let mut fds = [PollFd::new(broker, PollFlags::IN)];
            if left.is_zero() || poll(&mut fds, Some(&clock::timespec(left.as_nanos()))).is_err() {
                return;
            }
        }
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
            match &event {
                GrantEvent::Revoked { why } => self.revoked = Some((clock::now(), why.clone())),
                GrantEvent::Used { inside_ns, used_ns } => {
                    let [inside, all] = [*inside_ns, *used_ns].map(Service::from_nanos);
                    self.account = Some(Account { inside, all }).filter(|_| !self.is_taken_over);
                    continue;
                }
                _ => {}
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
                (self.broker, self.is_taken_over) = (Some(broker), true);
                None
            }
            Err(RequestError::Client(ClientError::Broker(why))) => {
                Some(GrantEvent::Revoked { why })
            }
            Err(_) => None,
        }
    }
}
