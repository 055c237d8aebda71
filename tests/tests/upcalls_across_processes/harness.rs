//! Other processes with upcalls, and what they did.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::{env, fs};

use punctual_linux::process::die_with_parent;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::ceiling::CEILING;
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::Kind;

/// One at a time: they share a CPU and the table.
static ALONE: Mutex<()> = Mutex::new(());

/// What a process is to do: `cpu start_ns until_ns` and for each upcall
/// `period_us batch quantum pdu_us`.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Works for a given processor time a PDU, and notes when.
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
        pdus
    }
}

/// What the other processes do.
pub(crate) fn play() {
    let Ok(role) = env::var(ROLE) else { return };
    let numbers: Vec<u64> = role.split(' ').map(|word| word.parse().expect("a number")).collect();
    let (first, upcalls_of) = numbers.split_at(3);
    thread::pin_to(first[0] as usize).expect("a CPU of ours");
    let (start, until) = (Instant::from_nanos(first[1]), Instant::from_nanos(first[2]));
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
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
        let worker = Worker { time_per_pdu, began: Instant::ZERO, iterations };
        upcalls.create(upcall, worker).expect("admitted");
    }
    let running = upcalls.run(start).expect("has its class");
    clock::sleep_until(until);
    let stopped = running.stop().expect("kept its class");
    assert_eq!(stopped.events_lost, 0);
    let mut said = String::from("\n");
    for event in stopped.events {
        let (task, index, at) = (event.job.task, event.job.index, event.at.as_nanos());
        let release = event.release.as_nanos();
        writeln!(said, "event {task} {index} {:?} {at} {release}", event.kind).expect("a string");
    }
    for (handler, task) in stopped.handlers.iter().zip(0..) {
        for (began, ended) in &handler.iterations {
            let (began, ended) = (began.as_nanos(), ended.as_nanos());
            writeln!(said, "iteration {task} {began} {ended}").expect("a string");
        }
    }
    println!("{said}");
}

/// One upcall: period in µs, batch, quantum, µs a PDU.
pub(crate) type Spec = [u64; 4];

/// Another process with these upcalls, which ends by itself at `until`.
pub(crate) fn other(start: Instant, until: Instant, upcalls: &[Spec]) -> Child {
    let cpu = *thread::affinity().last().expect("some CPU");
    let mut role = format!("{cpu} {} {}", start.as_nanos(), until.as_nanos());
    for number in upcalls.as_flattened() {
        write!(role, " {number}").expect("a string");
    }
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "other_process", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped());
    die_with_parent(&mut command);
    command.spawn().expect("this program")
}

/// What a process did.
#[derive(Default)]
pub(crate) struct Record {
    /// Task, index, what, when, in the order it happened.
    pub(crate) events: Vec<(u32, u64, Kind, u64)>,
    /// Task, from, to.
    iterations: Vec<(u32, u64, u64)>,
}

pub(crate) fn record_of(child: Child) -> Record {
    let output = child.wait_with_output().expect("our child");
    assert!(output.status.success(), "{}", output.status);
    let mut record = Record::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let number = |word: &str| word.parse::<u64>().expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["event", task, index, kind, at, _release] => {
                let kind = [Kind::Start, Kind::GiveWay, Kind::Resume, Kind::Complete]
                    .into_iter()
                    .find(|known| format!("{known:?}") == kind)
                    .expect("a kind");
                record.events.push((number(task) as u32, number(index), kind, number(at)));
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

    /// From each giving way of `task` to its resumption.
    pub(crate) fn absences(&self, task: u32) -> Vec<(u64, u64)> {
        let mut of_task = self.events.iter().filter(|event| event.0 == task).peekable();
        let mut absences = Vec::new();
        while let Some((_, index, kind, from)) = of_task.next() {
            if *kind == Kind::GiveWay
                && let Some((_, resumed, kind, to)) = of_task.peek()
            {
                assert_eq!((index, Kind::Resume), (resumed, *kind), "the same job goes on");
                absences.push((*from, *to));
            }
        }
        absences
    }

    pub(crate) fn starts(&self, task: u32) -> impl Iterator<Item = u64> + '_ {
        let starts = move |event: &&_| matches!(event, (of, _, Kind::Start, _) if *of == task);
        self.events.iter().filter(starts).map(|event| event.3)
    }
}

pub(crate) fn within(spans: &[(u64, u64)], at: u64) -> bool {
    spans.iter().any(|(from, to)| (*from..*to).contains(&at))
}

/// No iteration of one process lies inside one of the other.
pub(crate) fn assert_nobody_is_preempted(a: &Record, b: &Record) {
    let mut all: Vec<_> = a.iterations.iter().chain(&b.iterations).collect();
    all.sort_unstable_by_key(|(_, from, _)| *from);
    for pair in all.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "an iteration inside another: {pair:?}");
    }
}

fn in_shared_memory() -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
}

/// Runs `body` alone; afterwards there is no more shared memory than before.
pub(crate) fn alone(body: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Err(refused) = sched::try_out(Class::Fifo { priority: CEILING }) {
        println!("skipped: {refused}");
        return;
    }
    let before = in_shared_memory();
    body();
    let after = in_shared_memory();
    let new: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
    assert!(new.is_empty(), "left in /dev/shm: {new:?}");
}

/// The first release of all processes of a test: when they are sure to have started.
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
