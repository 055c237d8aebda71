//! Watches the threads of processes, and says of each late job why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, Service};
use punctual_trace::cause::{Observer, ThreadJobs, Verdict, judge};
use punctual_trace::check::{Checker, Judged};
use punctual_trace::kernel::What;
use punctual_trace::{Promise, Sink, Subject, SubjectKind};

use crate::collector::{CollectError, Collector, Counts};
use crate::followed::{self, Followed};

/// Stretches of each thread that are remembered: a late job is judged when it has ended.
const REMEMBERED: usize = 4096;

/// What is known at the end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why each job that turned out late at the end was so.
    pub verdicts: Vec<Verdict>,
    /// Each thread, and what is to be said of its promise.
    pub subjects: Vec<(Subject, Judged)>,
    /// Records of the kernel.
    pub counts: Counts,
    /// Programs that this kernel did not take: of what they tell nothing is known.
    pub missing: Vec<&'static str>,
}

/// A run that is watched. Turn it at least ten times a second.
pub struct Session {
    collector: Collector,
    observer: Observer,
    jobs: ThreadJobs,
    checker: Checker,
    followed: Followed,
    relative_deadline: Duration,
    wcet: Option<Service>,
    /// The number of each thread's subject, and of each subject its thread.
    numbers: BTreeMap<u32, u32>,
    threads: Vec<u32>,
    subjects: Vec<Subject>,
    /// Threads that were gone at the last look: their last records may still come.
    gone: Vec<u32>,
}

impl Session {
    /// Collects from now on. Each job of a thread that is followed is to be complete within
    /// `relative_deadline` of its release. `wcet` is what a job may need: more is its own fault.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not tell.
    pub fn start(relative_deadline: Duration, wcet: Option<Service>) -> Result<Self, CollectError> {
        Ok(Self {
            collector: Collector::start()?,
            observer: Observer::new(REMEMBERED),
            jobs: ThreadJobs::new(),
            checker: Checker::new(),
            followed: Followed::new(),
            relative_deadline,
            wcet,
            numbers: BTreeMap::new(),
            threads: Vec::new(),
            subjects: Vec::new(),
            gone: Vec::new(),
        })
    }

    /// Among what is followed, processes that run this program are not the work: they stop the work
    /// when its budget is used up, and let it go on.
    pub fn enforced_by(&mut self, program: PathBuf) {
        self.followed.enforced_by(program);
    }

    /// Follows a process, and what it starts.
    pub fn follow(&mut self, process: u32) {
        self.followed.add(process);
        self.look();
    }

    /// Why each job that turned out late since the last turn was so.
    pub fn turn(&mut self) -> Vec<Verdict> {
        self.take_records();
        let verdicts = self.judge_late();
        self.look();
        verdicts
    }

    /// Whether what is followed still runs.
    pub fn is_alive(&self) -> bool {
        self.followed.is_alive()
    }

    /// The run is over: a job that still ran is judged as far as it came.
    pub fn end(mut self) -> Ended {
        self.take_records();
        for tid in std::mem::take(&mut self.gone) {
            self.forget(tid);
        }
        for event in self.jobs.resting().collect::<Vec<_>>() {
            self.checker.record(event);
        }
        self.checker.end(clock::now());
        let verdicts = self.judge_late();
        let watched: Vec<u32> = self.numbers.keys().copied().collect();
        watched.into_iter().for_each(|tid| self.rename(tid));
        let judged = (0..).map(|number| self.checker.judge(number));
        let subjects = std::mem::take(&mut self.subjects).into_iter().zip(judged).collect();
        let (counts, missing) = (self.collector.counts(), self.collector.missing().to_vec());
        Ended { verdicts, subjects, counts, missing }
    }

    fn take_records(&mut self) {
        for record in self.collector.drain() {
            if let What::Gap { records } = record.what {
                self.checker.lost(records.into());
                self.jobs.gap();
            }
            let Some(edge) = self.observer.take(&record) else {
                continue;
            };
            for event in self.jobs.take(record.at, edge).into_iter().flatten() {
                self.checker.record(event);
            }
        }
    }

    fn judge_late(&mut self) -> Vec<Verdict> {
        let late = self.checker.take_late().into_iter();
        let judged = late.filter_map(|late| {
            let tid = *self.threads.get(late.job.task as usize)?;
            let stretches = self.observer.stretches(tid, late.release, late.end);
            Some(judge(late, &stretches, |tid| self.numbers.contains_key(&tid)))
        });
        judged.collect()
    }

    /// A thread has ended, and all its records have come.
    fn forget(&mut self, tid: u32) {
        match (self.jobs.forget(tid), self.numbers.get(&tid)) {
            (Some(event), _) => self.checker.record(event),
            // Whether its last job was complete nobody can say.
            (None, Some(&number)) => self.checker.forget(number),
            (None, None) => {}
        }
        self.rename(tid);
        self.observer.forget(tid);
        self.collector.forget_faults(tid);
        self.numbers.remove(&tid);
    }

    /// A thread is called what it was last.
    fn rename(&mut self, tid: u32) {
        let comm = self.observer.comm(tid);
        let number = self.numbers.get(&tid).copied();
        let subject = number.and_then(|number| self.subjects.get_mut(number as usize));
        if let (Some(comm), Some(subject)) = (comm, subject) {
            subject.name = comm.to_string();
        }
    }

    fn look(&mut self) {
        let changes = self.followed.look();
        for tid in changes.enforcers {
            self.observer.enforcer(tid);
        }
        for tid in std::mem::replace(&mut self.gone, changes.went) {
            self.forget(tid);
        }
        for tid in changes.came {
            let number = self.threads.len() as u32;
            let name = followed::name(tid).unwrap_or_else(|| tid.to_string());
            let mut subject = Subject::new(name, SubjectKind::Thread);
            let relative_deadline = Some(self.relative_deadline);
            subject.promise = Promise { period: None, relative_deadline, wcet: self.wcet };
            subject.thread = Some(tid);
            self.observer.watch(tid, clock::now());
            self.collector.watch_faults(tid);
            self.jobs.add(tid, number);
            self.checker.subject(number, &subject);
            self.numbers.insert(tid, number);
            self.threads.push(tid);
            self.subjects.push(subject);
        }
    }

    /// Programs that this kernel did not take: of what they tell nothing is known.
    pub fn missing(&self) -> &[&'static str] {
        self.collector.missing()
    }

    /// A subject by its number.
    pub fn subject(&self, number: u32) -> Option<&Subject> {
        self.subjects.get(number as usize)
    }
}
