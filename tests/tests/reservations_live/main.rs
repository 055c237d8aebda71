//! Reservations by timetable on this host: they keep their promises, and nothing is left, even
//! after kill -9. What this host does not allow is skipped, with the reason.
//!
//! No wall-clock maximum is asserted: another program may take the CPU at any time.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod adapted;
mod current;
mod killed;
mod refused;
mod served;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_analysis::Axis;
use punctual_linux::cgroup::Hierarchy;
use punctual_linux::process::{self, Signal};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_linux::{clock, host};
use punctual_model::reservation::Enforcement::{self, Hard, Soft};
use punctual_model::{Duration, Reservation, Service};
use punctual_runtime::reservation::{
    Constraint, Held, IN_SLOT, Refused, Reservations, StartError, Subject,
};
use system_tests::live::eventually;

/// Serialises the tests, because there is one timetable a CPU.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `None`, and prints the reason, if the host cannot. Waits while another program has the
/// CPUs.
fn reservations() -> Option<Reservations> {
    let reservations = Reservations::new().expect("forks");
    for why in [&reservations.facts().fifo, &reservations.facts().freezer] {
        if let Err(why) = why {
            println!("skipped: {why}");
            return None;
        }
    }
    let probe = |reservations: &Reservations| {
        let me = Subject::Thread(thread::current());
        match reservations.admit(ms(1, 50), me, Soft) {
            Err(Refused::Start(StartError::Taken { .. })) => false,
            Err(other) => panic!("{other}"),
            Ok(_) => true,
        }
    };
    if !eventually(|| probe(&reservations)) {
        println!("skipped: another program follows timetables on all CPUs");
        return None;
    }
    Some(reservations)
}

fn ms(budget: u64, period: u64) -> Reservation {
    Reservation::new(Service::from_millis(budget), Duration::from_millis(period)).expect("valid")
}

/// A child that is killed and reaped however the test ends.
struct Killed(Child);

impl Killed {
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("positive")
    }
    fn tid(&self) -> Tid {
        Tid::from_raw(self.pid()).expect("positive")
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel ends it after 20 s of processor time, in case the test is killed.
const HOG: [&str; 2] = ["-c", "ulimit -t 20; while :; do :; done"];
/// A hog that starts another, which starts a short-lived one again and again until the first is
/// dead.
const FORKING_HOG: [&str; 2] = [
    "-c",
    "ulimit -t 20; (while kill -0 $$; do (i=0; while [ $i -lt 500 ]; do i=$((i+1)); done); done) & \
     while :; do :; done",
];

fn hog(script: [&str; 2]) -> Command {
    let mut command = Command::new("sh");
    // No reader of the test's output must wait for its end.
    command.args(script).stdout(Stdio::null()).stderr(Stdio::null());
    process::die_with_parent(&mut command);
    command
}

fn held(
    reservations: &Reservations,
    command: &mut Command,
    reservation: Reservation,
    enforcement: Enforcement,
) -> (Killed, Held) {
    let (child, held) = reservations.spawn(command, reservation, enforcement).expect("admitted");
    (Killed(child), held)
}

/// Returns its share of processor time while `slots` slots passed.
fn share(held: &Held, slots: u64) -> f64 {
    let (from, used) = (clock::now(), held.used().unwrap_or_default());
    let end = held.slots() + slots;
    assert!(eventually(|| held.slots() >= end), "slots go on");
    let used = held.used().unwrap_or_default() - used;
    used.as_nanos() as f64 / clock::now().saturating_since(from).as_nanos() as f64
}

fn ordinary(tid: Tid) -> bool {
    matches!(sched::get(tid).map(|now| now.class()), Ok(Some(Class::Other { .. })))
}

fn groups() -> Vec<PathBuf> {
    let me = i32::try_from(std::process::id()).expect("positive");
    let hierarchies = [Hierarchy::v2(), Hierarchy::v1("freezer")].into_iter().flatten();
    let parents = hierarchies.filter_map(|hierarchy| hierarchy.group_of(me));
    let mine = format!("punctual-{me}-");
    parents
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&mine)))
        .collect()
}

#[test]
fn a_hard_command_with_children_stays_inside_and_becomes_ordinary_afterwards() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let (child, held) = held(&reservations, &mut hog(FORKING_HOG), ms(2, 10), Hard);
    assert_eq!(thread::affinity_of(child.tid()), [held.cpu()]);
    if held.used().is_some() {
        let share = share(&held, 60);
        // Twenty percent, and one switch a slot more; never as much as a hog would take.
        assert!(share > 0.02 && share < 0.4, "{share}");
    }
    assert_eq!(held.failures(), 0);
    assert_eq!(
        sched::get(child.tid()).expect("lives").class(),
        Some(Class::Fifo { priority: IN_SLOT })
    );
    drop(held);
    assert!(ordinary(child.tid()));
    assert_eq!(thread::affinity_of(child.tid()), thread::affinity());
    assert!(groups().is_empty(), "{:?}", groups());
    // It runs, so it is not frozen.
    let ticks = || fs::read_to_string(format!("/proc/{}/schedstat", child.pid()));
    let before = ticks().expect("lives");
    assert!(eventually(|| ticks().expect("lives") != before));
}

#[test]
fn a_soft_process_gets_leftover_time_too() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let child = Killed(hog(FORKING_HOG).spawn().expect("sh is there"));
    let subject = Subject::Process(child.pid());
    let mut held = reservations.admit(ms(1, 10), subject, Soft).expect("admitted");
    if held.used().is_some() {
        // On a CPU with other work it may take a while until some time is left over.
        assert!(eventually(|| share(&held, 20) > 0.2), "more than ten percent");
    }
    held.change(ms(3, 12)).expect("fits");
    assert_eq!(held.reservation(), ms(3, 12));
    let slots = held.slots();
    assert!(eventually(|| held.slots() > slots + 10), "slots go on");
    drop(held);
    assert!(eventually(|| process::threads_of(child.pid()).into_iter().all(ordinary)));
    assert!(groups().is_empty());
}

#[test]
fn a_killed_owner_leaves_nothing_and_a_stopped_one_only_its_time() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let (mut child, first) = held(&reservations, &mut hog(HOG), ms(2, 10), Hard);
    let (other, second) = held(&reservations, &mut hog(HOG), ms(2, 10), Hard);
    process::send(&other.0, Signal::STOP).expect("our child");
    process::send(&child.0, Signal::KILL).expect("our child");
    let _ = child.0.wait();
    let slots = second.slots();
    assert!(eventually(|| second.slots() > slots + 5), "the timetable goes on");
    drop(first);
    process::send(&other.0, Signal::CONT).expect("our child");
    if second.used().is_some() {
        let used = second.used();
        assert!(eventually(|| second.used() > used), "it goes on");
    }
    drop(second);
    assert!(groups().is_empty());
}

#[test]
fn a_reservation_that_does_not_fit_is_refused_with_an_offer_that_fits() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let mut all = Vec::new();
    let mut refused = None;
    while refused.is_none() && all.len() < 16 {
        match reservations.spawn(&mut hog(HOG), ms(5, 10), Hard) {
            Ok((child, held)) => all.push((held, Killed(child))),
            Err(error) => refused = Some(error),
        }
    }
    // One on each CPU, or fewer if there are fewer CPUs.
    assert!(!all.is_empty() && all.len() <= host::cpus_online(), "{}", all.len());
    let Some(Refused::DoesNotFit { refusal, .. }) = refused else { panic!("{refused:?}") };
    let budget = refusal.offers.along("", Axis::Budget).expect("at least ten percent are left");
    assert!(refusal.to_string().contains(&budget.amount().to_string()), "{refusal}");
    let offer = refusal.offers.in_place_of(ms(5, 10)).expect("valid");
    let (_child, held) = held(&reservations, &mut hog(HOG), offer, Hard);
    let slots = held.slots();
    assert!(eventually(|| held.slots() > slots + 5));
    assert!(all.iter().all(|(held, _)| held.failures() == 0));
}

#[test]
fn time_constraints_are_answered_and_tell_what_was_used() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let (_child, _held) = held(&reservations, &mut hog(HOG), ms(5, 10), Hard);
    let before = thread::affinity();
    let now = clock::now();
    let within = |estimate, by| {
        let (estimate, by) = (Service::from_millis(estimate), Duration::from_millis(by));
        Constraint::begin(&reservations, now, estimate, now + by)
    };
    // More than any CPU has, even if it is idle.
    let Err(Refused::NoRoom { refusal, .. }) = within(400, 200) else { panic!("too much") };
    assert!(refusal.largest_estimate < Service::from_millis(200), "{refusal}");
    assert!(refusal.earliest_deadline.is_some(), "{refusal}");
    let constraint = within(20, 4_000).expect("there is room");
    let start = clock::thread_cpu_time();
    while clock::thread_cpu_time() - start < Service::from_millis(5) {}
    let used = constraint.end();
    assert!(used.used >= Service::from_millis(5), "{used:?}");
    assert_eq!(used.estimate, Service::from_millis(20));
    assert!(ordinary(thread::current()));
    assert_eq!(thread::affinity(), before);
}
