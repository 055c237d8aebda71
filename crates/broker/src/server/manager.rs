//! The service manager (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)).

use std::io;
use std::os::fd::OwnedFd;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sd_notify::NotifyState;

/// Reports the broker's state to the service manager, if there is one.
#[derive(Debug)]
pub(super) struct Manager {
    /// The interval of watchdog messages: half of the manager's time-out.
    watchdog: Option<Duration>,
    last: Instant,
}

impl Manager {
    pub(super) fn new() -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let nanos = watchdog.map(|limit| u64::try_from(limit.as_nanos() / 2).unwrap_or(u64::MAX));
        Self { watchdog: nanos.map(Duration::from_nanos), last: Instant::ZERO }
    }

    /// Returns the socket on which the manager listens for the broker, if it does.
    pub(super) fn socket(&self) -> Option<io::Result<OwnedFd>> {
        let first = sd_notify::listen_fds().ok()?.next()?;
        // The descriptor is only a number here, which the compiler cannot check: take a copy
        // through our own pidfd.
        let copy = || {
            let us = pidfd_open(getpid(), PidfdFlags::empty())?;
            pidfd_getfd(us, first, PidfdGetfdFlags::empty())
        };
        Some(copy().map_err(io::Error::from))
    }

    pub(super) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    pub(super) fn reloading(&self) {
        let Ok(now) = NotifyState::monotonic_usec_now() else { return };
        tell(&[NotifyState::Reloading, now]);
    }

    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Sends a watchdog message, no more often than the manager wants.
    pub(super) fn alive(&mut self) {
        let now = clock::now();
        if self.watchdog.is_some_and(|every| now.saturating_since(self.last) >= every) {
            self.last = now;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    // Without a manager this does nothing; a manager that does not get it will restart us.
    let _ = sd_notify::notify(state);
}
