//! Watches the threads of processes for what they need: their wake-ups and execution times.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, JobId, Service};
use punctual_trace::cause::{LateJob, Observer, Verdict, judge};
use punctual_trace::fit::{Sample, Sampler, Samples};

use crate::collector::{CollectError, Collector, Counts};
use crate::followed::{self, Followed};

/// Stretches of each thread that are remembered: a late job is judged when the next is released.
const REMEMBERED: usize = 1024;

/// What a thread gets, so that its late jobs can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// A job is complete so long after its release.
    pub relative_deadline: Duration,
    /// If it needs no more than this.
    pub budget: Service,
}

/// A thread that was seen.
#[derive(Clone, Copy, Debug)]
pub struct SeenThread<'a> {
    /// Its number.
    pub tid: u32,
    /// Its name, as it was last.
    pub name: &'a str,
    /// Its jobs.
    pub samples: &'a Samples,
}

/// A program whose needs are watched. Turn it at least ten times a second.
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
    /// All that were seen, also those that have ended.
    names: BTreeMap<u32, String>,
    promised: BTreeMap<u32, Promised>,
    late: Vec<Verdict>,
}

impl Fitting {
    /// Collects from now on.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not tell.
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

    /// Among what is followed, processes that run this program with one of these words as first argument
    /// are not the work: they enforce budgets.
    pub fn enforced_by(&mut self, program: PathBuf, commands: &'static [&'static str]) {
        self.followed.enforced_by(program, commands);
    }

    /// Follows a process, and what it starts.
    pub fn follow(&mut self, process: u32) {
        self.followed.add(process);
        self.look();
    }

    /// From here on a job of this thread that is late by this is judged.
    pub fn promise(&mut self, tid: u32, promised: Promised) {
        self.promised.insert(tid, promised);
    }

    /// Forgets the jobs that were seen, and goes on watching.
    pub fn begin_anew(&mut self) {
        self.take_records();
        self.sampler.clear();
        self.late.clear();
    }

    /// Takes what the kernel has told since the last turn; threads that came are watched from here on,
    /// and answered.
    pub fn turn(&mut self) -> Vec<u32> {
        self.take_records();
        self.look()
    }

    /// Whether what is followed still runs.
    pub fn is_alive(&self) -> bool {
        self.followed.is_alive()
    }

    /// All threads that were seen.
    pub fn threads(&self) -> impl Iterator<Item = SeenThread<'_>> {
        self.names.iter().filter_map(|(&tid, name)| {
            let samples = self.sampler.of(tid)?;
            Some(SeenThread { tid, name, samples })
        })
    }

    /// Why each job was late that broke what was [promised](Self::promise). `JobId::task` of each is the
    /// number of the thread.
    pub fn late(&self) -> &[Verdict] {
        &self.late
    }

    /// Records of the kernel.
    pub fn counts(&self) -> Counts {
        self.collector.counts()
    }

    /// Programs that this kernel did not take: of what they tell nothing is known.
    pub fn missing(&self) -> &[&'static str] {
        self.collector.missing()
    }

    fn take_records(&mut self) {
        for record in self.collector.drain() {
            let edge = self.observer.take(&record);
            if let Some((tid, sample)) = self.sampler.take(&record, edge) {
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
            self.collector.forget_faults(tid);
        }
        for &tid in &changes.came {
            self.observer.watch(tid, clock::now());
            self.collector.watch_faults(tid);
            self.sampler.add(tid);
            self.names.insert(tid, String::new());
        }
        for (&tid, name) in &mut self.names {
            // A program is exec'ed, and names its threads, after they are there; what has ended keeps
            // its last name.
            if let Some(now) = followed::name(tid) {
                *name = now;
            }
        }
        changes.came
    }
}
