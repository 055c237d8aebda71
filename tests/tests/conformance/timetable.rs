//! The timetable's dispatcher: owners join and leave on this kernel, and each table that the
//! dispatcher received is followed in virtual time from the same instant on. The comparison covers
//! whose slot began and ended, not how late.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::thread::{self, Tid};
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_policy::timetable::Turns;
use punctual_runtime::reservation::{Held, Refused, Reservations, Settings, StartError, Subject};
use punctual_sim::processor::{Part, Processor, Tabled, Whole};
use punctual_trace::{Event, Kind};
use system_tests::live::eventually;

use crate::UNITS_MS;

/// An owner by its number in events, and whether its slot begins (`true`) or ends.
type Decision = (u32, bool);

/// A thread that does nothing until this value is dropped.
struct Idle {
    tid: Tid,
    rest: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Idle {
    fn new() -> Self {
        let (tell, told) = mpsc::channel();
        let (wake, woken) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(thread::current()).expect("is waited for");
            // Ends with an error when the sender is dropped.
            let _ = woken.recv();
        });
        Self { tid: told.recv().expect("starts"), rest: Some((wake, thread)) }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some((wake, thread)) = self.rest.take() {
            drop(wake);
            // It does not panic.
            let _ = thread.join();
        }
    }
}

/// An owner of slots.
struct Owner {
    /// The owner's number in events.
    task: u32,
    /// The owner's number in the tables.
    name: u32,
    since: Instant,
    /// When the owner left.
    until: Instant,
}

/// One CPU's dispatcher, and the tables that it received.
struct Driven {
    reservations: Reservations,
    cpu: usize,
    unit: Duration,
    tables: Vec<(Instant, Turns)>,
    owners: Vec<Owner>,
}

impl Driven {
    /// Gives a thread `budget` units every `period` units. Returns `None` if another program
    /// follows a timetable on that CPU.
    fn join(&mut self, budget: u64, period: u64) -> Option<(Held, Idle)> {
        let budget = (self.unit * budget).as_full_service();
        let asked = Reservation::new(budget, self.unit * period).expect("valid");
        let idle = Idle::new();
        let held =
            match self.reservations.admit(asked, Subject::Thread(idle.tid), Enforcement::Soft) {
                Err(Refused::Start(StartError::Taken { .. })) => return None,
                outcome => outcome.expect("fits"),
            };
        let slots = self.handed_over().table().slots().to_vec();
        let is_new = |name: &u32| self.owners.iter().all(|owner| owner.name != *name);
        let name = slots.iter().map(|slot| slot.owner).find(is_new).expect("it has slots");
        let (task, since, until) = (held.task(), held.since(), Instant::MAX);
        self.owners.push(Owner { task, name, since, until });
        Some((held, idle))
    }

    /// Removes an owner.
    fn leave(&mut self, (held, _idle): (Held, Idle)) {
        let task = held.task();
        let leaver = self.owners.iter_mut().find(|owner| owner.task == task).expect("joined");
        leaver.until = clock::now();
        drop(held);
        self.handed_over();
    }

    /// Records the table that was just handed over.
    fn handed_over(&mut self) -> &Turns {
        self.tables.push(self.reservations.timetable(self.cpu).expect("something is reserved"));
        &self.tables.last().expect("just kept").1
    }

    /// Sleeps for `units` units or longer, into the middle of half a unit without a slot, so that
    /// nothing changes about then.
    fn sleep(&self, units: u64) -> Instant {
        let (from, turns) = self.tables.last().expect("something is reserved");
        let mut now = clock::now().max(*from) + self.unit * units;
        loop {
            let stretch = turns.at(now);
            let left = stretch.until - now;
            if stretch.owner.is_none() && left >= self.unit / 2 {
                clock::sleep_until(now + left / 2);
                return now + left / 2;
            }
            now = stretch.until;
        }
    }

    /// Returns the decisions in virtual time before `end`.
    fn simulated(&self, end: Instant) -> Vec<Decision> {
        let mut decided: Vec<(Instant, Decision)> = Vec::new();
        for owner in &self.owners {
            let mut slots = Tabled::new(Whole, None, Part::Slots(owner.name), Service::ZERO);
            for (from, turns) in &self.tables {
                slots.hand_over(*from, Some(turns.clone())).expect("a few");
            }
            let (mut now, mut is_in_slot) = (owner.since, false);
            while now < end.min(owner.until) {
                let stretch = slots.at(now, true);
                if stretch.served != is_in_slot {
                    is_in_slot = stretch.served;
                    decided.push((now, (owner.task, is_in_slot)));
                }
                now = stretch.until;
            }
        }
        // Where one slot follows another, the end of the first comes first.
        decided.sort_by_key(|&(at, (_, begins))| (at, begins));
        decided.into_iter().map(|(_, decision)| decision).collect()
    }
}

/// Returns the decisions of the dispatcher. A slot that spans two periods of its reservation
/// appears once in each.
fn decisions(events: &[Event]) -> Vec<Decision> {
    let mut in_slot = BTreeSet::new();
    let decision = |event: &Event| {
        let task = event.job.task;
        match event.kind {
            Kind::Unthrottle => in_slot.insert(task).then_some((task, true)),
            Kind::Throttle { .. } => in_slot.remove(&task).then_some((task, false)),
            _ => None,
        }
    };
    events.iter().filter_map(decision).collect()
}

/// Returns the live decisions and those in virtual time, or `None` if another program follows a
/// timetable on that CPU.
fn run(settings: &Settings, unit: Duration) -> Option<[Vec<Decision>; 2]> {
    let reservations = Reservations::with(settings.clone()).expect("forks");
    let (tables, owners) = (Vec::new(), Vec::new());
    let mut driven = Driven { reservations, cpu: settings.cpus[0], unit, tables, owners };
    let _first = driven.join(2, 10)?;
    let second = driven.join(1, 10)?;
    driven.sleep(20);
    let _third = driven.join(1, 5)?;
    driven.sleep(20);
    driven.leave(second);
    driven.sleep(10);
    // Another period, so that the table is rebuilt.
    let _fourth = driven.join(3, 15)?;
    let end = driven.sleep(30);
    let mut events: Vec<Event> = Vec::new();
    driven.reservations.drain(|event| events.push(event));
    assert_eq!(driven.reservations.events_lost(), 0);
    events.retain(|event| event.at < end);
    Some([decisions(&events), driven.simulated(end)])
}

#[test]
fn the_dispatcher_gives_the_slots_that_virtual_time_gives() {
    let mut settings = Settings::default().with_event_room(1 << 14);
    settings.cpus.truncate(1);
    let reservations = Reservations::with(settings.clone()).expect("forks");
    if let Err(why) = &reservations.facts().fifo {
        println!("ignored: {why}");
        return;
    }
    for unit in UNITS_MS.map(Duration::from_millis) {
        let mut outcome = None;
        let free = || {
            outcome = run(&settings, unit);
            outcome.is_some()
        };
        if !eventually(free) {
            println!("ignored: another program follows a timetable on CPU {}", settings.cpus[0]);
            return;
        }
        let [decided, expected] = outcome.expect("just now");
        assert!(expected.len() >= 40, "{expected:?}");
        if decided == expected {
            return;
        }
        println!("differs at {unit} a unit: {decided:?}, not {expected:?}");
    }
    panic!("the slots differ at every unit");
}
