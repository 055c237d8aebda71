//! The guard: the one place where use is measured and overuse is acted on.
//!
//! It is a process of its own, so that policing does not depend on the broker being awake. It runs
//! at SCHED_FIFO above everything that the broker grants, keeps CAP_SYS_NICE and no other
//! capability, and holds nothing of clients but files of /proc and descriptors of processes. At
//! each wake-up it looks at a bounded number of grants (`watch`), takes the class back itself if
//! the policy says so ([`punctual_policy::overuse`]), and tells the broker afterwards, which
//! updates the admission state and the ledger, imposes the penalty and sends the events. It writes
//! no log while it works: a log that no process reads would stop it.
//!
//! Guard and broker watch each other. The guard reports at each wake-up that it is alive, and the
//! broker (`keeper`) ends if the reports stop. When the broker is gone the guard goes on for a
//! while (the configuration's `orphan`), so that a successor finds its grants policed; then it
//! takes back everything that only it polices, and ends. A successor starts a guard of its own, and
//! ends the old one when the new one watches all grants.

mod keeper;
mod messages;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tracing::{error, info};

pub(crate) use self::keeper::{Keeper, end};
pub(crate) use self::messages::{Breach, HeldBy, News, Order, Watched};
use self::watch::Watch;
use crate::kernel::peer::{Process, start_of};
use crate::kernel::privileges;
use crate::ledger::ProcessId;
use crate::link::{Link, LinkError, MAX_LINK};
use punctual_client::grant::GrantId;
use punctual_client::wire::GuardStatus;

/// The SCHED_FIFO priority of the guard: above every priority that a client can have, which is up
/// to [`level_order::GUARD`] where limits are raised, and below the channels' threads. These are
/// the broker's own and are admitted with a delay of 300 µs, which a wake-up of the guard would use
/// up. A guard that wakes up a few packets later looks as well as before.
pub const PRIORITY: u8 = level_order::GUARD + 1;

/// The most grants that one wake-up looks at: bounds its length, however many grants there are.
pub const AT_A_GO: usize = 128;

/// The most orders that are carried out before the next check for a look.
const ORDERS_AT_A_GO: usize = 256;

/// Polices until the broker is gone and time is up.
///
/// # Errors
/// If this process may not do a guard's work, or the broker is gone before it names the user.
pub(crate) fn run(link: Link) -> Result<(), LinkError> {
    let mut buffer = vec![0; MAX_LINK];
    let Some(Order::Begin { account }) = link.receive(&mut buffer)? else {
        return Err(LinkError::OutOfOrder);
    };
    // Leave the terminal's process group, so that its keys do not end the guard with the broker. An
    // error means that it leads its group already.
    let _ = rustix::process::setsid();
    privileges::drop_all_but_sys_nice(account)?;
    if let Err(why) = sched::set_resetting(thread::current(), Class::Fifo { priority: PRIORITY }) {
        error!(%why, "the guard cannot work here");
        return Err(LinkError::Failed(Errno::PERM));
    }
    rustix::io::ioctl_fionbio(&link, true)?;
    let taken = Guard::new(link, buffer).run();
    info!(taken, "the guard ends: no broker is left, and nothing to police");
    Ok(())
}

struct Guard {
    /// `None`: the broker is gone.
    link: Option<Link>,
    sample: Duration,
    orphan: Duration,
    orphan_at: Option<Instant>,
    watched: BTreeMap<GrantId, Watch>,
    processes: BTreeMap<ProcessId, Weak<Process>>,
    /// For each person, the time until which it would have to rest for the debts of grants that
    /// have ended.
    owed: BTreeMap<u32, Instant>,
    /// The grant after which the next look begins.
    sampled: GrantId,
    next: Instant,
    looks: GuardStatus,
    untold: BTreeMap<(GrantId, u8), News>,
    answers: VecDeque<u64>,
    buffer: Vec<u8>,
}

impl Guard {
    fn new(link: Link, buffer: Vec<u8>) -> Self {
        let (watched, processes, owed, untold, answers) = Default::default();
        Self {
            link: Some(link),
            sample: Duration::from_millis(100),
            orphan: Duration::ZERO,
            orphan_at: None,
            watched,
            processes,
            owed,
            sampled: GrantId(0),
            next: clock::now(),
            looks: GuardStatus::default(),
            untold,
            answers,
            buffer,
        }
    }

    /// Runs the loop and returns how many classes it took back at its end.
    fn run(mut self) -> usize {
        loop {
            self.wait();
            self.take_orders();
            let now = clock::now();
            if now >= self.next {
                let used = self.look();
                self.looks.count(clock::now().saturating_since(self.next));
                self.tell_all();
                self.tell(News::Alive { used, looks: self.looks });
                // After a stop, go on from now.
                self.next = (self.next + self.sample).max(now);
            }
            if self.link.is_none() {
                let since = *self.orphan_at.get_or_insert(now);
                let polices = self.watched.values().any(Watch::is_policed);
                if !polices || now.saturating_since(since) >= self.orphan {
                    return self.watched.values().filter(|watch| watch.take()).count();
                }
            }
        }
    }

    /// Waits for an order, or until the next look is due.
    fn wait(&self) {
        let Some(link) = &self.link else { return clock::sleep_until(self.next) };
        let left = self.next.saturating_since(clock::now());
        let mut fds = [PollFd::new(link, PollFlags::IN)];
        // Ignore errors: a look is due.
        let _ = poll(&mut fds, Some(&clock::timespec(left.as_nanos())));
    }

    fn take_orders(&mut self) {
        for _ in 0..ORDERS_AT_A_GO {
            let Some(link) = &self.link else { return };
            match link.receive(&mut self.buffer) {
                Ok(Some(order)) => self.obey(order),
                Ok(None) => break,
                // Whatever the error, nothing more can come.
                Err(_) => self.link = None,
            }
        }
        self.tell_all();
    }

    fn obey(&mut self, order: Order) {
        let now = clock::now();
        match order {
            // Handled before the loop.
            Order::Begin { .. } => {}
            Order::Settings { sample, orphan } => {
                self.sample = Duration::from_nanos(sample);
                self.orphan = Duration::from_nanos(orphan);
                self.next = self.next.min(now.saturating_add(self.sample));
            }
            Order::Watch(watched) => self.watch(watched, now),
            Order::Forget(grant) => self.forget(grant, now),
            Order::Sync(number) => self.answers.push_back(number),
        }
    }

    fn watch(&mut self, watched: Watched, now: Instant) {
        let grant = watched.grant;
        if let Some(watch) = self.watched.get_mut(&grant) {
            return watch.change(watched);
        }
        let owed = self
            .owed
            .get(&watched.person)
            .map_or(Duration::ZERO, |until| until.saturating_since(now));
        let (id, thread) = (watched.process, watched.thread);
        let is_alive = start_of(id.pid, thread) == Some(watched.thread_start);
        let process = self.processes.get(&id).and_then(Weak::upgrade);
        let process = process.or_else(|| Process::find(id).map(Rc::new));
        match process.and_then(|process| Watch::open(watched, process, now, owed)) {
            Some(watch) => {
                self.processes.insert(id, Rc::downgrade(watch.process()));
                self.watched.insert(grant, watch);
            }
            None if is_alive => self.must_tell(News::Unseen { grant }),
            None => self.must_tell(News::Ended { grant }),
        }
    }

    fn forget(&mut self, grant: GrantId, now: Instant) {
        self.untold.retain(|(of, _), _| *of != grant);
        let Some(mut watch) = self.watched.remove(&grant) else { return };
        self.owed.retain(|_, until| *until > now);
        let rest = watch.rest_owed(now);
        if !rest.is_zero() {
            let until = self.owed.entry(watch.person()).or_insert(now);
            *until = (*until).max(now.saturating_add(rest));
        }
        let id = watch.process().id;
        drop(watch);
        if self.processes.get(&id).is_some_and(|process| process.strong_count() == 0) {
            self.processes.remove(&id);
        }
    }

    /// Looks at the next few grants and returns the use of those whose window ended.
    fn look(&mut self) -> Vec<(GrantId, u64)> {
        let after = (std::ops::Bound::Excluded(self.sampled), std::ops::Bound::Unbounded);
        let mut grants: Vec<GrantId> =
            self.watched.range(after).take(AT_A_GO).map(|(grant, _)| *grant).collect();
        let first = self.watched.range(..=self.sampled).take(AT_A_GO - grants.len());
        grants.extend(first.map(|(grant, _)| *grant));
        let here = thread::affinity();
        let mut used = Vec::new();
        for grant in grants {
            self.sampled = grant;
            let Some(watch) = self.watched.get_mut(&grant) else { continue };
            let looked = watch.look(clock::now(), &here);
            used.extend(looked.used_ppm.map(|ppm| (grant, ppm)));
            looked.news.into_iter().for_each(|news| self.must_tell(news));
        }
        used
    }

    fn must_tell(&mut self, news: News) {
        if let Some(key) = news.key() {
            self.untold.insert(key, news);
        }
    }

    /// Sends the pending news, as far as there is room; the rest at the next occasion.
    fn tell_all(&mut self) {
        while let Some((key, news)) = self.untold.pop_first() {
            if !self.tell(news.clone()) {
                self.untold.insert(key, news);
                return;
            }
        }
        while let Some(number) = self.answers.pop_front() {
            if !self.tell(News::Synced(number)) {
                return self.answers.push_front(number);
            }
        }
    }

    /// Sends news and returns whether it was sent. The loss of the broker is noticed when its
    /// orders are read.
    fn tell(&self, news: News) -> bool {
        self.link.as_ref().is_some_and(|link| link.send(&news).is_ok())
    }
}
