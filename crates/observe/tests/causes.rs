//! These tests cause lateness deliberately, and the verdict must name the cause.
//!
//! The victim is this test program again, in a process of its own: a periodic thread on CPU 0 that
//! is late each time the trouble strikes. The machine is shared and other causes come between, so
//! the caused one must be the main cause of a quarter of the late jobs, not of all.
//!
//! If the kernel reports nothing to this user, the tests say so, and prove nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_observe::hold::{Holder, Means, Quota};
use punctual_observe::inject::{self, Plan, Trouble};
use punctual_observe::{Session, Verdict};
use punctual_trace::cause::{Spent, Throttler};

const PERIOD: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_millis(1);
/// One job in this many meets the trouble.
const EACH: u64 = 4;
/// The number of late jobs to judge by, and the number of jobs after which to give up.
const ENOUGH: usize = 12;
const MOST_JOBS: u64 = 1_500;

/// The variable that tells the victim what to do to itself.
const VICTIM: &str = "PUNCTUAL_VICTIM";

/// The victim; `cargo test` skips it.
#[test]
#[ignore = "the victim of the other tests"]
fn victim() {
    let Ok(trouble) = std::env::var(VICTIM) else { return };
    // The kernel refuses SCHED_DEADLINE to a thread that may not run everywhere (sched(7)).
    if trouble != "throttled" {
        thread::pin_to(0).expect("CPU 0");
    }
    let lock = std::sync::Arc::new(std::sync::Mutex::new(()));
    if trouble == "throttled" {
        let reservation = Reservation::new(Service::from_millis(2), PERIOD).expect("valid");
        sched::set(thread::current(), Class::Deadline { reservation, reset_on_fork: false })
            .expect("SCHED_DEADLINE");
    } else if trouble == "late-timer" {
        thread::set_timer_slack(Duration::from_millis(12));
    } else if trouble == "quota" || trouble == "shared-quota" {
        // A quota is for ordinary threads.
        sched::set(thread::current(), Class::Other { nice: -20 }).expect("nice -20");
        thread::set_timer_slack(Duration::from_nanos(1));
    } else {
        sched::set(thread::current(), Class::Fifo { priority: 30 }).expect("SCHED_FIFO");
        thread::set_timer_slack(Duration::from_nanos(1));
    }
    // Made outside the jobs: an allocator that zeroes memory itself takes milliseconds, as the
    // thread's own work outside system calls.
    let mut buffer = vec![1_u8; 4 << 20];
    let mut due = clock::now();
    for job in 0..MOST_JOBS {
        due += PERIOD;
        if due < clock::now() {
            due = clock::now() + PERIOD;
        }
        clock::sleep_until(due);
        spin(WORK);
        if job % EACH != 0 {
            continue;
        }
        match &*trouble {
            // Its own fault, or with a budget of 2 ms the kernel's throttling.
            "own" | "throttled" | "quota" => spin(Duration::from_millis(8)),
            "shared-quota" => drop(std::thread::spawn(|| spin(Duration::from_millis(8)))),
            "page-fault" => faults(clock::now() + Duration::from_millis(8)),
            // These take some milliseconds each, and some microseconds.
            "system" => in_system_calls(&mut buffer, clock::now() + Duration::from_millis(8)),
            "short-system" => {
                in_system_calls(&mut buffer[..64 << 10], clock::now() + Duration::from_millis(8));
            }
            "blocked" => {
                let other = lock.clone();
                let (holds, held) = mpsc::channel();
                std::thread::spawn(move || {
                    let _guard = other.lock();
                    holds.send(()).expect("the victim waits");
                    clock::sleep(Duration::from_millis(9));
                });
                held.recv().expect("held");
                drop(lock.lock());
            }
            _ => {}
        }
    }
}

fn spin(length: Duration) {
    let end = clock::now() + length;
    while clock::now() < end {
        std::hint::spin_loop();
    }
}

fn faults(end: Instant) {
    while clock::now() < end {
        // Each allocation of this size comes from the kernel (mallopt(3), M_MMAP_THRESHOLD), which
        // supplies a page when it is touched.
        let mut fresh = vec![0_u8; 64 << 20];
        let pages = fresh.iter_mut().step_by(4096);
        pages.take_while(|_| clock::now() < end).for_each(|byte| *byte = 1);
        std::hint::black_box(&fresh);
    }
}

/// Makes one system call after another, each of which fills the buffer.
fn in_system_calls(buffer: &mut [u8], end: Instant) {
    let mut from = File::open("/dev/zero").expect("/dev/zero");
    while clock::now() < end {
        from.read_exact(buffer).expect("zeros");
    }
    std::hint::black_box(buffer);
}

struct Victim(Child);

impl Victim {
    fn of(trouble: &str) -> Self {
        let this = std::env::current_exe().expect("this program");
        let child = Command::new(this)
            .args(["--ignored", "--exact", "victim", "--nocapture"])
            .env(VICTIM, trouble)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("this program again"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs tests one at a time: all of them use CPU 0.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The trouble that is made from outside the victim.
#[derive(Clone, Copy)]
enum Outside {
    Nothing,
    OnItsCpu(Trouble),
    Held(Means),
    Quota { levels: usize },
}

/// Returns the main causes of the late jobs of a victim with this trouble.
fn causes(trouble: &str, outside: Outside) -> Option<BTreeMap<&'static str, usize>> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = WORK.as_full_service() + Service::from_millis(1);
    // An ordinary thread whose timer may wait is woken by the next tick; a busy CPU has 250 ticks a
    // second or more.
    let deadline = if trouble == "late-timer" { Duration::from_millis(2) } else { DEADLINE };
    let mut session = match Session::start(deadline, Some(work)) {
        Ok(session) => session,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    if let Err(why) = sched::try_out(Class::Fifo { priority: 30 }) {
        println!("skipped: {why}");
        return None;
    }
    let victim = Victim::of(trouble);
    session.follow(victim.0.id());
    println!("not told here: {:?}", session.missing());
    let (stop, stopped) = mpsc::channel::<()>();
    let (burn, period) = (Duration::from_millis(9), Duration::from_millis(53));
    let goes_on = move || stopped.try_recv() == Err(mpsc::TryRecvError::Empty);
    let mut _quota = None;
    let injecting = match outside {
        Outside::Nothing => None,
        Outside::OnItsCpu(trouble) => Some(std::thread::spawn(move || {
            let plan = Plan { trouble, cpu: 0, burn, period, length: Duration::from_secs(60) };
            let injected = inject::inject(plan, goes_on).map_err(|why| why.to_string())?;
            Ok(format!("{injected:?}"))
        })),
        Outside::Held(means) => match Holder::new(means, victim.0.id()) {
            Ok(holder) => Some(std::thread::spawn(move || {
                let held =
                    holder.alternate(burn, period, goes_on).map_err(|why| why.to_string())?;
                Ok(format!("held {held} times"))
            })),
            Err(why) => {
                println!("skipped: {why}");
                return None;
            }
        },
        Outside::Quota { levels } => {
            // Strikes, 80 ms apart, meet each phase of this period.
            let (quota, period) = (Duration::from_millis(5), Duration::from_millis(37));
            match Quota::of(victim.0.id(), quota, period, levels) {
                Ok(quota) => _quota = Some(quota),
                Err(why) => {
                    println!("skipped: {why}");
                    return None;
                }
            }
            None
        }
    };
    let mut verdicts: Vec<Verdict> = Vec::new();
    let end = clock::now() + Duration::from_secs(40);
    while verdicts.len() < ENOUGH && session.is_alive() && clock::now() < end {
        clock::sleep(Duration::from_millis(20));
        let late = session.turn();
        let is_victim = |verdict: &Verdict| {
            session.subject(verdict.late.job.task).is_some_and(|subject| subject.name == "victim")
        };
        verdicts.extend(late.into_iter().filter(is_victim));
    }
    drop(stop);
    if let Some(injecting) = injecting {
        match injecting.join().expect("no panic") {
            Ok::<String, String>(injected) => println!("{injected}"),
            Err(why) => {
                println!("skipped: {why}");
                return None;
            }
        }
    }
    let mut causes = BTreeMap::new();
    for verdict in &verdicts {
        let sum: u64 = verdict.shares.iter().map(|share| share.share.as_nanos()).sum();
        assert_eq!(sum, verdict.late.tardiness().as_nanos(), "{verdict:#?}");
        if let Some(main) = verdict.main() {
            *causes.entry(main.cause.word()).or_default() += 1;
        }
    }
    if let Some(first) = verdicts.first() {
        println!("the first: {:#?}", first.shares);
    }
    if let Outside::Quota { levels } = outside {
        let throttlers = verdicts.iter().flat_map(|verdict| &verdict.shares);
        for share in throttlers {
            if let Spent::Throttled(Throttler::Quota { levels: named }) = share.cause {
                assert_eq!(named.map(usize::from), Some(levels), "{share:?}");
            }
        }
    }
    for share in verdicts.iter().filter_map(Verdict::main).take(3) {
        println!("late for: {}", share.cause);
    }
    println!("{trouble}: {causes:?} of {} late jobs", verdicts.len());
    Some(causes)
}

/// The number of attempts: other load on the machine may spoil a run, and is then rightly named,
/// too. A quarter of the late jobs is enough.
const RUNS: usize = 3;

fn must_name(trouble: &str, outside: Outside, word: &str) {
    let mut seen = Vec::new();
    for _ in 0..RUNS {
        let Some(causes) = causes(trouble, outside) else { return };
        let all: usize = causes.values().sum();
        let named = causes.get(word).copied().unwrap_or(0);
        if all > 0 && 4 * named >= all {
            return;
        }
        seen.push(causes);
    }
    panic!("{trouble}: not {word} but {seen:?}");
}

#[test]
fn its_own_overrun_is_named() {
    must_name("own", Outside::Nothing, "own");
}

#[test]
fn a_task_that_ran_instead_is_named() {
    must_name("nothing", Outside::OnItsCpu(Trouble::Fifo(70)), "task");
}

#[test]
fn a_hard_interrupt_is_named() {
    must_name("nothing", Outside::OnItsCpu(Trouble::HardInterrupt), "hard-interrupt");
}

#[test]
fn a_softirq_is_named() {
    must_name("nothing", Outside::OnItsCpu(Trouble::SoftIrq), "softirq");
}

#[test]
fn a_late_timer_is_named() {
    must_name("late-timer", Outside::Nothing, "late-timer");
}

#[test]
fn throttling_by_the_kernel_is_named() {
    must_name("throttled", Outside::Nothing, "throttled-by-kernel");
}

#[test]
fn page_faults_are_named() {
    must_name("page-fault", Outside::Nothing, "page-fault");
}

#[test]
fn a_lock_that_another_holds_is_named() {
    must_name("blocked", Outside::Nothing, "blocked");
}

#[test]
fn an_exhausted_quota_of_its_own_group_is_named() {
    must_name("quota", Outside::Quota { levels: 0 }, "throttled-by-quota");
}

#[test]
fn an_exhausted_quota_of_a_group_above_is_named() {
    must_name("quota", Outside::Quota { levels: 2 }, "throttled-by-quota");
}

/// The victim sleeps while the other thread uses the quota up, and is woken then.
#[test]
fn a_quota_that_another_thread_exhausted_is_named() {
    must_name("shared-quota", Outside::Quota { levels: 0 }, "throttled-by-quota");
}

#[test]
fn a_signal_that_stops_it_is_named() {
    must_name("nothing", Outside::Held(Means::Signal), "stopped");
}

#[test]
fn the_freezer_of_version_1_is_named() {
    must_name("nothing", Outside::Held(Means::FreezerV1), "frozen");
}

#[test]
fn the_freezer_of_version_2_is_named() {
    must_name("nothing", Outside::Held(Means::FreezerV2), "frozen");
}

#[test]
fn long_system_calls_are_told_from_its_other_work() {
    must_name("system", Outside::Nothing, "system");
}

#[test]
fn many_short_system_calls_are_told_from_its_other_work() {
    must_name("short-system", Outside::Nothing, "system");
}
