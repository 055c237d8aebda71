//! Reports events to the record, to the owner, and as a backlog at the end.

use std::sync::atomic::Ordering;

use punctual_model::{Backlog, Handler, Instant, JobId};
use punctual_policy::rmdp::{Fate, Missed};
use punctual_trace::{Event, Kind};

use super::Shared;
use super::executor::Executor;
use crate::upcalls::notice::{Notice, NoticeKind};

impl<H: Handler + Send> Executor<H> {
    /// Records an event. A full ring drops it and counts the loss: the upcalls go first.
    pub(super) fn emit(
        &mut self,
        slot: u32,
        index: u64,
        release: Instant,
        at: Instant,
        kind: Kind,
    ) {
        let task = self.slots[slot as usize].task.unwrap_or(u32::MAX);
        self.events.push(Event { at, job: JobId { task, index }, release, kind });
    }

    /// Reports late jobs.
    pub(super) fn tell(&mut self, missed: Missed, now: Instant, shared: &Shared<H>) {
        let Missed { oldest, release, jobs, fate, urgent } = missed;
        let (kind, notice) = match fate {
            Fate::Late => (Kind::Overrun { jobs }, NoticeKind::Overrun { jobs, urgent }),
            Fate::Skipped => (Kind::Skip { jobs }, NoticeKind::Skipped { jobs }),
            Fate::Aborted => (Kind::Abort, NoticeKind::Aborted),
        };
        self.emit(oldest.task, oldest.index, release, now, kind);
        let task = self.slots[oldest.task as usize].task.unwrap_or(u32::MAX);
        self.notify(task, notice, now, shared);
    }

    /// Reports that jobs of the upcall in slot `left.oldest.task` were dropped.
    pub(super) fn dropped(&mut self, left: Option<Backlog>, now: Instant, shared: &Shared<H>) {
        for event in left.into_iter().flat_map(|left| Event::dropped(left, now)) {
            let (slot, index) = (event.job.task, event.job.index);
            self.emit(slot, index, event.release, now, event.kind);
            let kind = match event.kind {
                Kind::Skip { jobs } => NoticeKind::Skipped { jobs },
                _ => NoticeKind::Aborted,
            };
            let task = self.slots[slot as usize].task.unwrap_or(u32::MAX);
            self.notify(task, kind, now, shared);
        }
    }

    pub(super) fn notify(&mut self, task: u32, kind: NoticeKind, at: Instant, shared: &Shared<H>) {
        // The last places are reserved for urgent notices.
        let spare = if kind.is_urgent() { 0 } else { self.notices_room / 8 };
        if !self.notices.push_leaving(Notice { at, task, kind }, spare) {
            shared.notices_lost.fetch_add(1, Ordering::Relaxed);
        }
        if kind.is_urgent() {
            shared.noticed.notify();
        }
    }

    pub(super) fn say_activity(&self, slot: u32, shared: &Shared<H>) {
        let entry = &self.slots[slot as usize];
        shared.set_activity(slot, entry.task, entry.activity);
    }

    /// Returns the released jobs that are not complete, by the numbers of their upcalls.
    pub(super) fn unfinished(&mut self, now: Instant) -> Vec<Backlog> {
        let left: Vec<Backlog> = self.policy.unfinished(now).collect();
        let numbered = |left: Backlog| {
            let task = self.slots[left.oldest.task as usize].task.unwrap_or(u32::MAX);
            Backlog { oldest: JobId { task, ..left.oldest }, ..left }
        };
        left.into_iter().map(numbered).collect()
    }
}
