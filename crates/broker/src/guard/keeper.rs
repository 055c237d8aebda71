//! The broker's end of its guard.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command};

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::messages::{News, Order};
use crate::kernel::peer::{Process, start_of};
use crate::kernel::privileges::Account;
use crate::ledger::ProcessId;
use crate::link::{Link, LinkError, MAX_LINK, Part};

/// A guard that is silent for this long counts as lost; or for three of its wake-ups, if those are
/// longer.
const SILENCE: Duration = Duration::from_secs(1);

/// The time to wait for the guard where nothing can go on without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker's own guard.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Not waited for: when the guard ends the broker ends too.
    _child: Child,
    id: ProcessId,
    link: Link,
    silence: Silence,
    lost: Option<String>,
    /// News that came during the wait for an answer.
    early: VecDeque<News>,
    synced: u64,
    buffer: Vec<u8>,
}

impl Keeper {
    /// Starts a guard, and waits until it is ready.
    ///
    /// # Errors
    /// If it cannot be started, or may not do its work here.
    pub(crate) fn start(
        command: Command,
        account: Option<Account>,
        sample: Duration,
        orphan: Duration,
    ) -> io::Result<Self> {
        let (child, link) = Part::Guard.spawn(command)?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let start = start_of(pid, pid).ok_or_else(|| io::Error::other("it has ended"))?;
        let mut keeper = Self {
            _child: child,
            id: ProcessId { pid, start },
            link,
            silence: Silence::new(clock::now(), sample),
            lost: None,
            early: VecDeque::new(),
            synced: 0,
            buffer: vec![0; MAX_LINK],
        };
        keeper.order(&Order::Begin { account });
        keeper.settings(sample, orphan);
        keeper.sync()?;
        Ok(keeper)
    }

    /// Returns the identity of its process.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// Sets the interval of looks, and the time to go on without a broker.
    pub(crate) fn settings(&mut self, sample: Duration, orphan: Duration) {
        self.silence.sample = sample;
        let (sample, orphan) = (sample.as_nanos(), orphan.as_nanos());
        self.order(&Order::Settings { sample, orphan });
    }

    /// Sends an order, and waits for room if there is none. Returns whether it arrived; if not, the
    /// guard is [lost](Self::is_lost).
    pub(crate) fn order(&mut self, order: &Order) -> bool {
        let until = clock::now() + SILENCE;
        while self.lost.is_none() {
            match self.link.send(order) {
                Ok(()) => return true,
                Err(LinkError::Full) if clock::now() < until => {
                    wait(&self.link, PollFlags::OUT, until);
                }
                Err(why) => self.lost = Some(why.to_string()),
            }
        }
        false
    }

    /// Waits until all orders are carried out.
    ///
    /// # Errors
    /// If the guard has ended, or does not answer.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.synced += 1;
        let number = self.synced;
        self.order(&Order::Sync(number));
        let until = clock::now() + PATIENCE;
        loop {
            match self.receive() {
                Some(News::Synced(answer)) if answer == number => return Ok(()),
                Some(News::Synced(_)) => {}
                Some(news) => self.early.push_back(news),
                None if self.lost.is_some() || clock::now() >= until => break,
                None => wait(&self.link, PollFlags::IN, until),
            }
        }
        let why = self.lost.take().unwrap_or_else(|| "it does not answer".into());
        Err(io::Error::other(why))
    }

    /// Returns its next news, if there is any.
    pub(crate) fn news(&mut self) -> Option<News> {
        self.early.pop_front().or_else(|| self.receive())
    }

    fn receive(&mut self) -> Option<News> {
        match self.link.receive(&mut self.buffer) {
            Ok(news) => {
                if news.is_some() {
                    self.silence.heard();
                }
                news
            }
            Err(why) => {
                self.lost.get_or_insert(why.to_string());
                None
            }
        }
    }

    /// Returns the reason why the guard no longer polices, if so. Ask at every iteration of the
    /// loop, when all [news](Self::news) have been read.
    pub(crate) fn is_lost(&mut self, now: Instant) -> Option<&str> {
        if let Some(silent) = self.silence.is_too_long(now) {
            self.lost.get_or_insert_with(|| format!("it has been silent for {silent}"));
        }
        self.lost.as_deref()
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// The length of the guard's silence, counted only while the broker itself was awake: the broker,
/// or the whole host, may have been stopped.
#[derive(Debug)]
struct Silence {
    sample: Duration,
    silent: Duration,
    looked: Instant,
}

impl Silence {
    fn new(now: Instant, sample: Duration) -> Self {
        Self { sample, silent: Duration::ZERO, looked: now }
    }

    fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Returns the length of the silence if the guard must be lost.
    fn is_too_long(&mut self, now: Instant) -> Option<Duration> {
        // A broker that is awake asks once a wake-up or more often.
        self.silent += now.saturating_since(self.looked).min(self.sample * 2);
        self.looked = now;
        (self.silent > SILENCE.max(self.sample * 3)).then_some(self.silent)
    }
}

fn wait(link: &Link, flags: PollFlags, until: Instant) {
    let left = until.saturating_since(clock::now());
    // Ignore errors: the caller tries again, or time is up.
    let _ = poll(&mut [PollFd::new(link, flags)], Some(&clock::timespec(left.as_nanos())));
}

/// Ends the guard of an earlier broker, and waits until it has ended. Returns whether it is gone.
pub(crate) fn end(id: ProcessId) -> bool {
    let Some(process) = Process::find(id) else { return true };
    // Use the pidfd: no other process can have its id meanwhile (pidfd_send_signal(2)).
    if pidfd_send_signal(&process, Signal::KILL).is_err() {
        return process.has_ended();
    }
    let until = clock::now() + PATIENCE;
    let left = clock::timespec(PATIENCE.as_nanos());
    while !process.has_ended() && clock::now() < until {
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left));
    }
    process.has_ended()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guards_silence_counts_only_while_the_broker_is_awake() {
        let sample = Duration::from_millis(100);
        let mut now = Instant::from_nanos(7);
        let mut silence = Silence::new(now, sample);
        // The broker was stopped for a minute, and perhaps the guard too.
        now += Duration::from_secs(60);
        assert_eq!(silence.is_too_long(now), None);
        silence.heard();
        let mut asked = 0;
        let silent = loop {
            now += sample;
            asked += 1;
            if let Some(silent) = silence.is_too_long(now) {
                break silent;
            }
        };
        assert_eq!((asked, silent), (11, sample * 11));
        // A guard with rare wake-ups is given three of them.
        let mut silence = Silence::new(now, Duration::from_secs(1));
        assert_eq!(silence.is_too_long(now + Duration::from_secs(2)), None);
        assert_eq!(silence.is_too_long(now + Duration::from_secs(3)), None);
        assert!(silence.is_too_long(now + Duration::from_secs(4)).is_some());
    }
}
