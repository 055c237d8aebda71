//! One grant that the guard watches.

use std::rc::Rc;

use punctual_linux::sched::Class;
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Instant, Service};
use punctual_policy::overuse::{Nearness, Overuse, Terms, Verdict};

use super::messages::{Breach, HeldBy, News, Watched};
use crate::kernel::class::take_class;
use crate::kernel::peer::Process;
use crate::kernel::take::{Beside, leader_with};
use crate::kernel::usage::Meter;

/// A grant, its thread's meter, and the policies that judge it.
#[derive(Debug)]
pub(super) struct Watch {
    watched: Watched,
    thread: Tid,
    process: Rc<Process>,
    meter: Meter,
    overuse: Overuse,
    nearness: Nearness,
    /// Whether the last look found the thread away from its CPU.
    moved: bool,
    /// Whether the grant is over, as the broker was or will be told.
    over: bool,
}

/// The result of a look.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) news: Vec<News>,
    /// The use of a CPU in the window that ended, if one did.
    pub(super) used_ppm: Option<u64>,
}

fn terms(watched: &Watched) -> Terms {
    let burst = Service::from_nanos(watched.burst);
    Terms::new(watched.share_ppm, burst, Duration::from_nanos(watched.longest))
}

impl Watch {
    /// Begins to watch; `None` if the thread has ended or cannot be measured. `owed` is the rest
    /// that its person is due.
    pub(super) fn open(
        watched: Watched,
        process: Rc<Process>,
        now: Instant,
        owed: Duration,
    ) -> Option<Self> {
        let thread = Tid::from_raw(watched.thread)?;
        let meter = Meter::open(watched.process.pid, thread).ok()?;
        // Compared after the meter was opened: so the meter is this thread's.
        if process.thread_start(thread) != Some(watched.thread_start) {
            return None;
        }
        let used = meter.used().ok()?;
        let overuse = Overuse::new(terms(&watched), now, used, owed);
        let nearness = Nearness::new(now, used);
        Some(Self { watched, thread, process, meter, overuse, nearness, moved: false, over: false })
    }

    /// Holds the grant to other terms. Its debt stays.
    pub(super) fn change(&mut self, watched: Watched) {
        let terms = terms(&watched);
        if terms != *self.overuse.terms() {
            self.overuse.change(terms);
        }
        self.watched = watched;
        self.moved = false;
    }

    pub(super) fn process(&self) -> &Rc<Process> {
        &self.process
    }

    pub(super) fn person(&self) -> u32 {
        self.watched.person
    }

    /// Returns whether only the guard holds the thread to its grant.
    pub(super) fn is_policed(&self) -> bool {
        self.watched.held != HeldBy::Kernel && !self.over
    }

    /// Returns how long the thread would have to rest until it owes nothing.
    pub(super) fn rest_owed(&mut self, now: Instant) -> Duration {
        if self.watched.held == HeldBy::Kernel {
            return Duration::ZERO;
        }
        if let Ok(used) = self.meter.used() {
            // The grant is over whatever the verdict: only the debt at this moment counts.
            let _ = self.overuse.look(now, used);
        }
        self.overuse.rest_owed()
    }

    /// Looks, and takes the class back if that is due. `here` are the CPUs there are: the kernel
    /// moves every thread of a CPU that goes away.
    pub(super) fn look(&mut self, now: Instant, here: &[usize]) -> Looked {
        let grant = self.watched.grant;
        let mut looked = Looked::default();
        if self.over {
            // A thread that may raise itself does so again until the broker has lowered its limit.
            if self.watched.held != HeldBy::Kernel {
                self.take();
            }
            return looked;
        }
        let Ok(used) = self.meter.used() else {
            self.over = true;
            self.take_after_exec();
            looked.news.push(News::Ended { grant });
            return looked;
        };
        let (terms, granted_ppm) = (self.overuse.terms(), self.watched.share_ppm);
        let used_ppm = self.nearness.ppm_at(now, used);
        if let Some(average) = self.nearness.look(now, used, granted_ppm, terms) {
            looked.used_ppm = Some(average.ppm);
            if average.comes_near {
                looked.news.push(News::Near { grant, used_ppm: average.ppm });
            }
        }
        if self.watched.held == HeldBy::Kernel {
            return looked;
        }
        let breach = match self.overuse.look(now, used) {
            Verdict::Within => None,
            Verdict::Over(debt) => {
                let within = debt.until.saturating_since(now).as_nanos();
                let (owed, most) = (debt.owed.as_nanos(), debt.most.as_nanos());
                looked.news.push(News::Over { grant, used_ppm, owed, most, within });
                None
            }
            Verdict::Broken(debt) => Some(Breach::Overuse { used_ppm, owed: debt.owed.as_nanos() }),
        };
        let breach = breach.or_else(|| self.has_moved(here).then_some(Breach::Moved));
        if let Some(why) = breach {
            self.over = true;
            self.take();
            looked.news.push(News::Taken { grant, why });
        }
        looked
    }

    /// Returns whether the thread of some upcalls has left its CPU: a process may change the CPUs
    /// of its threads (sched_setaffinity(2)). It must be seen twice, because the broker may be
    /// about to report that it has moved the thread itself.
    fn has_moved(&mut self, here: &[usize]) -> bool {
        let before = self.moved;
        let Some(cpu) = self.watched.cpu.map(|cpu| cpu as usize) else { return false };
        let now = thread::affinity_of(self.thread);
        // No CPU means that the thread has ended.
        self.moved = here.contains(&cpu) && !now.is_empty() && now != [cpu];
        self.moved && before
    }

    /// Makes the thread an ordinary one, if it is still the thread of the grant and the guard holds
    /// it. Returns whether it did.
    pub(super) fn take(&self) -> bool {
        self.watched.held != HeldBy::Kernel
            && self.process.thread_start(self.thread) == Some(self.watched.thread_start)
            && take_class(self.thread).is_ok()
    }

    /// Takes the class back after an exec. A thread that execs takes over the id of the first
    /// thread, with its class (execve(2)).
    fn take_after_exec(&self) {
        let HeldBy::Level(priority) = self.watched.held else { return };
        if self.process.has_ended() {
            return;
        }
        let nothing = Beside { limited: false, leader: false };
        let at_its_level =
            |now: punctual_linux::sched::Scheduling| now.class() == Some(Class::Fifo { priority });
        if let Some(left) = leader_with(&self.process, nothing, at_its_level) {
            let _ = take_class(left.thread);
        }
    }
}
