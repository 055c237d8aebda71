//! Measures the needs of processes' threads: their wake-ups and execution times.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, JobId, Service};
use punctual_trace::cause::{LateJob, Lost, Observer, Verdict, judge};
use punctual_trace::fit::{Sample, Sampler, Samples};

use crate::collector::{CollectError, Collector, Counts};
use crate::followed;
use crate::followed::Followed;

/// The number of stretches remembered per thread: a late job is judged when the next is released.
const REMEMBERED: usize = 1024;

/// The promise to a thread, by which its late jobs are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// The time after its release by which a job is complete.
    pub relative_deadline: Duration,
    /// The budget: the promise holds for jobs that need no more.
    pub budget: Service,
}

/// A thread that was observed.
#[derive(Clone, Copy, Debug)]
pub struct SeenThread<'a> {
    /// Its kernel id.
    pub tid: u32,
    /// Its latest name.
    pub name: &'a str,
    /// Its jobs.
    pub samples: &'a Samples,
}

/// A program under observation. Call [`turn`](Self::turn) at least ten times a second.
///
/// ```no_run
/// use punctual_observe::Fitting;
/// use punctual_trace::fit;
///
/// let mut fitting = Fitting::start()?;
/// fitting.follow(4711);
/// for _ in 0..100 {
///     std::thread::sleep(std::time::Duration::from_millis(50));
///     fitting.turn();
/// }
/// for thread in fitting.threads() {
///     let releases: Vec<_> = thread.samples.jobs.iter().map(|job| job.release).collect();
///     println!("{}: {:?}", thread.name, fit::find(&releases));
/// }
/// # Ok::<(), punctual_observe::CollectError>(())
/// ```
pub struct Fitting {
    collector: Collector,
    observer: Observer,
    sampler: Sampler,
    followed: Followed,
    /// All threads observed so far, including those that have ended.
    names: BTreeMap<u32, String>,
    promised: BTreeMap<u32, Promised>,
    late: Vec<Verdict>,
}

impl Fitting {
    /// Starts collecting.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report.
    pub fn start() -> Result<Self, CollectError> {
        Ok(Self {
            collector: Collector::start()?,
            observer: Observer::new(REMEMBERED),
            sampler: Sampler::new(),
            followed: Followed::new(),
            names: BTreeMap::new(),
            promised: BTreeMap::new(),
            late: Vec::new(),
        })
    }

    /// Declares that, among the followed processes, those that run this program with one of these
    /// words as first argument are not the work but enforce budgets.
    pub fn enforced_by(&mut self, program: PathBuf, commands: &'static [&'static str]) {
        self.followed.enforced_by(program, commands);
    }

    /// Follows a process and its descendants.
    pub fn follow(&mut self, process: u32) {
        self.followed.add(process);
        self.look();
    }

    /// Judges the jobs of this thread by this promise from now on.
    pub fn promise(&mut self, tid: u32, promised: Promised) {
        self.promised.insert(tid, promised);
    }

    /// Forgets the jobs observed so far, and goes on observing.
    pub fn begin_anew(&mut self) {
        self.take_records();
        self.sampler.clear();
        self.late.clear();
    }

    /// Takes the kernel's records since the last turn. Starts observing new threads, and returns
    /// them.
    pub fn turn(&mut self) -> Vec<u32> {
        self.take_records();
        self.look()
    }

    /// Returns true while any followed process runs.
    pub fn is_alive(&self) -> bool {
        self.followed.is_alive()
    }

    /// Returns all threads observed so far.
    pub fn threads(&self) -> impl Iterator<Item = SeenThread<'_>> {
        self.names.iter().filter_map(|(&tid, name)| {
            let samples = self.sampler.of(tid)?;
            Some(SeenThread { tid, name, samples })
        })
    }

    /// Returns the verdict on each job that was late by its [promise](Self::promise). The
    /// `JobId::task` of each is the kernel id of the thread.
    pub fn late(&self) -> &[Verdict] {
        &self.late
    }

    /// Returns the numbers of the kernel's records.
    pub fn counts(&self) -> Counts {
        self.collector.counts()
    }

    /// Returns the programs that this kernel did not accept: their causes stay unknown.
    pub fn missing(&self) -> &[&'static str] {
        self.collector.missing()
    }

    fn take_records(&mut self) {
        for record in self.collector.drain() {
            let edges = self.observer.take(&record);
            for Lost { tid, .. } in self.observer.take_lost() {
                self.sampler.lose(tid);
            }
            if let Some((tid, sample)) = self.sampler.take(&record, edges) {
                self.judge(tid, sample);
            }
        }
    }

    fn judge(&mut self, tid: u32, sample: Sample) {
        let Some(&Promised { relative_deadline, budget }) = self.promised.get(&tid) else { return };
        let Sample { release, end, .. } = sample;
        let absolute_deadline = release + relative_deadline;
        if end <= absolute_deadline {
            return;
        }
        let job = JobId { task: tid, index: self.late.len() as u64 };
        let late = LateJob { job, release, absolute_deadline, end, wcet: Some(budget) };
        let stretches = self.observer.stretches(tid, release, end);
        self.late.push(judge(late, &stretches, |_| false));
    }

    fn look(&mut self) -> Vec<u32> {
        let changes = self.followed.look();
        for tid in changes.enforcers {
            self.observer.enforcer(tid);
        }
        for tid in changes.went {
            self.collector.forget_own_time(tid);
        }
        for &tid in &changes.came {
            self.observer.watch(tid, clock::now());
            self.collector.watch_own_time(tid);
            self.sampler.add(tid);
            self.names.insert(tid, String::new());
        }
        for (&tid, name) in &mut self.names {
            // A thread may exec a program, or be named, after it is found; an ended thread keeps
            // its last name.
            if let Some(now) = followed::name(tid) {
                *name = now;
            }
        }
        changes.came
    }
}
