//! The commands of the other processes: each is a line of input, answered by a line of output.

use std::env;
use std::fmt::Write as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::sched::Class;
use punctual_linux::{clock, memory, process, sched, thread};
use punctual_model::reservation::Enforcement::{Hard, Soft};
use punctual_model::{Duration, HostProfile, Instant, Overrun, Upcall, UpcallSpec};
use punctual_runtime::reservation::{Reservations, Reserved};
use punctual_runtime::{Placement, Running, Stopped, Upcalls};
use punctual_trace::{Event, Kind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::conduct::{Ends, Worker, idle_program};

pub(crate) const ROLE: &str = "PUNCTUAL_TEST_ROLE";

#[derive(Default)]
struct State {
    running: Option<Running<Worker>>,
    /// For each running upcall: its first release, its period, and its number of jobs.
    first: Instant,
    periods: Vec<Duration>,
    jobs: Vec<Arc<AtomicU64>>,
    ends: Ends,
    reservations: Option<Reservations>,
    reserved: Option<Reserved>,
    children: Vec<Child>,
}

/// Obeys commands until its input ends, which also happens when the test is killed.
pub(crate) fn play() {
    let Ok(_role) = env::var(ROLE) else { return };
    let mut state = State::default();
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        say(&state.obey(&line.split(' ').collect::<Vec<_>>()));
    }
    let spawned = state.ends.spawned.lock().expect("whole").take();
    for mut child in state.children.drain(..).chain(spawned) {
        let _ = child.kill();
        let _ = child.wait();
    }
    state.free();
}

/// Prints a marked line, since the harness writes lines of its own.
fn say(text: &str) {
    println!("\n> {}", text.replace('\n', " "));
}

fn answer_of<T>(
    result: Result<T, impl std::fmt::Display>,
    done: impl FnOnce(T) -> String,
) -> String {
    result.map_or_else(|error| format!("error {error}"), done)
}

impl State {
    fn obey(&mut self, words: &[&str]) -> String {
        match words {
            ["pin", cpu] => {
                answer_of(thread::pin_to(cpu.parse().expect("a CPU")), |()| "done".into())
            }
            ["limit", what, to] => self.limit(what, to.parse().expect("a number")),
            // The overrun policy, then the conduct and period of each upcall.
            ["start", overrun, upcalls @ ..] => self.start(Placement::Upcalls, overrun, upcalls),
            ["inside", reservation] => {
                let inside = Placement::Reserved(reservation.parse().expect("valid"));
                self.start(inside, "catch_up", &["counts", "50"])
            }
            ["activity"] => {
                let running = self.running.as_ref().expect("started");
                let of = |task| format!("{:?}", running.activity(task));
                (0..self.jobs.len() as u32).map(of).collect::<Vec<_>>().join(" ")
            }
            ["jobs"] => {
                let count = |jobs: &Arc<AtomicU64>| jobs.load(Ordering::Relaxed).to_string();
                self.jobs.iter().map(count).collect::<Vec<_>>().join(" ")
            }
            ["free"] => {
                self.free();
                "done".into()
            }
            ["stop"] => {
                self.free();
                let running = self.running.take().expect("started");
                answer_of(running.stop(), |stopped| self.account_of(&stopped))
            }
            ["now"] => clock::now().as_nanos().to_string(),
            ["lock"] => answer_of(memory::lock_all(), |_locked| "locked".into()),
            // The number of threads of this process, and of those that are not ordinary.
            ["threads"] => {
                let own = i32::try_from(std::process::id()).expect("positive");
                let all = process::threads_of(own);
                let ordinary = |class| matches!(class, Ok(Some(Class::Other { nice: 0 })));
                let odd = |tid| !ordinary(sched::get(tid).map(|now| now.class()));
                let count = all.len();
                format!("{count} {}", all.into_iter().filter(|tid| odd(*tid)).count())
            }
            // Forks a process that executes nothing and lasts until the next command.
            ["fork"] => answer_of(Reservations::new(), |guarded| {
                self.reservations = Some(guarded);
                "done".into()
            }),
            ["unfork"] => {
                self.reservations = None;
                "done".into()
            }
            ["reserve", reservation, enforcement] => self.reserve(reservation, enforcement),
            ["leave"] => {
                (self.reserved, self.reservations) = (None, None);
                "done".into()
            }
            ["spawn"] => {
                let child = idle_program().spawn().expect("sleep is there");
                let id = child.id();
                self.children.push(child);
                id.to_string()
            }
            ["spawned"] => {
                let spawned = self.ends.spawned.lock().expect("whole");
                spawned.as_ref().map_or(0, Child::id).to_string()
            }
            _ => panic!("{words:?}"),
        }
    }

    /// Sets a soft limit of this process.
    fn limit(&self, what: &str, to: u64) -> String {
        let resource = match what {
            "nofile" => Resource::Nofile,
            "nproc" => Resource::Nproc,
            "memlock" => Resource::Memlock,
            other => panic!("{other}"),
        };
        let maximum = getrlimit(resource).maximum;
        let set = setrlimit(resource, Rlimit { current: Some(to), maximum });
        answer_of(set, |()| "done".into())
    }

    /// Closes the writing ends of all pipes, so that every reader returns.
    fn free(&mut self) {
        self.ends.pipes.lock().expect("whole").clear();
    }

    fn start(&mut self, placement: Placement, overrun: &str, upcalls: &[&str]) -> String {
        let overrun = match overrun {
            "catch_up" => Overrun::CatchUp,
            "skip" => Overrun::Skip,
            "abort" => Overrun::Abort,
            "demote" => Overrun::Demote,
            other => panic!("{other}"),
        };
        let all = Upcalls::new(placement, HostProfile::ideal(1));
        // Events are not read before the end.
        let mut all = all.with_event_room(1 << 16);
        (self.jobs, self.periods) = (Vec::new(), Vec::new());
        for pair in upcalls.chunks(2) {
            let (conduct, period_ms) = (pair[0], pair[1].parse().expect("milliseconds"));
            let period = Duration::from_millis(period_ms);
            let upcall = Upcall::new(UpcallSpec {
                name: conduct.into(),
                period,
                batch: 1,
                quantum: 1,
                time_per_pdu: Worker::promise(conduct),
            });
            let worker = Worker::new(conduct, &self.ends);
            self.jobs.push(Arc::clone(&worker.jobs));
            self.periods.push(period);
            all.create(upcall.expect("valid").with_overrun(overrun), worker).expect("fits");
        }
        self.first = clock::now() + Duration::from_millis(5);
        answer_of(all.run(self.first), |running| {
            self.running = Some(running);
            "running".into()
        })
    }

    /// Returns for each upcall: jobs complete, jobs complete twice, jobs skipped between the first
    /// and the last, and releases off the grid.
    fn account_of(&self, stopped: &Stopped<Worker>) -> String {
        assert_eq!(stopped.events_lost, 0, "the ring is large enough for a test");
        let mut said = String::from("stopped");
        for (task, period) in (0..).zip(&self.periods) {
            let of_task = stopped.events.iter().filter(|event| event.job.task == task);
            // If the machine stands still it may be contained. Then jobs are not numbered
            // meanwhile, and only the phase stays.
            let contained = of_task.clone().find(|event| event.kind == Kind::Contained);
            let contained = contained.map_or(Instant::MAX, |event| event.at);
            let since = |event: &Event| event.release.saturating_since(self.first);
            // A start that passed before everything was running is not caught up with either.
            let begins = of_task.clone().next().map_or(Duration::ZERO, |event| {
                since(event).saturating_sub(*period * event.job.index)
            });
            let on_grid = |event: &&Event| {
                let since = since(event);
                let whole = since.as_nanos().is_multiple_of(period.as_nanos());
                whole && (event.at >= contained || since == begins + *period * event.job.index)
            };
            let off = of_task.clone().filter(|event| !on_grid(event)).count();
            let complete = of_task.filter(|event| event.kind == Kind::Complete);
            let mut indices: Vec<u64> = complete.map(|event| event.job.index).collect();
            let all = indices.len();
            indices.sort_unstable();
            indices.dedup();
            let end = indices.last().map_or(0, |last| last + 1);
            let (twice, over) = (all - indices.len(), end - indices.len() as u64);
            write!(said, " {all} {twice} {over} {off}").expect("a string");
        }
        said
    }

    fn reserve(&mut self, reservation: &str, enforcement: &str) -> String {
        let reservations = match Reservations::new() {
            Ok(reservations) => reservations,
            Err(error) => return format!("error {error}"),
        };
        let (enforcement, exact) = match enforcement {
            "kernel" => (Hard, false),
            "timetable" => (Soft, false),
            other => panic!("{other}"),
        };
        let reservation = reservation.parse().expect("valid");
        let given = Reserved::current(&reservations, reservation, enforcement, exact);
        answer_of(given, |reserved| {
            let said = format!("{:?}", reserved.choice().backend);
            (self.reserved, self.reservations) = (Some(reserved), Some(reservations));
            said
        })
    }
}
