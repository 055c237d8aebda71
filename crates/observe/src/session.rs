//! Observes the threads of processes, and finds the cause of each late job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Backlog, Duration, Instant, JobId, Service};
use punctual_trace::cause::{
    Asked, FromEvents, LateJob, Release, Spent, Stretch, Taken, Verdict, judge,
};
use punctual_trace::check::{Checker, Judged};
use punctual_trace::{Event, Kind, Promise, Sink, Subject, SubjectKind};

use crate::collector::{CollectError, Counts};
use crate::followed;
use crate::followed::Followed;
use crate::seen::{Keeper, Seen};
use crate::threads::{Came, Threads};

/// The number of stretches remembered per thread: a late job is judged when it has ended.
const REMEMBERED: usize = 4096;

/// The time after which all records of an event have come.
const SETTLED: Duration = Duration::from_millis(150);

/// The results at the end of a session.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The verdicts on the jobs that turned out late at the end.
    pub verdicts: Vec<Verdict>,
    /// Each thread, and the judgement of its promise.
    pub subjects: Vec<(Subject, Judged)>,
    /// What was taken to be a job of each thread that was followed, by the number of its subject.
    pub taken: BTreeMap<u32, Taken>,
    /// The releases that became known at the end.
    pub releases: Vec<(u32, Release)>,
    /// The numbers of the kernel's records.
    pub counts: Counts,
    /// The number of places at which the records contradict each other: there some are missing that
    /// the kernel did not count.
    pub holes: u64,
    /// The programs that this kernel did not accept: their causes stay unknown.
    pub missing: Vec<&'static str>,
    /// The observations since they were taken last, if they are kept ([`Session::keep_seen`]).
    pub seen: Vec<Seen>,
}

/// The threads that are judged, and their releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judging {
    /// The period of the releases; it is inferred if none is declared.
    pub period: Option<Duration>,
    /// The names or numbers of the threads; all are judged if there are none. A thread that is named
    /// is judged even if it has no period: by its wake-ups in the wait in which it sleeps most.
    pub threads: Vec<String>,
    /// Whether a thread that sleeps nearly always in one wait is judged by its wake-ups there if it
    /// has no period.
    pub event_loops: bool,
}

/// The length of a thread's name in the kernel, in bytes.
const NAME: usize = 15;

impl Judging {
    /// Returns whether the user named this thread.
    fn names(&self, tid: u32, name: Option<&str>) -> bool {
        let is_it = |word: &String| {
            let short = word.as_bytes().get(..NAME).unwrap_or(word.as_bytes());
            word.parse() == Ok(tid) || name.is_some_and(|name| name.as_bytes() == short)
        };
        self.threads.iter().any(is_it)
    }

    fn asked(&self, tid: u32, name: Option<&str>) -> Asked {
        match self {
            _ if self.names(tid, name) => Asked::Any,
            _ if !self.threads.is_empty() => Asked::Withheld,
            Self { event_loops: true, .. } => Asked::EventLoop,
            _ => Asked::Periodic,
        }
    }
}

/// Returns the promise to a thread that was found.
type PromiseOf = Box<dyn FnMut(u32) -> Promise + Send>;

/// A run under observation. Call [`turn`](Self::turn) at least ten times a second.
pub struct Session {
    watched: Threads,
    checker: Checker,
    followed: Followed,
    promise_of: PromiseOf,
    judging: Judging,
    /// The releases that became known in this turn.
    releases: Vec<(u32, Release)>,
    taken: BTreeMap<u32, Taken>,
    /// When jobs that were not judged yet began.
    began: BTreeMap<JobId, Instant>,
    /// The events of the drivers in this process about their own jobs.
    events: FromEvents,
    /// The subject's number of each thread, and the thread of each subject.
    numbers: BTreeMap<u32, u32>,
    threads: Vec<u32>,
    subjects: Vec<Subject>,
    /// Threads that were gone at the last look: their last records may still come.
    gone: Vec<u32>,
    /// Verdicts on the last jobs of threads that have ended, until the next turn.
    last: Vec<Verdict>,
    /// The observations for a trace file, if one is written.
    keeper: Option<Keeper>,
    /// The number of missing records that later ones have told of.
    told_lost: u64,
}

impl Session {
    /// Starts collecting. Each job of a followed thread that has a period is to complete within
    /// `relative_deadline` of its release. `wcet` is what a job may need: more is its own fault.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report.
    pub fn start(relative_deadline: Duration, wcet: Option<Service>) -> Result<Self, CollectError> {
        let relative_deadline = Some(relative_deadline);
        let promise = Promise { period: None, relative_deadline, wcet };
        Self::judging(Judging::default(), move |_| promise)
    }

    /// Does the same with a promise for each thread: `promise_of` is called with the kernel id of
    /// each thread that is found. Event loops are judged, too.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report.
    pub fn promising(
        promise_of: impl FnMut(u32) -> Promise + Send + 'static,
    ) -> Result<Self, CollectError> {
        Self::judging(Judging { event_loops: true, ..Judging::default() }, promise_of)
    }

    /// Does the same for the threads and releases that `judging` selects.
    ///
    /// # Errors
    /// [`CollectError`]: the kernel does not report.
    pub fn judging(
        judging: Judging,
        promise_of: impl FnMut(u32) -> Promise + Send + 'static,
    ) -> Result<Self, CollectError> {
        Ok(Self {
            watched: Threads::inferring(REMEMBERED, judging.period)?,
            checker: Checker::new(),
            followed: Followed::new(),
            promise_of: Box::new(promise_of),
            judging,
            releases: Vec::new(),
            taken: BTreeMap::new(),
            began: BTreeMap::new(),
            events: FromEvents::new(),
            numbers: BTreeMap::new(),
            threads: Vec::new(),
            subjects: Vec::new(),
            gone: Vec::new(),
            last: Vec::new(),
            keeper: None,
            told_lost: 0,
        })
    }

    /// Declares that, among the followed processes, those that run this program with one of these
    /// words as first argument are not the work: they stop the work when its budget is used up, and
    /// let it go on.
    pub fn enforced_by(&mut self, program: PathBuf, commands: &'static [&'static str]) {
        self.followed.enforced_by(program, commands);
    }

    /// Adds a subject whose driver reports its jobs itself ([`Self::record`]), and returns the
    /// subject's number. If the subject names the thread that runs it, that is observed.
    pub fn add(&mut self, subject: Subject) -> u32 {
        let number = self.threads.len() as u32;
        if let Some(tid) = subject.thread {
            self.watched.watch_time(tid);
        }
        self.checker.subject(number, &subject);
        self.events.subject(number, &subject);
        if let Some(keeper) = &mut self.keeper {
            keeper.subject(number, &subject);
        }
        // 0 means no thread.
        self.threads.push(subject.thread.unwrap_or(0));
        self.subjects.push(subject);
        number
    }

    /// Records a driver's event of a subject that was [added](Self::add), by its number.
    pub fn record(&mut self, event: Event) {
        self.event(event);
        self.events.record(event);
    }

    /// Records that this many of a driver's events are missing.
    pub fn lost(&mut self, events: u64) {
        self.checker.lost(events);
        self.events.lost();
        if let Some(keeper) = &mut self.keeper {
            keeper.lost(clock::now(), events);
        }
    }

    /// Records that these jobs were released and not complete at the end of a driver's run.
    pub fn unfinished(&mut self, backlog: Backlog, end: Instant) {
        self.checker.unfinished(backlog, end);
        if let Some(keeper) = &mut self.keeper {
            Event::dropped(backlog, end).for_each(|event| keeper.event(event));
        }
    }

    /// Keeps observations until [`take_seen`](Self::take_seen), for a trace file. Call it before
    /// anything is followed or added.
    pub fn keep_seen(&mut self) {
        self.keeper = Some(Keeper::default());
    }

    /// Returns the observations since the last call, if they are kept.
    pub fn take_seen(&mut self) -> Vec<Seen> {
        self.keeper.as_mut().map_or_else(Vec::new, Keeper::take)
    }

    /// Follows a process and its descendants.
    pub fn follow(&mut self, process: u32) {
        self.followed.add(process);
        self.look();
    }

    /// Processes new records, and returns the verdicts on the jobs that turned out late since the
    /// last turn.
    pub fn turn(&mut self) -> Vec<Verdict> {
        self.releases.clear();
        self.look();
        let mut verdicts = std::mem::take(&mut self.last);
        verdicts.extend(self.judge_late());
        self.keep_throttled(SETTLED);
        verdicts
    }

    /// Returns true while any followed process runs.
    pub fn is_alive(&self) -> bool {
        self.followed.is_alive()
    }

    /// Ends the run: judges a job that still ran as far as it came.
    pub fn end(mut self) -> Ended {
        // What happens while the last records are taken is not seen.
        let end = clock::now();
        self.releases.clear();
        self.look();
        // No later record told of the last missing ones.
        let untold = self.watched.counts().lost.saturating_sub(self.told_lost);
        if untold > 0 {
            self.lost(untold);
        }
        for tid in std::mem::take(&mut self.gone) {
            self.forget(tid);
        }
        let watched: Vec<u32> = self.numbers.keys().copied().collect();
        watched.iter().for_each(|&tid| self.rename(tid));
        let mut all = Vec::new();
        self.watched.end(|came| all.push(came));
        self.came(all);
        self.keep_throttled(Duration::ZERO);
        if let Some(keeper) = &mut self.keeper {
            keeper.end();
        }
        self.checker.end(end);
        let mut verdicts = std::mem::take(&mut self.last);
        verdicts.extend(self.judge_late());
        watched.into_iter().for_each(|tid| self.note_taken(tid));
        let judged = (0..).map(|number| self.checker.judge(number));
        let subjects = std::mem::take(&mut self.subjects).into_iter().zip(judged).collect();
        let (counts, missing) = (self.watched.counts(), self.watched.missing().to_vec());
        let (seen, holes) = (self.take_seen(), self.watched.holes());
        let taken = std::mem::take(&mut self.taken);
        let releases = std::mem::take(&mut self.releases);
        Ended { verdicts, subjects, taken, releases, counts, holes, missing, seen }
    }

    /// Returns the releases of threads that became known in the last turn, by the numbers of their
    /// subjects.
    pub fn releases(&self) -> &[(u32, Release)] {
        &self.releases
    }

    fn take_records(&mut self) {
        let mut all = Vec::new();
        self.watched.drain(|came| {
            if !matches!(came, Came::OnCpu { .. }) {
                all.push(came);
            }
        });
        self.came(all);
    }

    fn came(&mut self, all: Vec<Came>) {
        for came in all {
            match came {
                Came::Event(event) => {
                    if event.kind == Kind::Start {
                        self.began.insert(event.job, event.at);
                    }
                    self.event(event);
                }
                Came::Release { number, release } => {
                    // Its name now; the one at which it was found may be its parent's.
                    if let Some(&tid) = self.threads.get(number as usize) {
                        self.rename(tid);
                    }
                    self.releases.push((number, release));
                    let taken = Taken { is_asked: true, release: None, waits: 0, most: None };
                    self.taken.entry(number).or_insert(taken).release = Some(release);
                }
                Came::Unknown { number } => self.checker.forget(number),
                Came::Gap { at, records } => {
                    self.checker.lost(records.into());
                    self.told_lost += u64::from(records);
                    self.keeper.iter_mut().for_each(|keeper| keeper.lost(at, records.into()));
                }
                Came::Unseen { thread, unseen } => {
                    let Some(&number) = self.numbers.get(&thread) else { continue };
                    self.checker.unseen(number, unseen);
                    // A trace has no words for it, so its reader takes an event as missing.
                    self.keeper.iter_mut().for_each(|keeper| keeper.lost(clock::now(), 1));
                }
                Came::OnCpu { .. } => {}
            }
        }
    }

    fn event(&mut self, event: Event) {
        self.checker.record(event);
        if let Some(keeper) = &mut self.keeper {
            keeper.event(event);
        }
    }

    /// Keeps the throttling of all threads until `ago` before now.
    fn keep_throttled(&mut self, ago: Duration) {
        let Some(keeper) = &mut self.keeper else { return };
        let until = Instant::from_nanos(clock::now().as_nanos().saturating_sub(ago.as_nanos()));
        let threads = self.numbers.iter().map(|(tid, number)| (*tid, *number));
        keeper.throttled(self.watched.observer(), threads, until);
    }

    fn judge_late(&mut self) -> Vec<Verdict> {
        let late = self.checker.take_late().into_iter();
        let judged = late.filter_map(|late| {
            let tid = *self.threads.get(late.job.task as usize)?;
            let mut stretches = self.watched.stretches(tid, late.release, late.end);
            let subject = self.subjects.get(late.job.task as usize);
            if subject.is_some_and(|subject| subject.kind != SubjectKind::Thread) {
                let events = self.events.stretches(late.job, late.release, late.end);
                stretches = attribute(&stretches, &events);
            } else if let Some(&began) = self.began.get(&late.job) {
                earlier(&mut stretches, late, began);
            }
            Some(judge(late, &stretches, |tid| self.numbers.contains_key(&tid)))
        });
        let verdicts = judged.collect();
        let newest: BTreeMap<u32, u64> =
            self.began.keys().map(|job| (job.task, job.index)).collect();
        self.began.retain(|job, _| newest.get(&job.task) == Some(&job.index));
        verdicts
    }

    /// Forgets a thread that has ended, after all its records have come.
    fn forget(&mut self, tid: u32) {
        self.rename(tid);
        self.note_taken(tid);
        let mut all = Vec::new();
        self.watched.ended(tid, |came| all.push(came));
        self.came(all);
        // As long as the thread's use of time is still known.
        let late = self.judge_late();
        self.last.extend(late);
        self.watched.forget(tid);
        self.numbers.remove(&tid);
    }

    fn note_taken(&mut self, tid: u32) {
        let number = self.numbers.get(&tid).copied();
        if let Some((number, taken)) = number.zip(self.watched.taken(tid)) {
            self.taken.insert(number, taken);
        }
    }

    /// Gives a thread's subject the thread's latest name.
    fn rename(&mut self, tid: u32) {
        let name = self.watched.name(tid);
        let number = self.numbers.get(&tid).copied();
        let subject = number.and_then(|number| self.subjects.get_mut(number as usize));
        if let (Some(name), Some(subject)) = (name, subject) {
            self.watched.ask(tid, self.judging.asked(tid, Some(&name)));
            if let (Some(keeper), Some(number), true) =
                (&mut self.keeper, number, name != subject.name)
            {
                keeper.subject(number, &Subject { name: name.clone(), ..subject.clone() });
            }
            subject.name = name;
        }
    }

    /// Looks for new threads, and takes the records since the last look: those of new threads, too.
    fn look(&mut self) {
        let changes = self.followed.look();
        if !self.judging.threads.is_empty() {
            // A thread takes its name, or another, after it has begun.
            for &tid in self.numbers.keys() {
                let asked = self.judging.asked(tid, followed::name(tid).as_deref());
                self.watched.ask(tid, asked);
            }
        }
        for tid in changes.enforcers {
            self.watched.enforcer(tid);
        }
        for tid in changes.came {
            let number = self.threads.len() as u32;
            let name = followed::name(tid);
            let asked = self.judging.asked(tid, name.as_deref());
            let name = name.unwrap_or_else(|| tid.to_string());
            let mut subject = Subject::new(name, SubjectKind::Thread);
            subject.promise = (self.promise_of)(tid);
            subject.thread = Some(tid);
            self.watched.watch_as(tid, number, asked);
            self.checker.subject(number, &subject);
            if let Some(keeper) = &mut self.keeper {
                keeper.subject(number, &subject);
            }
            self.numbers.insert(tid, number);
            self.threads.push(tid);
            self.subjects.push(subject);
        }
        self.take_records();
        for tid in std::mem::replace(&mut self.gone, changes.went) {
            self.forget(tid);
        }
    }

    /// Returns the programs that this kernel did not accept: their causes stay unknown.
    pub fn missing(&self) -> &[&'static str] {
        self.watched.missing()
    }

    /// Returns a subject by its number.
    pub fn subject(&self, number: u32) -> Option<&Subject> {
        self.subjects.get(number as usize)
    }
}

/// Attributes a thread's own time to the subjects that share the thread, by the driver's events.
/// Both lists are in order and without gaps over the same time.
fn attribute(thread: &[Stretch], events: &[Stretch]) -> Vec<Stretch> {
    let mut all = Vec::with_capacity(thread.len());
    for stretch in thread {
        if !stretch.spent.is_own() {
            all.push(*stretch);
            continue;
        }
        for part in events {
            let (start, end) = (part.start.max(stretch.start), part.end.min(stretch.end));
            if start < end {
                // The thread ran for no subject: this is the driver itself.
                let spent = match part.spent {
                    Spent::Unknown => Spent::Switching,
                    Spent::Own => stretch.spent,
                    other => other,
                };
                all.push(Stretch { start, end, spent });
            }
        }
    }
    all
}

/// Attributes the work that a thread did before it began this job to its earlier jobs.
fn earlier(stretches: &mut Vec<Stretch>, late: LateJob, began: Instant) {
    let at = stretches.partition_point(|stretch| stretch.end <= began);
    if let Some(stretch) = stretches.get_mut(at).filter(|stretch| stretch.start < began) {
        let after = Stretch { start: began, ..*stretch };
        stretch.end = began;
        stretches.insert(at + 1, after);
    }
    let before = stretches.iter_mut().take_while(|stretch| stretch.end <= began);
    for stretch in before.filter(|stretch| stretch.spent == Spent::Own) {
        stretch.spent = Spent::Subject(late.job.task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_threads_time_belongs_to_the_subjects_of_the_events() {
        let one = |start, end, spent| Stretch {
            start: Instant::from_nanos(start),
            end: Instant::from_nanos(end),
            spent,
        };
        let thread = [
            one(0, 10, Spent::LateTimer),
            one(10, 50, Spent::Own),
            one(50, 60, Spent::PageFault),
            one(60, 90, Spent::Own),
        ];
        let events =
            [one(0, 12, Spent::Unknown), one(12, 70, Spent::Subject(3)), one(70, 90, Spent::Own)];
        let all = attribute(&thread, &events);
        let expected = [
            one(0, 10, Spent::LateTimer),
            one(10, 12, Spent::Switching),
            one(12, 50, Spent::Subject(3)),
            one(50, 60, Spent::PageFault),
            one(60, 70, Spent::Subject(3)),
            one(70, 90, Spent::Own),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn the_cause_of_a_last_late_job_is_known_after_its_process_ended() {
        // It has no period, so it must be named.
        let judging = Judging { threads: vec!["sh".to_owned()], ..Judging::default() };
        let relative_deadline = Some(Duration::from_millis(1));
        let promise = Promise { period: None, relative_deadline, wcet: None };
        let mut session = match Session::judging(judging, move |_| promise) {
            Ok(session) => session,
            Err(why) => return println!("skipped: {why}"),
        };
        let script = "sleep 0.2; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
        let mut child =
            std::process::Command::new("sh").args(["-c", script]).spawn().expect("sh is there");
        session.follow(child.id());
        let mut verdicts = Vec::new();
        let tid = child.id();
        let of_child = |session: &Session, verdict: &Verdict| {
            let subject = session.subject(verdict.late.job.task);
            subject.is_some_and(|subject| subject.thread == Some(tid))
        };
        while session.is_alive() {
            clock::sleep(Duration::from_millis(20));
            let late = session.turn();
            verdicts.extend(late.into_iter().filter(|late| of_child(&session, late)));
            let _ = child.try_wait();
        }
        child.wait().expect("ended");
        for _ in 0..3 {
            let late = session.turn();
            verdicts.extend(late.into_iter().filter(|late| of_child(&session, late)));
        }
        let last = verdicts.last().expect("its last job was late");
        let own = last.shares.iter().find(|share| share.cause == Spent::Own);
        assert!(own.is_some(), "{last:#?}");
    }
}
