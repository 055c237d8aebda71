//! Live: measures how soon a periodic program runs when it wakes beside hogs, by who holds it, and how
//! far a hog runs past the budget of its server.
//!
//! The program wakes at absolute times and works for a given processor time. It runs in turn, in the
//! same run and on the same CPU, under SCHED_FIFO, SCHED_DEADLINE (unpinned: the kernel takes no
//! pinned one), a soft timetable and a deferrable server, beside one kind of hog after the other. A
//! job is late if it is not done within a period of its wake-up.
//!
//! A hog under a server that watches its own class records how much processor time it used at the
//! server's level in each stretch. Times that a hypervisor took are in all figures; steal is
//! printed. `HELD_SECONDS` is the length of each run, 2 if not set.

use std::process::{Child, Command, Stdio};

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, host, process, thread};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation, Service};
use punctual_runtime::reservation::{Facts, Kind, Reservations, Settings, Wish, choose_server};

const ROLE: &str = "PUNCTUAL_BENCH_HELD";

/// The kinds of hogs, four processes of each. All are ordinary programs on the same CPU.
const HOGS: [&str; 8] = ["spin", "nice", "fork", "yield", "memory", "write", "timers", "pipe"];

const HELD_BY: [&str; 4] = ["fifo", "kernel", "timetable", "server"];

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let words: Vec<&str> = role.split(' ').collect();
        return match words[..] {
            ["periodic", period, work, count] => {
                periodic(number(period), number(work), number(count))
            }
            ["watch", seconds] => watch(number(seconds)),
            ["hog", kind] => hog(kind),
            _ => unreachable!("from ourselves"),
        };
    }
    let seconds = std::env::var("HELD_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(2);
    let reservations = match Reservations::with(Settings::default()) {
        Ok(reservations) => reservations,
        Err(refused) => return println!("held_programs: skipped: {refused}"),
    };
    let facts = reservations.facts().clone();
    for why in [&facts.fifo, &facts.freezer, &facts.deadline] {
        if let Err(why) = why {
            return println!("held_programs: skipped: {why}");
        }
    }
    let cpu = thread::affinity().last().copied().unwrap_or(0);
    for (text, work) in [("2ms/10ms", 1_500), ("300us/1ms", 150)] {
        let reservation: Reservation = text.parse().expect("valid");
        let period = reservation.period().as_nanos();
        let count = seconds * 1_000_000_000 / period;
        for kind in HOGS {
            let stolen = host::stolen();
            let hogs = Hogs::start(kind, cpu);
            for by in HELD_BY {
                let role = format!("periodic {period} {} {count}", work * 1_000);
                let figures = run(&reservations, &facts, by, cpu, reservation, &role);
                println!("{work}us of {text} beside {kind:6} {by:9} {figures}");
            }
            drop(hogs);
            let stolen =
                host::stolen().zip(stolen).map(|(after, before)| after.saturating_sub(before));
            println!("  stolen by the host meanwhile: {}", stolen.unwrap_or_default());
        }
        let role = format!("watch {}", seconds.max(10));
        let figures = run(&reservations, &facts, "server", cpu, reservation, &role);
        println!("a hog in a server of {text}, used at its level: {figures}");
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("from ourselves")
}

/// Runs this program in `role`, held as said, and returns what it printed.
fn run(
    reservations: &Reservations,
    facts: &Facts,
    by: &str,
    cpu: usize,
    reservation: Reservation,
    role: &str,
) -> String {
    let mut command = ourselves(role);
    command.stdout(Stdio::piped());
    let (soft, kind) = (Enforcement::Soft, Kind::Command);
    let wish = Wish { reservation, kind, enforcement: soft, cpu: Some(cpu), exact: true };
    let (child, held) = match by {
        "fifo" => {
            let child = on_cpu(&mut command, cpu).spawn().expect("ourselves");
            let tid = thread::Tid::from_raw(child.id() as i32).expect("an id");
            process::raise(tid, 87).expect("probed");
            (child, None)
        }
        "kernel" => (process::spawn_reserved(&mut command, reservation).expect("probed"), None),
        _ => {
            let (choice, room) = if by == "server" {
                let choice = choose_server(wish, facts).expect("probed");
                (choice, reservations.make_room_for_server(cpu, reservation).map(|room| vec![room]))
            } else {
                let choice = punctual_runtime::reservation::choose(wish, facts).expect("probed");
                assert_eq!(choice.backend, Backend::Timetable);
                (choice, reservations.make_room(cpu, &[reservation]))
            };
            let room = room.expect("nothing else is reserved").pop().expect("one");
            let started = reservations.spawn_in(room, &mut command, soft, choice, None);
            let (child, held) = started.expect("it has room");
            (child, Some(held))
        }
    };
    let output = child.wait_with_output().expect("our child");
    drop(held);
    // The capacity of a server is free a period after it.
    clock::sleep(Duration::from_millis(50));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn ourselves(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ROLE, role).stdin(Stdio::null());
    process::die_with_parent(&mut command);
    command
}

/// Has the program start on `cpu` by taskset(1).
fn on_cpu(command: &mut Command, cpu: usize) -> Command {
    let mut bound = Command::new("taskset");
    bound.args(["-c", &cpu.to_string()]).arg(command.get_program());
    bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bound.stdin(Stdio::null()).stdout(Stdio::piped());
    process::die_with_parent(&mut bound);
    bound
}

/// Wakes every `period` and works for `work`, in nanoseconds, `count` times. Prints the latencies and
/// the late jobs.
fn periodic(period: u64, work: u64, count: u64) {
    let work = Service::from_nanos(work);
    // Any phase against that of whoever holds it.
    let mut next = clock::now() + Duration::from_millis(20) + Duration::from_nanos(period / 3);
    let (mut latencies, mut late) = (Vec::with_capacity(count as usize), 0);
    for _ in 0..count {
        clock::sleep_until(next);
        latencies.push(clock::now().saturating_since(next).as_nanos() / 1_000);
        let until = clock::thread_cpu_time() + work;
        while clock::thread_cpu_time() < until {}
        let now = clock::now();
        late += u64::from(now.saturating_since(next).as_nanos() > period);
        next += Duration::from_nanos(period);
        // What was missed is left out.
        while next < now {
            next += Duration::from_nanos(period);
        }
    }
    latencies.sort_unstable();
    let at = |part: usize| latencies[(latencies.len() - 1) * part / 1_000];
    println!(
        "wake-up p50/p99/max {:5} {:5} {:6} us, late {late} of {count}",
        at(500),
        at(990),
        at(1_000)
    );
}

/// Spins for so many seconds, and prints how much processor time each stretch under SCHED_FIFO took.
fn watch(seconds: u64) {
    let me = thread::current();
    let is_raised =
        || matches!(sched::get(me).map(|now| now.class()), Ok(Some(Class::Fifo { .. })));
    let until = clock::now() + Duration::from_secs(seconds);
    let (mut since, mut stretches) = (None, Vec::new());
    while clock::now() < until {
        match (is_raised(), since) {
            (true, None) => since = Some(clock::thread_cpu_time()),
            (false, Some(start)) => {
                let used = clock::thread_cpu_time().saturating_sub(start);
                stretches.push(used.as_nanos() / 1_000);
                since = None;
            }
            _ => {}
        }
    }
    // The first began before this looked.
    stretches.remove(0);
    stretches.sort_unstable();
    let at = |part: usize| stretches[(stretches.len() - 1) * part / 1_000];
    let [least, half, most, nearly, all] = [0, 500, 990, 999, 1_000].map(at);
    println!(
        "min/p50/p99/p99.9/max {least} {half} {most} {nearly} {all} us, {} periods",
        stretches.len()
    );
}

struct Hogs(Vec<Child>);

impl Hogs {
    fn start(kind: &str, cpu: usize) -> Self {
        let role = format!("hog {kind}");
        let hog = |_| on_cpu(&mut ourselves(&role), cpu).stdout(Stdio::null()).spawn();
        let hogs = Self((0..4).map(hog).collect::<Result<_, _>>().expect("taskset(1)"));
        clock::sleep(Duration::from_millis(200));
        hogs
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

fn hog(kind: &str) {
    match kind {
        "spin" => loop {
            std::hint::spin_loop();
        },
        "nice" => {
            // The most that an ordinary program can have.
            rustix::process::nice(-20).expect("probed");
            loop {
                std::hint::spin_loop();
            }
        }
        "fork" => loop {
            Command::new("true").status().expect("true(1)");
        },
        "yield" => loop {
            std::thread::yield_now();
        },
        "memory" => {
            let mut all = vec![0_u64; 1 << 22];
            loop {
                all.iter_mut().for_each(|word| *word = word.wrapping_add(1));
                std::hint::black_box(&all);
            }
        }
        "write" => {
            let file = tempfile::tempfile().expect("a folder for temporary files");
            let block = vec![1_u8; 1 << 20];
            loop {
                for at in 0..16 {
                    std::os::unix::fs::FileExt::write_all_at(&file, &block, at << 20)
                        .expect("room for 16 MiB");
                }
            }
        }
        "timers" => loop {
            clock::sleep(Duration::from_micros(50));
        },
        "pipe" => {
            let (from, to) = rustix::pipe::pipe().expect("descriptors");
            loop {
                rustix::io::write(&to, &[0]).expect("there is room");
                rustix::io::read(&from, &mut [0]).expect("it was written");
            }
        }
        _ => unreachable!("from ourselves"),
    }
}
