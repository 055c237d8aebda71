//! The service manager (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)).

use std::io;
use std::os::fd::OwnedFd;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sd_notify::NotifyState;

/// Tells it how we are, if there is one.
#[derive(Debug)]
pub(super) struct Manager {
    /// How often it wants to hear from us: half of what it waits.
    watchdog: Option<Duration>,
    last: Instant,
}

impl Manager {
    pub(super) fn new() -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let nanos = watchdog.map(|limit| u64::try_from(limit.as_nanos() / 2).unwrap_or(u64::MAX));
        Self { watchdog: nanos.map(Duration::from_nanos), last: Instant::ZERO }
    }

    /// The socket it listens on for us, if it does.
    pub(super) fn socket(&self) -> Option<io::Result<OwnedFd>> {
        let first = sd_notify::listen_fds().ok()?.next()?;
        // By its number it is nobody's in the eyes of the compiler: take a copy through ourselves.
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

    /// We are alive; said no oftener than it is wanted.
    pub(super) fn alive(&mut self) {
        let now = clock::now();
        if self.watchdog.is_some_and(|every| now.saturating_since(self.last) >= every) {
            self.last = now;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    // Without a manager it does nothing; one that does not listen will restart us.
    let _ = sd_notify::notify(state);
}
