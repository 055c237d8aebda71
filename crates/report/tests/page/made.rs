//! Constructs traces for the tests.

use punctual_model::{Duration, Instant, JobId, Service};
use punctual_report::Report;
use punctual_trace::cause::{LateJob, Share, Spent, Verdict};
use punctual_trace::file::{Lost, Run, Writer};
use punctual_trace::{Event, Kind, Promise, Subject, SubjectKind};

pub(crate) const CONTRACT: &str = include_str!("../../../../examples/studio.toml");

/// A name with which an attacker might try to break out of the text.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{202e}gnp\u{0}\u{1b}]0;x\u{7}</title>";

const MS: u64 = 1_000_000;

/// A task of the constructed run: name, kind, period, deadline and work in microseconds.
struct Task {
    name: &'static str,
    kind: SubjectKind,
    period: u64,
    deadline: u64,
    work: u64,
}

const TASKS: &[Task] = &[
    Task {
        name: "capture",
        kind: SubjectKind::Upcall,
        period: 10_000,
        deadline: 10_000,
        work: 2_000,
    },
    Task { name: "send", kind: SubjectKind::Upcall, period: 20_000, deadline: 20_000, work: 1_600 },
    Task {
        name: "encode",
        kind: SubjectKind::Task,
        period: 40_000,
        deadline: 40_000,
        work: 11_000,
    },
    Task {
        name: HOSTILE,
        kind: SubjectKind::Reservation,
        period: 25_000,
        deadline: 25_000,
        work: 3_000,
    },
];

/// Makes a run of this many frames of 40 ms. The first task is the most urgent, and each preempts
/// those after it. Every 50th frame the CPU is held up for 15 ms; one job in 64 of the first task
/// runs for some 25.
pub(crate) fn events(frames: u64) -> Vec<Event> {
    let mut released: Vec<u64> = vec![0; TASKS.len()];
    // For each task, its oldest job that is not complete, the remaining work, and whether it has
    // begun.
    let mut open: Vec<Option<(JobId, u64, u64, bool)>> = vec![None; TASKS.len()];
    let (mut now, mut running) = (0u64, None::<usize>);
    let mut events = Vec::new();
    let mut held_up_until = 0;
    while now < frames * 40 * MS {
        for (at, task) in TASKS.iter().enumerate() {
            let release = released[at] * task.period * 1000;
            if open[at].is_none() && release <= now {
                let job = JobId { task: at as u32, index: released[at] };
                // Some variation, the same in every run.
                let is_overrun = at == 0 && released[at] % 64 == 40;
                let work = if is_overrun { 30 * MS } else { task.work * 1000 };
                let work = work * (80 + (released[at] * 7919 + at as u64 * 31) % 21) / 100;
                open[at] = Some((job, release, work, false));
                released[at] += 1;
            }
        }
        if now % (2_000 * MS) == 0 && now > 0 {
            held_up_until = now + 15 * MS;
        }
        let next = if now < held_up_until {
            None
        } else {
            (0..TASKS.len()).find(|&at| open[at].is_some())
        };
        let mut event = |at: Option<usize>, kind: fn(bool) -> Kind| {
            if let Some((job, release, _, begun)) = at.and_then(|at| open[at]) {
                let kind = kind(begun);
                let (at, release) = (Instant::from_nanos(now), Instant::from_nanos(release));
                events.push(Event { at, job, release, kind });
            }
        };
        if next != running {
            event(running, |_| Kind::GiveWay);
            event(next, |begun| if begun { Kind::Resume } else { Kind::Start });
            running = next;
        }
        // To the next release, or to the end of the job.
        let releases = TASKS.iter().enumerate().map(|(at, task)| released[at] * task.period * 1000);
        let until = releases.filter(|&at| at > now).min().unwrap_or(u64::MAX);
        let until = if now < held_up_until { until.min(held_up_until) } else { until };
        let until = until.min((now / (40 * MS) + 1) * 40 * MS);
        let Some(at) = next else {
            now = until;
            continue;
        };
        let Some((job, release, left, _)) = open[at] else { continue };
        let end = (now + left).min(until);
        open[at] = Some((job, release, left - (end - now), true));
        now = end;
        if open[at].is_some_and(|one| one.2 == 0) {
            let (at_end, release) = (Instant::from_nanos(now), Instant::from_nanos(release));
            events.push(Event { at: at_end, job, release, kind: Kind::Complete });
            open[at] = None;
            running = None;
        }
    }
    events
}

pub(crate) fn subject(task: usize) -> Subject {
    let Task { name, kind, period, deadline, work } = TASKS[task];
    let promise = Promise {
        period: Some(Duration::from_micros(period)),
        relative_deadline: Some(Duration::from_micros(deadline)),
        wcet: Some(Service::from_micros(work)),
    };
    Subject { promise, cpu: Some(0), ..Subject::new(name, kind) }
}

pub(crate) fn run() -> Run {
    Run {
        live: true,
        epoch_unix_ns: 1_735_689_599_000_000_000,
        command: format!("punctual run {HOSTILE}"),
        host: vec!["kernel 6.1.0".into(), HOSTILE.into()],
        contract: CONTRACT.into(),
    }
}

/// Makes the file of a run of this many frames.
pub(crate) fn trace(frames: u64) -> Vec<u8> {
    let mut writer = Writer::new(&run());
    for task in 0..TASKS.len() {
        writer.subject(task as u32, &subject(task));
    }
    writer.events(&events(frames));
    writer.end(Instant::from_nanos(frames * 40 * MS));
    writer.take()
}

/// Makes a file that also has budgets, lost events, a verdict, jobs that never began, and no end.
pub(crate) fn eventful() -> Vec<u8> {
    let mut writer = Writer::new(&run());
    for task in 0..TASKS.len() {
        writer.subject(task as u32, &subject(task));
    }
    writer.events(&events(60));
    let at = |ms: u64| Instant::from_nanos(ms * MS);
    let hog = Subject::new("hog", SubjectKind::Reservation);
    let promise =
        Promise { relative_deadline: Some(Duration::from_millis(10)), ..Promise::default() };
    writer.subject(77, &Subject { promise, ..hog });
    let mut more = Vec::new();
    for index in 0..200 {
        let (release, job) = (at(2_400 + index * 10), JobId { task: 77, index });
        let kinds = [
            (0, Kind::Replenish { budget: Service::from_millis(2) }),
            (0, Kind::Start),
            (2, Kind::GiveWay),
            (2, Kind::Throttle { left: Service::ZERO }),
            (8, Kind::Unthrottle),
            (8, Kind::Resume),
            (9, Kind::Complete),
        ];
        for (ms, kind) in kinds {
            more.push(Event { at: at(2_400 + index * 10 + ms), job, release, kind });
        }
    }
    writer.events(&more);
    writer.lost(Lost::new(at(4_500), 12));
    let job = JobId { task: 77, index: 300 };
    let skip = Kind::Skip { jobs: 4 };
    writer.events(&[Event { at: at(5_500), job, release: at(5_400), kind: skip }]);
    let late = LateJob {
        job: JobId { task: 77, index: 310 },
        release: at(5_500),
        absolute_deadline: at(5_510),
        end: at(5_514),
        wcet: None,
    };
    let share = |cause, ms: u64| Share {
        cause,
        took: Duration::from_millis(ms + 1),
        times: 2,
        longest_at: at(5_501),
        share: Duration::from_millis(ms),
    };
    let shares = vec![share(Spent::PageFault, 3), share(Spent::Stolen, 1)];
    writer.verdict(&Verdict { late, own: Duration::from_millis(5), shares });
    writer.take()
}

/// Reports on a file.
pub(crate) fn report(bytes: &[u8]) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.ptrace");
    std::fs::write(&path, bytes).expect("written");
    let mut report = Report::read(&path).expect("a trace");
    report.admit(&punctual_model::HostProfile::ideal(1), "host profile: ideal");
    report
}
