//! Threads that are watched: from the kernel's records to the events of their jobs, and to where their
//! time went.

use punctual_linux::clock;
use punctual_model::Instant;
use punctual_trace::Event;
use punctual_trace::cause::{Observer, Stretch, ThreadJobs};
use punctual_trace::kernel::{Record, What};

use crate::collector::{CollectError, Collector, Counts};

/// What a record amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Something happened to a job of a watched thread; its subject is the number given to the thread.
    Event(Event),
    /// A thread, watched or not, came to a CPU.
    OnCpu {
        /// Its kernel id.
        thread: u32,
        /// When.
        at: Instant,
    },
    /// Records are missing: what became of jobs that had begun is not known.
    Gap {
        /// Where that was noticed.
        at: Instant,
        /// How many.
        records: u32,
    },
}

/// The threads, and who watches them. To be drained at least ten times a second.
pub struct Threads {
    collector: Collector,
    observer: Observer,
    jobs: ThreadJobs,
}

impl Threads {
    /// Collects from here on and watches nobody yet. Of each thread the newest `remembered` stretches
    /// are remembered: a late job is judged when it has ended.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not tell, and what to do.
    pub fn start(remembered: usize) -> Result<Self, CollectError> {
        let (observer, jobs) = (Observer::new(remembered), ThreadJobs::new());
        Ok(Self { collector: Collector::start()?, observer, jobs })
    }

    /// Watches a thread, whose jobs are of subject `number`.
    pub fn watch(&mut self, tid: u32, number: u32) {
        self.watch_time(tid);
        self.jobs.add(tid, number);
    }

    /// Watches where the time of a thread goes, whose jobs somebody else tells.
    pub fn watch_time(&mut self, tid: u32) {
        self.observer.watch(tid, clock::now());
        self.collector.watch_faults(tid);
    }

    /// This thread stops others when their budgets are used up, and lets them go on.
    pub fn enforcer(&mut self, tid: u32) {
        self.observer.enforcer(tid);
    }

    /// A thread is watched no more. Its last job, if that is complete; nothing if nobody can say.
    pub fn forget(&mut self, tid: u32) -> Option<Event> {
        self.observer.forget(tid);
        self.collector.forget_faults(tid);
        self.jobs.forget(tid)
    }

    /// What came since the last call, in order.
    pub fn drain(&mut self, mut take: impl FnMut(Came)) {
        for record in self.collector.drain() {
            let Record { at, what, .. } = record;
            if let What::Gap { records } = what {
                self.jobs.gap();
                take(Came::Gap { at, records });
            }
            if let Some(edge) = self.observer.take(&record) {
                for event in self.jobs.take(at, edge).into_iter().flatten() {
                    take(Came::Event(event));
                }
            }
            if let What::Switch { next, .. } = what {
                take(Came::OnCpu { thread: next.tid, at });
            }
        }
    }

    /// The run is over: jobs that ended with a sleep that goes on are complete.
    pub fn resting(&self) -> Vec<Event> {
        self.jobs.resting().collect()
    }

    /// Where the time of a watched thread went.
    pub fn stretches(&self, tid: u32, from: Instant, until: Instant) -> Vec<Stretch> {
        self.observer.stretches(tid, from, until)
    }

    /// What a thread was called last.
    pub fn name(&self, tid: u32) -> Option<String> {
        self.observer.comm(tid).map(|comm| comm.to_string())
    }

    /// How many records of the kernel there were.
    pub fn counts(&self) -> Counts {
        self.collector.counts()
    }

    /// Programs that this kernel did not take: of what they tell nothing is known.
    pub fn missing(&self) -> &[&'static str] {
        self.collector.missing()
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }
}
