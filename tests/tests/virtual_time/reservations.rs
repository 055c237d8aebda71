//! Reservations that are admitted, changed and released, and time constraints between them, in
//! virtual time: compares the promises of `analysis` with the service of `policy`, tick by tick.

use punctual_analysis::supply::{Continuing, Handover, Limits, Rules, TimeConstraint};
use punctual_analysis::{Joining, Request, Steps, System};
use punctual_model::{Duration, Instant, Reservation, Service, Task, TaskSpec};
use punctual_policy::table_dispatcher::{Holder, Pending, TableDispatcher};
use punctual_policy::timetable::Turns;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const END: u64 = 3_000;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

/// A task with fixed priority, released each period.
struct Beneath {
    period: u64,
    wcet: u64,
    /// The release of the oldest incomplete job, and its remaining work.
    pending: (u64, u64),
    done: u32,
}

impl Beneath {
    fn draw(rng: &mut ChaCha8Rng) -> Self {
        let period = rng.random_range(20..200);
        let wcet = rng.random_range(1..=period / 4);
        Self { period, wcet, pending: (rng.random_range(0..period), wcet), done: 0 }
    }

    fn task(&self) -> Task {
        let (period, wcet) = (Duration::from_nanos(self.period), Service::from_nanos(self.wcet));
        Task::new(TaskSpec::periodic("beneath", period, wcet)).expect("valid")
    }

    /// Returns whether it takes the tick that begins at `now`.
    fn takes(&mut self, now: u64) -> bool {
        let (release, left) = &mut self.pending;
        if now < *release {
            return false;
        }
        *left -= 1;
        if *left == 0 {
            assert!(now < *release + self.period, "late by {}", now + 1 - *release - self.period);
            self.pending = (*release + self.period, self.wcet);
            self.done += 1;
        }
        true
    }
}

/// One reservation of one owner, for as long as it was in force.
#[derive(Clone, Copy, Debug)]
struct Stood {
    owner: u32,
    reservation: Reservation,
    from: u64,
    to: u64,
}

struct World {
    rng: ChaCha8Rng,
    switch: u64,
    /// The reservations, with the names of their owners in the slots.
    system: System<u32>,
    next: u32,
    /// The tasks beneath the slots, in half of the worlds.
    beneath: Vec<Beneath>,
    table_dispatcher: TableDispatcher,
    stood: Vec<Stood>,
    promised: Vec<(u32, TimeConstraint)>,
    /// The occupant of each tick; `None` during a switch, too.
    served: Vec<Option<Holder>>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    admitted: u32,
    later: u32,
    refused: u32,
    offers_tried: u32,
    changed: u32,
    released: u32,
    once: u32,
    windows: u64,
    jobs: u32,
}

fn joining<'a>(
    reservation: Reservation,
    earliest: Instant,
    standing: &'a [TimeConstraint],
) -> Request<'a> {
    Request::Joining(Joining { reservation, cpu: 0, earliest, standing })
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let switch = rng.random_range(0..2);
        let context_switch = Service::from_nanos(switch);
        let most_ppm = *[1_000_000, 900_000].get(rng.random_range(0..2)).expect("two");
        let rules = Rules { limits: Limits { context_switch, most_slots: 256 }, most_ppm };
        let mut system = System::of_timetable(0, rules);
        let mut beneath = Vec::new();
        if rng.random() {
            beneath = (0..rng.random_range(1..3)).map(|_| Beneath::draw(&mut rng)).collect();
            beneath.sort_by_key(|one| one.period);
            let tasks: Vec<Task> = beneath.iter().map(Beneath::task).collect();
            let steps = &mut Steps::default();
            if system.admit(u32::MAX, Request::Executor(&tasks), steps).is_err() {
                beneath.clear();
            }
        }
        Self {
            rng,
            switch,
            system,
            next: 0,
            beneath,
            table_dispatcher: TableDispatcher::new(context_switch),
            stood: Vec::new(),
            promised: Vec::new(),
            served: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        let (mut now, mut last, mut lost) = (0, None, 0);
        while now < END {
            if self.rng.random_bool(0.01) {
                self.disturb(now);
            }
            let step = self.table_dispatcher.at(ns(now));
            while self.table_dispatcher.retired().is_some() {}
            if last != Some(step.who) {
                (last, lost) = (Some(step.who), self.switch);
            }
            // Asked at each tick: intermediate answers must agree with the previous one.
            if !matches!(step.who, Holder::Owner(_)) {
                // The first task takes it, because its period is the shortest.
                let _ = self.beneath.iter_mut().any(|one| one.takes(now));
            }
            self.served.push((lost == 0).then_some(step.who));
            lost = lost.saturating_sub(1);
            now += 1;
        }
        self.check();
        for one in &self.beneath {
            assert!(one.pending.0 + one.period >= END, "not even begun in time");
            self.tally.jobs += one.done;
        }
        self.tally
    }

    fn standing(&self) -> Vec<TimeConstraint> {
        let one = |one: &Pending| TimeConstraint {
            start: one.start,
            estimate: one.left,
            deadline: one.deadline,
        };
        self.table_dispatcher.pending().iter().map(one).collect()
    }

    fn disturb(&mut self, now: u64) {
        // Like a follower that is informed some time before.
        let earliest = ns(now + self.rng.random_range(0..4));
        let standing = self.standing();
        match self.rng.random_range(0..10) {
            0..5 => self.admit(earliest, &standing),
            5 => {
                let Some(stood) = self.any() else { return };
                let asked = self.draw();
                let asking = joining(asked, earliest, &standing);
                let outcome =
                    self.system.change(stood.owner, asking, Some(earliest), &mut Steps::default());
                let Ok(_) = outcome else { return };
                let handover = self.system.handover(stood.owner).expect("stands");
                self.end_of(stood.owner, handover.from);
                self.follow(handover, asked);
                self.tally.changed += 1;
            }
            6 => {
                let Some(stood) = self.any() else { return };
                let Some(handover) = self.system.leave(stood.owner, earliest) else { return };
                self.end_of(stood.owner, handover.from);
                let turns = (!self.standing_owners().is_empty())
                    .then(|| Turns::new(handover.follow.table, handover.follow.origin));
                self.table_dispatcher.hand_over(handover.from, turns).expect("room");
                self.tally.released += 1;
            }
            // Admission of tasks does not know time constraints.
            _ if !self.beneath.is_empty() => self.admit(earliest, &standing),
            _ => {
                let start = now + self.rng.random_range(0..100);
                let asked = TimeConstraint {
                    start: ns(start),
                    estimate: Service::from_nanos(self.rng.random_range(1..30)),
                    deadline: ns(start + self.rng.random_range(1..200)),
                };
                if self.system.has_room(0, asked, &standing, ns(now)).is_ok() {
                    let name = self.promised.len() as u32;
                    let (start, deadline) = (asked.start, asked.deadline);
                    let pending = Pending { name, start, deadline, left: asked.estimate };
                    self.table_dispatcher.add(pending).expect("room");
                    self.promised.push((name, asked));
                    self.tally.once += 1;
                }
            }
        }
    }

    fn admit(&mut self, earliest: Instant, standing: &[TimeConstraint]) {
        let mut asked = self.draw();
        let (name, steps) = (self.next, &mut Steps::default());
        let before = self.standing_owners();
        let mut outcome = self.system.admit(name, joining(asked, earliest, standing), steps);
        if let Err(refused) = &outcome {
            assert_eq!(self.standing_owners(), before, "a refusal changes nothing");
            self.tally.refused += 1;
            // Every offer fits.
            let Some(offer) = refused.offers.in_place_of(asked) else { return };
            assert!(offer.budget() < asked.budget() && offer.period() == asked.period());
            asked = offer;
            outcome = self.system.admit(name, joining(asked, earliest, standing), steps);
            self.tally.offers_tried += 1;
        }
        outcome.expect("what is offered fits");
        self.next += 1;
        let handover = self.system.handover(name).expect("it was admitted");
        assert_eq!(handover.owner, name);
        self.tally.later += u32::from(handover.from > earliest);
        self.tally.admitted += 1;
        self.follow(handover, asked);
    }

    fn follow(&mut self, handover: Handover, reservation: Reservation) {
        let Handover { owner, follow, from } = handover;
        assert!(follow.origin <= from);
        self.table_dispatcher
            .hand_over(from, Some(Turns::new(follow.table, follow.origin)))
            .expect("room");
        self.stood.push(Stood { owner, reservation, from: from.as_nanos(), to: END });
    }

    fn end_of(&mut self, owner: u32, at: Instant) {
        let stood = self.stood.iter_mut().rev().find(|stood| stood.owner == owner);
        stood.expect("it stood").to = at.as_nanos().min(END);
    }

    fn standing_owners(&self) -> Vec<Continuing> {
        self.system.continuing(0).map(|(_, promise)| promise).collect()
    }

    fn any(&mut self) -> Option<Stood> {
        let standing = self.standing_owners();
        if standing.is_empty() {
            return None;
        }
        let owner = standing[self.rng.random_range(0..standing.len())].owner;
        self.stood.iter().rev().find(|stood| stood.owner == owner).copied()
    }

    fn draw(&mut self) -> Reservation {
        let period = self.rng.random_range(4..=120u64);
        let budget = self.rng.random_range(1..=(period / 2).max(1));
        Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).expect("valid")
    }

    fn check(&mut self) {
        for at in 0..self.stood.len() {
            let stood = self.stood[at];
            self.every_window(stood);
            // Over a change, the weaker of both promises; one change at a time.
            let next = self.stood[at + 1..].iter().find(|next| next.owner == stood.owner);
            if let Some(next) = next {
                let budget = stood.reservation.budget().min(next.reservation.budget());
                let period = stood.reservation.period().max(next.reservation.period());
                let weaker = Reservation::new(budget, period).expect("valid");
                self.every_window(Stood { reservation: weaker, to: next.to, ..stood });
            }
        }
        for (name, asked) in &self.promised {
            let (from, to) = (asked.start.as_nanos(), asked.deadline.as_nanos());
            if to <= END {
                let got = self.served[from as usize..to as usize]
                    .iter()
                    .filter(|tick| **tick == Some(Holder::Constraint(*name)))
                    .count() as u64;
                assert!(got >= asked.estimate.as_nanos(), "{asked:?} got {got}");
            }
        }
    }

    fn every_window(&mut self, stood: Stood) {
        let (x, y) = (stood.reservation.budget().as_nanos(), stood.reservation.period().as_nanos());
        if stood.from + y > stood.to {
            return;
        }
        let mine = &self.served[stood.from as usize..stood.to as usize];
        for (start, window) in (stood.from..).zip(mine.windows(y as usize)) {
            let got =
                window.iter().filter(|tick| **tick == Some(Holder::Owner(stood.owner))).count()
                    as u64;
            assert!(got >= x, "{stood:?} got {got} from {start}: {:?}", self.stood);
            self.tally.windows += 1;
        }
    }
}

#[test]
fn every_window_holds_while_reservations_come_change_and_go() {
    let mut all = Tally::default();
    for seed in 0..600 {
        let one = World::new(seed).run();
        all.admitted += one.admitted;
        all.later += one.later;
        all.refused += one.refused;
        all.offers_tried += one.offers_tried;
        all.changed += one.changed;
        all.released += one.released;
        all.once += one.once;
        all.windows += one.windows;
        all.jobs += one.jobs;
    }
    println!("{all:?}");
    // None of these may be vacuous.
    assert!(all.admitted > 2_000 && all.later > 100 && all.offers_tried > 500, "{all:?}");
    assert!(all.changed > 500 && all.released > 500 && all.once > 1_000, "{all:?}");
    assert!(all.jobs > 5_000, "{all:?}");
}
