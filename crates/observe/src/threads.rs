//! Observed threads: from the kernel's records to the events of their jobs, and to their use of
//! time.

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_trace::Event;
use punctual_trace::cause::{
    Asked, Edge, InferredJobs, Lost, Observer, Release, Stretch, Taken, ThreadJobs, Told,
};
use punctual_trace::kernel::{KernelEvent, Record};

use crate::collector::{CollectError, Collector, Counts};

/// The meaning of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Came {
    /// An event of an observed thread's job; its subject is the number given to the thread.
    Event(Event),
    /// The following events of this subject are those of jobs with these releases.
    Release {
        /// The subject.
        number: u32,
        /// The releases.
        release: Release,
    },
    /// It cannot be known when the last job of this subject ended, or whether it was one.
    Unknown {
        /// The subject.
        number: u32,
    },
    /// A thread, observed or not, was switched to on a CPU.
    OnCpu {
        /// Its kernel id.
        thread: u32,
        /// The time.
        at: Instant,
    },
    /// An observed thread did something that no record shows: the fate of its present job is unknown.
    Unseen {
        /// Its kernel id.
        thread: u32,
        /// The time of which nothing is known.
        unseen: Duration,
    },
    /// Records are missing: the fate of jobs that had begun is unknown.
    Gap {
        /// The time at which the gap was noticed.
        at: Instant,
        /// The number of missing records.
        records: u32,
    },
}

/// The jobs of threads.
enum Jobs {
    /// From one wake-up in a system call to the next.
    AtWakeUps(ThreadJobs),
    /// By their inferred releases.
    Inferred(InferredJobs),
}

/// Observed threads. Drain them at least ten times a second.
pub struct Threads {
    collector: Collector,
    observer: Observer,
    jobs: Jobs,
    /// The time up to which records have been taken.
    taken: Instant,
}

impl Threads {
    /// Starts collecting, with no thread observed yet. The newest `remembered` stretches of each
    /// thread are remembered: a late job is judged when it has ended. Each wake-up in the system
    /// call in which a thread waits for releases is the release of a job.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report; it says what to do.
    pub fn start(remembered: usize) -> Result<Self, CollectError> {
        Self::start_with(remembered, Jobs::AtWakeUps(ThreadJobs::new()))
    }

    /// Does the same, but infers the releases. If a period is declared, releases keep to it.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report; it says what to do.
    pub fn inferring(remembered: usize, declared: Option<Duration>) -> Result<Self, CollectError> {
        Self::start_with(remembered, Jobs::Inferred(InferredJobs::new(declared)))
    }

    fn start_with(remembered: usize, jobs: Jobs) -> Result<Self, CollectError> {
        let observer = Observer::new(remembered);
        // Before the first record.
        let taken = clock::now();
        Ok(Self { collector: Collector::start()?, observer, jobs, taken })
    }

    /// Observes a thread, whose jobs belong to subject `number`.
    pub fn watch(&mut self, tid: u32, number: u32) {
        self.watch_as(tid, number, Asked::Periodic);
    }

    /// Does the same for a thread that is judged by these releases, if releases are inferred.
    pub fn watch_as(&mut self, tid: u32, number: u32, asked: Asked) {
        self.watch_time(tid);
        match &mut self.jobs {
            Jobs::AtWakeUps(jobs) => jobs.add(tid, number),
            Jobs::Inferred(jobs) => jobs.add(tid, number, asked),
        }
    }

    /// Changes what a thread is judged by, if releases are inferred.
    pub fn ask(&mut self, tid: u32, asked: Asked) {
        if let Jobs::Inferred(jobs) = &mut self.jobs {
            jobs.ask(tid, asked);
        }
    }

    /// Observes the use of time of a thread whose jobs a driver reports.
    pub fn watch_time(&mut self, tid: u32) {
        // Waiting records begin jobs, too, so the time is accounted for from the first of them.
        self.observer.watch(tid, self.taken);
        self.collector.watch_own_time(tid);
    }

    /// Declares that this thread stops others when their budgets are used up, and lets them go on.
    pub fn enforcer(&mut self, tid: u32) {
        self.observer.enforcer(tid);
    }

    /// Ends the jobs of a thread that has ended, and passes what that tells. The thread's use of
    /// time is known until it is [forgotten](Self::forget).
    pub fn ended(&mut self, tid: u32, take: impl FnMut(Came)) {
        let mut told = Vec::new();
        match &mut self.jobs {
            Jobs::AtWakeUps(jobs) => told.extend(jobs.forget(tid).map(Told::Event)),
            Jobs::Inferred(jobs) => jobs.forget(tid, &mut told),
        }
        told.into_iter().map(Came::from).for_each(take);
    }

    /// Stops observing a thread, and forgets its jobs and its use of time.
    pub fn forget(&mut self, tid: u32) {
        // A caller that needs the last job calls `ended` first.
        self.ended(tid, |_| {});
        self.observer.forget(tid);
        self.collector.forget_own_time(tid);
    }

    /// Passes the meanings of the records since the last call, in order.
    pub fn drain(&mut self, mut take: impl FnMut(Came)) {
        let mut told = Vec::new();
        for record in self.collector.drain() {
            let Record { at, what, .. } = record;
            self.taken = self.taken.max(at);
            if let KernelEvent::Gap { records } = what {
                self.jobs.gap(&mut told);
                take(Came::Gap { at, records });
            }
            let edges = self.observer.take(&record);
            for Lost { tid, unseen } in self.observer.take_lost() {
                if self.jobs.lose(tid, &mut told) {
                    take(Came::Unseen { thread: tid, unseen });
                }
            }
            for edge in edges.into_iter().flatten() {
                self.jobs.take(at, edge, &mut told);
            }
            told.drain(..).map(Came::from).for_each(&mut take);
            if let KernelEvent::Switch { next, .. } = what {
                take(Came::OnCpu { thread: next.tid, at });
            }
        }
    }

    /// Ends the run with the last record, and passes what that tells.
    pub fn end(&mut self, take: impl FnMut(Came)) {
        let mut told = Vec::new();
        match &mut self.jobs {
            Jobs::AtWakeUps(jobs) => told.extend(jobs.resting().map(Told::Event)),
            Jobs::Inferred(jobs) => jobs.end(self.taken, &mut told),
        }
        told.into_iter().map(Came::from).for_each(take);
    }

    /// Returns what is taken to be a job of a thread, if that is inferred.
    pub fn taken(&self, tid: u32) -> Option<Taken> {
        match &self.jobs {
            Jobs::AtWakeUps(_) => None,
            Jobs::Inferred(jobs) => jobs.taken(tid),
        }
    }

    /// Returns the use of time of an observed thread.
    pub fn stretches(&self, tid: u32, from: Instant, until: Instant) -> Vec<Stretch> {
        self.observer.stretches(tid, from, until)
    }

    /// Returns the latest name of a thread.
    pub fn name(&self, tid: u32) -> Option<String> {
        self.observer.comm(tid).map(|comm| comm.to_string())
    }

    /// Returns the numbers of the kernel's records.
    pub fn counts(&self) -> Counts {
        self.collector.counts()
    }

    /// Returns the programs that this kernel did not accept: their causes stay unknown.
    pub fn missing(&self) -> &[&'static str] {
        self.collector.missing()
    }

    /// Returns the number of places so far at which the records contradict each other.
    pub fn holes(&self) -> u64 {
        self.observer.holes()
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }
}

impl Jobs {
    fn gap(&mut self, told: &mut Vec<Told>) {
        match self {
            Self::AtWakeUps(jobs) => jobs.gap(),
            Self::Inferred(jobs) => jobs.gap(told),
        }
    }

    /// Handles what no record shows of a thread. Returns whether it may have had a job.
    fn lose(&mut self, tid: u32, told: &mut Vec<Told>) -> bool {
        match self {
            Self::AtWakeUps(jobs) => {
                jobs.lose(tid);
                true
            }
            Self::Inferred(jobs) => jobs.lose(tid, told),
        }
    }

    fn take(&mut self, at: Instant, edge: Edge, told: &mut Vec<Told>) {
        match self {
            Self::AtWakeUps(jobs) => {
                told.extend(jobs.take(at, edge).into_iter().flatten().map(Told::Event));
            }
            Self::Inferred(jobs) => jobs.take(at, edge, told),
        }
    }
}

impl From<Told> for Came {
    fn from(told: Told) -> Self {
        match told {
            Told::Event(event) => Self::Event(event),
            Told::Release { task, release } => Self::Release { number: task, release },
            Told::Unknown { task } => Self::Unknown { number: task },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use punctual_linux::thread;
    use punctual_trace::Kind;
    use punctual_trace::cause::Spent;

    use super::*;

    /// A thread is found some time after it began; the records since the last turn are still there.
    #[test]
    fn the_time_of_a_job_from_before_its_thread_was_found_is_known() {
        let mut threads = match Threads::start(4096) {
            Ok(threads) => threads,
            Err(why) => return println!("skipped: {why}"),
        };
        let (tell, told) = mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(thread::current().as_raw()).expect("the test waits");
            for _ in 0..10 {
                clock::sleep(Duration::from_millis(5));
            }
        });
        let tid = told.recv().expect("it tells").cast_unsigned();
        sleeper.join().expect("no panic");
        threads.watch(tid, 7);
        let mut ends = Vec::new();
        let end = clock::now() + Duration::from_secs(20);
        while ends.len() < 5 && clock::now() < end {
            threads.drain(|came| {
                if let Came::Event(Event { at, kind: Kind::Complete, .. }) = came {
                    ends.push(at);
                }
            });
            clock::sleep(Duration::from_millis(5));
        }
        let [first, .., last] = *ends else { panic!("{ends:?}") };
        let spent = threads.stretches(tid, first, last);
        let unknown: Duration = spent
            .iter()
            .filter(|stretch| stretch.spent == Spent::Unknown)
            .map(Stretch::length)
            .fold(Duration::ZERO, Duration::saturating_add);
        // The reason an idle CPU took longer than a switch to come back is rightly unknown.
        let whole = last.saturating_since(first);
        assert!(unknown < whole / 2, "{unknown} of {whole}: {spent:?}");
    }
}
