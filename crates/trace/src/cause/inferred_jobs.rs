//! Derives the jobs of a thread that declares none from the wait for its releases.
//!
//! A job is released when the timer that wakes the thread in that wait was due, or, if no timer
//! does, when it is woken there. It ends when the thread comes back to that wait; a sleep anywhere
//! else is part of the job. Which wait it is, is inferred ([`Release`]). Until it is known, a
//! thread's sleeps are held back, and then judged in retrospect, from the first regular run of
//! releases on.
//!
//! A thread that goes on while its period says that the next job is released has missed a release.
//! It does these jobs one after the other before it waits again, or it does not do them at all:
//! either way they are late. Where one ends and the next begins is seen if the thread sets a timer
//! that is already due. Otherwise each but the first is taken to have needed the usual time, the
//! last until the thread waited again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Instant, JobId};

use super::observer::Edge;
use super::release::{Release, Rhythm, by_events, infer};
use super::wait::{Nap, Wait};
use crate::event::{Event, Kind};

/// The number of sleeps after which a thread's releases are looked for first. Each further time it
/// takes twice as many.
const FIRST: u64 = 32;
/// The number of newest sleeps that are held back. Older ones are not judged.
const HELD: usize = 1024;
/// The number of sleeps from which on a thread without a period is an event loop.
const EVENTS: u64 = 256;
/// The least number of sleeps, and the parts of them and of the time asleep that must be in one
/// wait, for an event loop that nobody named.
const LOOP: (usize, f64) = (32, 0.9);
/// The number of sleeps without a release after which a thread does something new.
const LOST: u64 = 256;
/// The number of releases that are held back until they are seen to be regular, if they are not
/// timers on one timeline; and the part of them that must be.
const CONFIRMED: (u32, f64) = (32, 0.75);
/// The number of jobs in time by which the usual response time is known.
const USUAL: usize = 32;
/// The most releases that are missed at a time. A thread that goes on for longer is only found late
/// for these.
const MOST_MISSED: u64 = 1 << 16;

/// Which releases a thread is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// None: its sleeps are held back, in case it is asked for later.
    Withheld,
    /// Periodic ones. Without a period it is not judged.
    Periodic,
    /// Periodic ones; without a period, the wake-ups of a thread that sleeps in one place.
    EventLoop,
    /// Periodic ones; without a period, the wake-ups in the wait in which it sleeps most.
    Any,
}

/// What becomes known about threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// From here on, the events of this thread are those of jobs with these releases.
    Release {
        /// The thread's number in events.
        task: u32,
        /// The releases.
        release: Release,
    },
    /// The release or the end of a job. A job's end is reported with the release of the next,
    /// because only then is it known to be the end.
    Event(Event),
    /// It cannot be known when the thread's last job ended, or whether it was one.
    Unknown {
        /// The thread's number in events.
        task: u32,
    },
}

/// What is taken to be a job of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Whether the thread was asked for.
    pub is_asked: bool,
    /// The releases; `None` if none are known.
    pub release: Option<Release>,
    /// The number of its sleeps.
    pub waits: u64,
    /// The wait in which it slept most, and the part of its sleep that this is, if its releases are
    /// not known.
    pub most: Option<(Wait, f64)>,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = self.waits;
        match (self.release, self.most) {
            (Some(release), _) => release.fmt(f),
            _ if !self.is_asked => f.write_str("not asked for"),
            (None, Some((wait, part))) => write!(
                f,
                "no period found in {waits} waits; {:.0} % of its sleep was in {wait}",
                100.0 * part
            ),
            (None, None) => f.write_str("it was not seen to wait and go on"),
        }
    }
}

/// Turns the sleeps and wake-ups of threads into jobs, as soon as their releases are inferred.
///
/// Each sleep costs a look-up; the inference, which is repeated after twice as many sleeps, some
/// milliseconds. Memory is bounded by 1,536 sleeps a thread.
#[derive(Clone, Debug, Default)]
pub struct InferredJobs {
    of: BTreeMap<u32, Thread>,
    declared: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Its number in events.
    task: u32,
    asked: Asked,
    declared: Option<Duration>,
    /// The sleeps that are held back.
    held: Vec<Nap>,
    waits: u64,
    /// The sleeps since its releases were looked for from the beginning, and the number of them at
    /// which that is tried again.
    tried: u64,
    next_try: u64,
    release: Option<Release>,
    /// The instant at which it fell asleep, and the place.
    asleep: Option<(Instant, Option<Wait>)>,
    after_gap: bool,
    /// The number of jobs that were released.
    released: u64,
    open: Option<Open>,
    last: Option<Instant>,
    /// The sleeps since the last release, and the most between two.
    off: u64,
    most_off: u64,
    /// What is not confirmed yet, and of how many releases as many as expected came in time.
    pending: Vec<Told>,
    seen: u32,
    regular: u32,
    /// The response times of the newest jobs that missed no release.
    usual: VecDeque<Duration>,
}

/// A job that was released.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    release: Instant,
    /// The instant at which it came back to the wait, if it was then woken there for something else.
    ended: Option<Instant>,
}

impl InferredJobs {
    /// Starts with no threads. If a period is declared, none is inferred.
    pub fn new(declared: Option<Duration>) -> Self {
        Self { of: BTreeMap::new(), declared }
    }

    /// Adds a thread, whose jobs have the number `task` in events.
    pub fn add(&mut self, tid: u32, task: u32, asked: Asked) {
        self.of.insert(tid, Thread::new(task, asked, self.declared));
    }

    /// Changes what a thread is judged by, if its releases are not known yet.
    pub fn ask(&mut self, tid: u32, asked: Asked) {
        if let Some(thread) = self.of.get_mut(&tid)
            && thread.release.is_none()
            && thread.asked != asked
        {
            (thread.asked, thread.next_try) = (asked, FIRST.min(thread.next_try));
        }
    }

    /// Handles missing records: the job of each thread is unknown until its next release.
    pub fn gap(&mut self, told: &mut Vec<Told>) {
        self.of.values_mut().for_each(|thread| _ = thread.lose(told));
    }

    /// Handles what no record shows of a thread, in the same way. Returns whether it had a job.
    pub fn lose(&mut self, tid: u32, told: &mut Vec<Told>) -> bool {
        self.of.get_mut(&tid).is_some_and(|thread| thread.lose(told))
    }

    /// Takes an edge, and adds what it tells.
    pub fn take(&mut self, at: Instant, edge: Edge, told: &mut Vec<Told>) {
        let (Edge::Sleeps { tid, .. } | Edge::Passes { tid, .. } | Edge::Wakes { tid, .. }) = edge;
        let Some(thread) = self.of.get_mut(&tid) else { return };
        match edge {
            Edge::Sleeps { syscall, uninterruptible, place, .. } => {
                let wait = syscall.filter(|_| !uninterruptible);
                thread.asleep = Some((at, wait.map(|syscall| Wait::of(syscall, place))));
            }
            Edge::Passes { due, .. } => {
                let (due, after_gap) = (Some(due), core::mem::take(&mut thread.after_gap));
                thread.nap(Nap { sleeps: at, wakes: at, due, wait: None, after_gap }, told);
            }
            Edge::Wakes { due, .. } => {
                let Some((sleeps, wait)) = thread.asleep.take() else { return };
                let after_gap = core::mem::take(&mut thread.after_gap);
                thread.nap(Nap { sleeps, wakes: at, due, wait, after_gap }, told);
            }
        }
    }

    /// Removes a thread that has ended. What it did after its last wait for a release was its exit,
    /// unless its releases have no period.
    pub fn forget(&mut self, tid: u32, told: &mut Vec<Told>) {
        let Some(mut thread) = self.of.remove(&tid) else { return };
        thread.look(true, told);
        let is_loop = thread.release.is_some_and(|release| release.rhythm == Rhythm::Events);
        match (thread.open.and_then(|open| open.ended), thread.asleep) {
            (Some(end), _) => thread.close(end, None),
            (None, Some((end, _))) if is_loop => thread.close(end, None),
            _ => thread.drop_open(),
        }
        thread.settle(true, told);
    }

    /// Ends the run. A thread that waits for its next release has completed its job. One that waits
    /// elsewhere may have left its loop. Of one that runs, the releases up to now are missed.
    pub fn end(&mut self, now: Instant, told: &mut Vec<Told>) {
        for thread in self.of.values_mut() {
            thread.look(true, told);
            thread.rest(now);
            thread.settle(true, told);
        }
    }

    /// Returns what is taken to be a job of a thread.
    pub fn taken(&self, tid: u32) -> Option<Taken> {
        let thread = self.of.get(&tid)?;
        let most = match thread.release {
            Some(_) => None,
            None => by_events(&thread.held, None).map(|(most, _)| (most.wait, most.regular)),
        };
        let is_asked = thread.asked != Asked::Withheld || thread.release.is_some();
        Some(Taken { is_asked, release: thread.release, waits: thread.waits, most })
    }
}

impl Thread {
    fn new(task: u32, asked: Asked, declared: Option<Duration>) -> Self {
        Self {
            task,
            asked,
            declared,
            held: Vec::new(),
            waits: 0,
            tried: 0,
            next_try: FIRST,
            release: None,
            asleep: None,
            after_gap: false,
            released: 0,
            open: None,
            last: None,
            off: 0,
            most_off: 0,
            pending: Vec::new(),
            seen: 0,
            regular: 0,
            usual: VecDeque::new(),
        }
    }

    fn lose(&mut self, told: &mut Vec<Told>) -> bool {
        let had_job = self.open.is_some();
        self.drop_open();
        self.settle(false, told);
        (self.asleep, self.after_gap) = (None, true);
        had_job
    }

    fn nap(&mut self, nap: Nap, told: &mut Vec<Told>) {
        self.waits += 1;
        if self.release.is_some() {
            self.step(&nap, told);
            return;
        }
        if self.held.len() >= HELD + HELD / 2 {
            self.held.drain(..HELD / 2);
        }
        self.held.push(nap);
        self.tried += 1;
        if self.tried >= self.next_try {
            self.next_try = 2 * self.tried;
            self.look(false, told);
        }
    }

    /// Ends the open job at the end of the run, if it is known to have ended or to be late.
    fn rest(&mut self, now: Instant) {
        let Some((open, release)) = self.open.zip(self.release) else { return };
        match (open.ended, self.asleep) {
            (Some(end), _) => self.close(end, None),
            (None, Some((end, Some(wait)))) if release.wait.covers(&wait) => self.close(end, None),
            (None, Some(_)) => self.drop_open(),
            (None, None) => {
                let period = release.missable();
                if period.is_some_and(|period| now > open.release.saturating_add(period)) {
                    self.close(now, None);
                }
            }
        }
    }

    /// Tells what is confirmed. If releases do not come as they were expected, they were no releases.
    fn settle(&mut self, is_last: bool, told: &mut Vec<Told>) {
        let (enough, part) = CONFIRMED;
        let is_open = self.release.is_some_and(|release| release.is_to_be_confirmed());
        if is_open && self.seen < enough && !is_last {
            return;
        }
        if is_open && f64::from(self.regular) < part * f64::from(self.seen) {
            self.pending.clear();
            self.open = None;
            told.push(Told::Unknown { task: self.task });
            self.begin_anew();
        }
        told.append(&mut self.pending);
        (self.seen, self.regular) = (0, 0);
    }

    /// Looks for other releases from here on.
    fn begin_anew(&mut self) {
        (self.release, self.last) = (None, None);
        (self.tried, self.next_try, self.off, self.most_off) = (0, FIRST, 0, 0);
    }

    /// Looks for the releases, and then judges the sleeps that were held back.
    fn look(&mut self, is_last: bool, told: &mut Vec<Told>) {
        if self.release.is_some() || self.asked == Asked::Withheld {
            return;
        }
        let is_loop = |(release, _): &(Release, usize)| {
            let (least, part) = LOOP;
            let all = self.held.iter().filter(|nap| nap.wait.is_some()).count();
            release.seen >= least
                && release.seen as f64 >= part * all as f64
                && release.regular >= part
        };
        let events = || {
            let is_time = is_last || self.tried >= EVENTS;
            let events = by_events(&self.held, self.declared).filter(|_| is_time)?;
            let is_asked = match self.asked {
                Asked::Any => true,
                Asked::EventLoop => is_loop(&events),
                Asked::Periodic | Asked::Withheld => false,
            };
            is_asked.then_some(events)
        };
        let Some((release, first)) = infer(&self.held, self.declared).or_else(events) else {
            return;
        };
        self.release = Some(release);
        self.pending.push(Told::Release { task: self.task, release });
        for nap in core::mem::take(&mut self.held).into_iter().skip(first) {
            if self.release.is_none() {
                self.held.push(nap);
            } else {
                self.step(&nap, told);
            }
        }
    }

    /// Takes a sleep of a thread whose releases are known.
    fn step(&mut self, nap: &Nap, told: &mut Vec<Told>) {
        let Some(release) = self.release else { return };
        if nap.after_gap {
            self.drop_open();
            self.last = None;
        }
        let passes = nap.wait.is_none() && nap.due.is_some() && self.is_next(&release, nap);
        if !passes && !release.is_in(nap) {
            self.off += 1;
            if self.off > LOST.max(4 * self.most_off) {
                // It does something new.
                self.drop_open();
                self.settle(true, told);
                self.begin_anew();
            }
        } else if passes || self.is_release(&release, nap) {
            if let Some(last) = self.last {
                let busy = nap.sleeps.saturating_since(last);
                self.seen += 1;
                self.regular += u32::from(release.keeps(last, busy, nap.release()));
            }
            self.close(nap.sleeps, Some(nap.release()));
            (self.most_off, self.off) = (self.most_off.max(self.off), 0);
            self.last = Some(nap.release());
            let (index, release) = (self.released, nap.release());
            self.open = Some(Open { index, release, ended: None });
            self.released += 1;
            self.tell(index, release, nap.wakes, Kind::Start);
            self.settle(false, told);
        } else if let Some(open) = self.open.as_mut().filter(|_| !release.wait.is_for_time()) {
            // The job was over, and something else woke the thread.
            open.ended.get_or_insert(nap.sleeps);
        }
    }

    /// Returns whether a timer that was already due was set for a next release.
    fn is_next(&self, release: &Release, nap: &Nap) -> bool {
        let (Some(period), Some(last), true) = (release.period, self.last, release.by_timer) else {
            return false;
        };
        let (apart, period) =
            (nap.release().saturating_since(last).as_nanos(), period.as_nanos().max(1));
        release.rhythm == Rhythm::Timeline
            && (apart + period / 20) % period <= period / 10
            && apart > period / 2
    }

    /// Returns whether a wake-up in the wait for releases is one.
    fn is_release(&self, release: &Release, nap: &Nap) -> bool {
        if release.by_timer && nap.due.is_none() {
            return false;
        }
        let (Some(tolerance), Some(period), Some(last)) =
            (release.among_others, release.period, self.last)
        else {
            return true;
        };
        let (apart, period) =
            (nap.release().saturating_since(last).as_nanos(), period.as_nanos().max(1));
        let away = (apart + period / 2) % period;
        let is_near = apart >= period / 2 && away.abs_diff(period / 2) <= tolerance.as_nanos();
        // After some periods without a release, a new timeline begins.
        is_near || apart > 4 * period + period / 2
    }

    /// Ends the open job at `end`, with the releases that were missed until then. `next` is the
    /// next release, which was not.
    fn close(&mut self, end: Instant, next: Option<Instant>) {
        let (Some(open), Some(release)) = (self.open.take(), self.release) else { return };
        let Open { index, release: first, ended } = open;
        let end = ended.unwrap_or(end);
        let took = end.saturating_since(first);
        let period = release.missable().map_or(u64::MAX, |period| period.as_nanos().max(1));
        let until = next.map_or(u64::MAX, |next| next.saturating_since(first).as_nanos());
        let missed = took.as_nanos().saturating_sub(1) / period;
        let missed = missed.min(until.saturating_sub(period / 2) / period).min(MOST_MISSED);
        if missed == 0 {
            if self.usual.len() == USUAL {
                self.usual.pop_front();
            }
            self.usual.push_back(took);
        }
        let usual = self.usual_time().min(took / (missed + 1));
        let mut begun = first;
        for nth in 0..=missed {
            let release = first.saturating_add(Duration::from_nanos(period.saturating_mul(nth)));
            let job = index + nth;
            if nth > 0 {
                self.released += 1;
                self.tell(job, release, begun.max(release), Kind::Start);
            }
            begun = end - usual * (missed - nth);
            self.tell(job, release, begun, Kind::Complete);
        }
    }

    fn usual_time(&self) -> Duration {
        let mut all: Vec<Duration> = self.usual.iter().copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(Duration::ZERO)
    }

    fn drop_open(&mut self) {
        if self.open.take().is_some() {
            self.pending.push(Told::Unknown { task: self.task });
        }
    }

    fn tell(&mut self, index: u64, release: Instant, at: Instant, kind: Kind) {
        let job = JobId { task: self.task, index };
        self.pending.push(Told::Event(Event { at, job, release, kind }));
    }
}
