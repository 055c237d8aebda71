//! Watches the threads of processes, and says of each late job why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, Service};
use punctual_trace::cause::{Observer, ThreadJobs, Verdict, judge};
use punctual_trace::check::{Checker, Judged};
use punctual_trace::kernel::What;
use punctual_trace::{Event, Kind, Promise, Sink, Subject, SubjectKind};

use crate::collector::{CollectError, Collector, Counts};
use crate::followed::{self, Followed};

/// Stretches of each thread that are remembered: a late job is judged when it has ended.
const REMEMBERED: usize = 4096;

/// What a turn found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Events of jobs, in the order of their instants as far as one thread is concerned.
    pub events: Vec<Event>,
    /// Subjects that came, by their numbers.
    pub came: Vec<(u32, Subject)>,
    /// Why each job that turned out late was so.
    pub verdicts: Vec<Verdict>,
    /// Kernel records that were lost.
    pub lost: u64,
}

/// What is known at the end.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What the last turn found.
    pub found: Found,
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
    /// Subjects that were not told yet.
    came: Vec<(u32, Subject)>,
    lost: u64,
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
            came: Vec::new(),
            lost: 0,
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
        let mut ignored = Found::default();
        self.look(&mut ignored);
        self.came.append(&mut ignored.came);
    }

    /// What happened since the last turn.
    pub fn turn(&mut self) -> Found {
        let mut found = Found { came: std::mem::take(&mut self.came), ..Found::default() };
        // Records first: those of a thread that has ended are still its own.
        self.take_records(&mut found);
        self.look(&mut found);
        found
    }

    /// Whether what is followed still runs.
    pub fn is_alive(&self) -> bool {
        self.followed.is_alive()
    }

    /// The run is over: a job that still ran is judged as far as it came.
    pub fn end(mut self) -> Ended {
        let mut found = self.turn();
        let now = clock::now();
        let left: Vec<_> = self.jobs.unfinished().collect();
        for (job, release) in left {
            let deadline = release.saturating_add(self.relative_deadline);
            if now > deadline {
                let event = Event { at: now, job, release, kind: Kind::Abort };
                self.checker.record(event);
                found.events.push(event);
            }
        }
        self.judge_late(&mut found);
        self.checker.end(now);
        let watched: Vec<u32> = self.numbers.keys().copied().collect();
        watched.into_iter().for_each(|tid| self.rename(tid));
        let judged = (0..).map(|number| self.checker.judge(number));
        let subjects = std::mem::take(&mut self.subjects).into_iter().zip(judged).collect();
        let (counts, missing) = (self.collector.counts(), self.collector.missing().to_vec());
        Ended { found, subjects, counts, missing }
    }

    fn take_records(&mut self, found: &mut Found) {
        for record in self.collector.drain() {
            if record.what == What::Gap {
                let lost = self.collector.counts().lost;
                found.lost += lost.saturating_sub(self.lost);
                self.lost = self.lost.max(lost);
                self.checker.lost(1);
            }
            let Some(edge) = self.observer.take(&record) else {
                continue;
            };
            for event in self.jobs.take(record.at, edge).into_iter().flatten() {
                self.checker.record(event);
                found.events.push(event);
            }
        }
        self.judge_late(found);
    }

    fn judge_late(&mut self, found: &mut Found) {
        for late in self.checker.take_late() {
            let Some(&tid) = self.threads.get(late.job.task as usize) else {
                continue;
            };
            let stretches = self.observer.stretches(tid, late.release, late.end);
            let is_ours = |tid: u32| self.numbers.contains_key(&tid);
            found.verdicts.push(judge(late, &stretches, is_ours));
        }
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

    fn look(&mut self, found: &mut Found) {
        let changes = self.followed.look();
        for tid in changes.enforcers {
            self.observer.enforcer(tid);
        }
        for tid in changes.went {
            self.rename(tid);
            self.observer.forget(tid);
            self.jobs.forget(tid);
            self.collector.forget_faults(tid);
            self.numbers.remove(&tid);
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
            self.subjects.push(subject.clone());
            found.came.push((number, subject));
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
