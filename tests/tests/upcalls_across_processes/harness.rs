//! Other processes with upcalls, and records of their activity.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, shm, thread};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::{RUNNING, set_table};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::Kind;

/// Serialises the tests: they share a CPU and the table.
static ALONE: Mutex<()> = Mutex::new(());

/// The environment variable with the role of a process: `parent cpu start_ns until_ns grace_us` and
/// for each upcall `period_us batch quantum pdu_us`. A grace of zero means no containment.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// A handler that works for a given processor time for each PDU, and records when.
struct Worker {
    time_per_pdu: Service,
    began: Instant,
    iterations: Vec<(Instant, Instant)>,
}

impl Handler for Worker {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.began = clock::now();
        let until = clock::thread_cpu_time() + self.time_per_pdu * u64::from(pdus);
        while clock::thread_cpu_time() < until {}
        self.iterations.push((self.began, clock::now()));
        // A sign of life; the pipe has room for all of them.
        let _ = std::io::stderr().write_all(b".");
        pdus
    }
}

/// Plays the role of another process.
pub(crate) fn play() {
    let Ok(role) = env::var(ROLE) else { return };
    let numbers: Vec<u64> = role.split(' ').map(|word| word.parse().expect("a number")).collect();
    let (first, upcalls_of) = numbers.split_at(5);
    assert!(set_table(&table_of(first[0] as u32)), "nothing ran yet");
    thread::pin_to(first[1] as usize).expect("a CPU of ours");
    let (start, until) = (Instant::from_nanos(first[2]), Instant::from_nanos(first[3]));
    let upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    // A busy host may take the CPU from a handler for longer than any grace.
    let mut upcalls = match first[4] {
        0 => upcalls.without_containment(),
        grace_us => upcalls.with_grace(Duration::from_micros(grace_us)),
    };
    for (of, name) in upcalls_of.chunks(4).zip('a'..) {
        let time_per_pdu = Service::from_micros(of[3]);
        let upcall = Upcall::new(UpcallSpec {
            name: name.into(),
            period: Duration::from_micros(of[0]),
            batch: of[1] as u32,
            quantum: of[2] as u32,
            time_per_pdu,
        })
        .expect("valid");
        let iterations = Vec::with_capacity(1 << 16);
        // A watched handler keeps its promise even when it is disturbed.
        let time_per_pdu = if first[4] == 0 { time_per_pdu } else { time_per_pdu / 2 };
        let worker = Worker { time_per_pdu, began: Instant::ZERO, iterations };
        upcalls.create(upcall, worker).expect("admitted");
    }
    let running = upcalls.run(start).expect("has its class");
    clock::sleep_until(until);
    let of_guard = switches_of_guard();
    let stopped = running.stop().expect("kept its class");
    assert_eq!(stopped.events_lost, 0);
    let mut said = format!("\nguard {of_guard}\n");
    for event in stopped.events {
        let (task, index, at) = (event.job.task, event.job.index, event.at.as_nanos());
        let release = event.release.as_nanos();
        let kind = word_of(event.kind);
        writeln!(said, "event {task} {index} {kind} {at} {release}").expect("a string");
    }
    for (handler, task) in stopped.handlers.iter().zip(0..) {
        for (began, ended) in &handler.iterations {
            let (began, ended) = (began.as_nanos(), ended.as_nanos());
            writeln!(said, "iteration {task} {began} {ended}").expect("a string");
        }
    }
    println!("{said}");
}

/// Returns the context switches of this process's guard so far, voluntary and not
/// (proc_pid_status(5)).
fn switches_of_guard() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("our own").flatten();
    let of = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file));
    let is_guard =
        |task: &fs::DirEntry| of(task, "comm").is_ok_and(|name| name.trim() == "upcalls-guard");
    let status = tasks.filter(is_guard).filter_map(|task| of(&task, "status").ok());
    let lines = status.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let counts = lines.filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("ctxt_switches").then(|| count.trim().parse::<u64>().expect("a number"))
    });
    counts.sum()
}

/// Returns one word for each kind of event.
fn word_of(kind: Kind) -> String {
    format!("{kind:?}").replace(' ', "")
}

fn kind_of(word: &str) -> Kind {
    let (name, jobs) = word.split_once("{jobs:").unwrap_or((word, "0}"));
    let jobs = jobs.trim_end_matches('}').parse().expect("a number");
    let (overrun, skip) = (Kind::Overrun { jobs }, Kind::Skip { jobs });
    let simple = [Kind::Start, Kind::GiveWay, Kind::Resume, Kind::Complete, Kind::Abort];
    let mut all = simple.into_iter().chain([Kind::Contained, overrun, skip]);
    let kind = all.find(|known| word_of(*known).split('{').next() == Some(name));
    kind.unwrap_or_else(|| panic!("{word}: a kind of event"))
}

/// Returns the table of the children of a process, which no other program uses.
pub(crate) fn table_of(parent: u32) -> String {
    format!("test-{parent}")
}

/// Returns the file of the table of this process's children.
pub(crate) fn table() -> PathBuf {
    shm::path(&table_of(std::process::id()))
}

/// One upcall: period in µs, batch, quantum, µs a PDU.
pub(crate) type Spec = [u64; 4];

/// Starts another process with these upcalls, which ends by itself at `until`.
pub(crate) fn other(start: Instant, until: Instant, upcalls: &[Spec]) -> Child {
    watched(start, until, 0, upcalls)
}

/// Starts the same with a guard, which gives `grace_us` of grace.
pub(crate) fn watched(start: Instant, until: Instant, grace_us: u64, upcalls: &[Spec]) -> Child {
    let cpu = *thread::affinity().last().expect("some CPU");
    let (parent, from, to) = (std::process::id(), start.as_nanos(), until.as_nanos());
    let mut role = format!("{parent} {cpu} {from} {to} {grace_us}");
    for number in upcalls.as_flattened() {
        write!(role, " {number}").expect("a string");
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "other_process", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    die_with_parent(&mut command);
    command.spawn().expect("this program")
}

/// The number of yield points that the handlers of a live process have reached.
pub(crate) struct Progress(Arc<AtomicUsize>);

impl Progress {
    pub(crate) fn of(child: &mut Child) -> Self {
        let mut signs = child.stderr.take().expect("not taken before");
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            let mut some = [0; 256];
            while let Ok(more @ 1..) = signs.read(&mut some) {
                counted.fetch_add(more, Ordering::Relaxed);
            }
        });
        Self(count)
    }

    /// Waits until they have reached `more` further yield points.
    pub(crate) fn wait_for(&self, more: usize) {
        let goal = self.0.load(Ordering::Relaxed) + more;
        let patience = clock::now() + Duration::from_secs(20);
        while self.0.load(Ordering::Relaxed) < goal {
            assert!(clock::now() < patience, "the process does not get on");
            clock::sleep(Duration::from_millis(1));
        }
    }
}

/// Task, index, event, time, and the time of the release.
pub(crate) type Happened = (u32, u64, Kind, u64, u64);

/// The activity of a process.
#[derive(Default)]
pub(crate) struct Record {
    /// The events in the order they happened.
    pub(crate) events: Vec<Happened>,
    /// The context switches of its guard.
    pub(crate) of_guard: u64,
    /// Task, from, to.
    iterations: Vec<(u32, u64, u64)>,
}

pub(crate) fn record_of(child: Child) -> Record {
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let mut record = Record::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let number = |word: &str| word.parse::<u64>().expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["guard", switches] => record.of_guard = number(switches),
            ["event", task, index, kind, at, release] => {
                let task = number(task) as u32;
                let (index, at, release) = (number(index), number(at), number(release));
                record.events.push((task, index, kind_of(kind), at, release));
            }
            ["iteration", task, from, to] => {
                record.iterations.push((number(task) as u32, number(from), number(to)));
            }
            _ => {}
        }
    }
    record
}

impl Record {
    pub(crate) fn count(&self, task: u32, what: Kind) -> usize {
        self.events.iter().filter(|event| event.0 == task && event.2 == what).count()
    }

    /// Returns the intervals from each yield of `task` to its resumption.
    pub(crate) fn absences(&self, task: u32) -> Vec<(u64, u64)> {
        let of_task = self.events.iter().filter(|event| event.0 == task);
        // Late jobs may become known at any time.
        let ran = |event: &&Happened| {
            !matches!(event, (_, _, Kind::Overrun { .. } | Kind::Skip { .. }, ..))
        };
        let mut of_task = of_task.filter(ran).peekable();
        let mut absences = Vec::new();
        while let Some((_, index, kind, from, _)) = of_task.next() {
            if *kind == Kind::GiveWay
                && let Some((_, resumed, kind, to, _)) = of_task.peek()
            {
                assert_eq!((index, Kind::Resume), (resumed, *kind), "the same job goes on");
                absences.push((*from, *to));
            }
        }
        absences
    }

    pub(crate) fn starts(&self, task: u32) -> impl Iterator<Item = u64> + '_ {
        let starts =
            move |event: &&Happened| matches!(event, (of, _, Kind::Start, ..) if *of == task);
        self.events.iter().filter(starts).map(|event| event.3)
    }
}

pub(crate) fn within(spans: &[(u64, u64)], at: u64) -> bool {
    spans.iter().any(|(from, to)| (*from..*to).contains(&at))
}

/// Checks that no iteration of one process lies inside one of the other.
pub(crate) fn assert_nobody_is_preempted(a: &Record, b: &Record) {
    let mut all: Vec<_> = a.iterations.iter().chain(&b.iterations).collect();
    all.sort_unstable_by_key(|(_, from, _)| *from);
    for pair in all.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "an iteration inside another: {pair:?}");
    }
}

/// Removes the table that a failed test's children may have left.
struct Tidy;

impl Drop for Tidy {
    fn drop(&mut self) {
        let _ = shm::remove_left_over(&table());
    }
}

/// Runs `body` alone, and checks that nothing is left of the table afterwards.
pub(crate) fn alone(body: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Err(refused) = sched::try_out(Class::Fifo { priority: RUNNING }) {
        println!("skipped: {refused}");
        return;
    }
    let _tidy = Tidy;
    body();
    assert!(!table().exists(), "{} is left", table().display());
}

/// Returns the first release of all processes of a test, late enough for them to have started.
pub(crate) fn soon() -> Instant {
    clock::now() + Duration::from_millis(250)
}

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// 40 ms every 100 ms in quanta of 4 ms.
pub(crate) const LONG: Spec = [100_000, 40, 4, 1_000];
/// 1 ms every 10 ms.
pub(crate) const SHORT: Spec = [10_000, 1, 1, 1_000];
