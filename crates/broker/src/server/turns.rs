//! The loop: events, and regular work.

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use tracing::{error, info, warn};

use super::start::{means, read_config};
use super::{ServeError, Server, Source};
use crate::front::ToFront;
use crate::log;

/// The interval of sweeps, and of checks whether the host can still promise the same.
const SLOW: Duration = Duration::from_secs(1);

/// Events of one wait: it bounds how long a flood on some connections delays the others.
const BATCH: usize = 64;

impl Server {
    /// Serves until SIGTERM or SIGINT. Grants stay in force and in the ledger: the next broker
    /// adopts them.
    pub fn run(mut self) -> Result<(), ServeError> {
        info!(
            grants = self.grants.len(),
            order = ?self.means.order,
            may_limit = self.powers.may_limit,
            cpus = self.means.cpus.len(),
            "broker ready"
        );
        self.manager.ready();
        let mut events = Vec::with_capacity(BATCH);
        loop {
            let now = clock::now();
            let wait = self.next_tick.saturating_since(now).as_nanos();
            let timeout = Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as _,
            };
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(other) => return Err(other.into()),
            }
            for event in events.drain(..) {
                self.handle(event.data.u64(), event.flags)?;
                // Between any two messages, so that no crowd of clients delays it by more than one.
                self.tick_if_due();
            }
            if let Some(why) = self.guard.is_lost(clock::now()).map(str::to_owned) {
                // The grants stay: the next broker goes on, with another guard.
                return Err(ServeError::GuardLost { why });
            }
            let lost = self.dispatcher.as_ref().and_then(|one| one.is_lost());
            if let Some(why) = lost.map(str::to_owned) {
                return Err(ServeError::DispatcherLost { why });
            }
            if self.has_lost_a_carrier() {
                // The grants stay: the next broker, which the service manager starts, goes on.
                return Err(ServeError::CarrierLost);
            }
            if self.signals.end() {
                info!("broker ends; what is granted stays in force for its successor");
                self.write_refusals();
                if let Some(channels) = &mut self.channels {
                    channels.end_trace();
                }
                self.manager.stopping();
                return Ok(());
            }
            self.tick_if_due();
        }
    }

    pub(super) fn tick_if_due(&mut self) {
        let now = clock::now();
        if now >= self.next_tick {
            self.tick(now);
            self.manager.alive();
            self.next_tick = now + self.config.sample;
        }
    }

    fn handle(&mut self, source: u64, flags: epoll::EventFlags) -> Result<(), ServeError> {
        // Something earlier in the same batch may have ended it.
        match self.sources.get(&source).copied() {
            None => {}
            Some(Source::Front) => {
                self.note_idle_sender();
                self.front_news(flags)?;
            }
            Some(Source::Signals) if self.signals.reload() => self.reload(),
            Some(Source::Signals) => {}
            Some(Source::Process(id)) => self.process_ended(id),
            Some(Source::Guard) => self.guard_news(),
            Some(Source::Dispatcher) => self.dispatcher_news(),
            Some(Source::Sender) => self.sender_news(),
            Some(Source::Receiver) => self.receiver_news(),
        }
        Ok(())
    }

    /// Has admission know when the channels' sender was idle last.
    fn note_idle_sender(&mut self) {
        if let Some(channels) = &self.channels {
            self.admission.sender_idle(channels.sender_idle_at());
        }
    }

    fn tick(&mut self, now: Instant) {
        self.guard_news();
        self.dispatcher_news();
        self.look_at_residuals();
        self.end_disconnected(now);
        self.revoke_what_is_over(now);
        self.end_channels(now);
        self.note_idle_sender();
        if self.admission.settle(now) {
            self.tell_of_room();
        }
        if now.saturating_since(self.last_slow) >= SLOW || self.sweep_now {
            self.last_slow = now;
            self.banned.retain(|_, until| *until > now);
            self.pace.forget(now);
            self.attach_pace.forget(now);
            self.persons.refresh();
            log::tidy(&self.persons);
            self.sweep();
            self.write_refusals();
            self.hold_against_the_host(now);
        }
    }

    pub(super) fn write_refusals(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        let refusals = std::mem::take(&mut self.unwritten);
        if let Err(why) = self.ledger.refused(&refusals) {
            warn!(%why, "refusals are not remembered");
        }
    }

    /// Reads the configuration again. A bad one changes nothing.
    fn reload(&mut self) {
        self.manager.reloading();
        let read = read_config(&self.options)
            .and_then(|config| Ok((means(&config, self.powers)?, config)));
        match read {
            // The threads are at the priorities that the order at the start gave them.
            Ok((means, _)) if means.order != self.means.order => {
                warn!("upcalls = changes only with a restart; the configuration stays as it is");
            }
            Ok((_, config)) if config.channels != self.config.channels => {
                warn!("[channels] changes only with a restart; the configuration stays as it is");
            }
            Ok((means, config)) => {
                info!("configuration reloaded");
                let max_connections = config.max_connections;
                (self.means, self.config) = (means, config);
                self.guard.settings(self.config.sample, self.config.orphan);
                self.tell_front(ToFront::Limit { max_connections }, Vec::new());
                self.rebuild(clock::now());
            }
            Err(why) => error!(%why, "the configuration stays as it is"),
        }
        self.manager.ready();
    }
}
