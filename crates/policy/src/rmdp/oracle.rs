//! The same rules in their slow form: a record for every job, a scan for every question.

use alloc::vec::Vec;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tests::ms;
use super::*;
use punctual_model::{JobId, Service, UpcallSpec};

struct Job {
    index: u64,
    release: Instant,
    deadline: Instant,
    done: u32,
    reported: bool,
}

struct Naive {
    task: u32,
    upcall: Upcall,
    /// Orders equal periods.
    order: u64,
    grid: Instant,
    index: u64,
    suspended: bool,
    demoted: bool,
    jobs: Vec<Job>,
}

#[derive(Default)]
struct Model {
    upcalls: Vec<Naive>,
    orders: u64,
}

/// The results on which both must agree.
#[derive(Debug, PartialEq)]
enum Outcome {
    Run { job: JobId, release: Instant, pdus: u32, resumed: bool, demoted: bool },
    Missed { oldest: JobId, release: Instant, jobs: u64, fate: Fate },
    Idle { until: Instant },
}

impl Naive {
    fn id(&self, at: usize) -> JobId {
        JobId { task: self.task, index: self.jobs[at].index }
    }

    fn release(&mut self, now: Instant) {
        while !self.suspended && self.grid <= now {
            let deadline = self.grid + self.upcall.period();
            let job =
                Job { index: self.index, release: self.grid, deadline, done: 0, reported: false };
            self.jobs.push(job);
            self.index += 1;
            self.grid = deadline;
        }
    }

    /// Finds late jobs by the definition alone.
    fn missed(&mut self, now: Instant) -> Option<Outcome> {
        let late = |job: &Job| job.deadline <= now;
        let overrun = self.upcall.overrun();
        if matches!(overrun, Overrun::Skip | Overrun::Abort) {
            let first = self.jobs.first().filter(|job| late(job))?;
            let (id, release) = (self.id(0), first.release);
            let (jobs, fate) = match (first.done > 0, overrun) {
                (true, _) if first.reported => return None,
                (true, Overrun::Skip) => (1, Fate::Late),
                (true, _) => (1, Fate::Aborted),
                (false, _) => (self.jobs.iter().filter(|job| late(job)).count(), Fate::Skipped),
            };
            match fate {
                Fate::Late => self.jobs[0].reported = true,
                _ => drop(self.jobs.drain(..jobs)),
            }
            return Some(Outcome::Missed { oldest: id, release, jobs: jobs as u64, fate });
        }
        let most = (100_000_000 / self.upcall.period().as_nanos()).max(4) as usize;
        let too_many = self.jobs.len() > most;
        if too_many && self.jobs[0].done == 0 {
            let (oldest, release) = (self.id(0), self.jobs[0].release);
            let jobs = self.jobs.drain(..self.jobs.len() - most).count() as u64;
            self.demoted |= overrun == Overrun::Demote;
            return Some(Outcome::Missed { oldest, release, jobs, fate: Fate::Skipped });
        }
        // If too many jobs wait behind one that has begun, it is not yet known which will be
        // dropped.
        let unreported: Vec<usize> = (0..if too_many { 1 } else { self.jobs.len() })
            .filter(|at| late(&self.jobs[*at]) && !self.jobs[*at].reported)
            .collect();
        let at = *unreported.first()?;
        for job in &unreported {
            self.jobs[*job].reported = true;
        }
        self.demoted |= overrun == Overrun::Demote;
        let (oldest, release) = (self.id(at), self.jobs[at].release);
        Some(Outcome::Missed { oldest, release, jobs: unreported.len() as u64, fate: Fate::Late })
    }
}

impl Model {
    fn sort(&mut self) {
        self.upcalls.sort_by_key(|one| (one.upcall.period(), one.order));
    }

    fn release(&mut self, now: Instant) {
        self.upcalls.iter_mut().for_each(|one| one.release(now));
    }

    /// Returns the position of the upcall that runs.
    fn first(&self) -> Option<usize> {
        let wants = |demoted| {
            self.upcalls.iter().position(|one| !one.jobs.is_empty() && one.demoted == demoted)
        };
        wants(false).or_else(|| wants(true))
    }

    fn next(&mut self, now: Instant) -> Outcome {
        self.release(now);
        if let Some(missed) = self.upcalls.iter_mut().find_map(|one| one.missed(now)) {
            return missed;
        }
        let Some(at) = self.first() else {
            let grids = self.upcalls.iter().filter(|one| !one.suspended).map(|one| one.grid);
            return Outcome::Idle { until: grids.min().unwrap_or(Instant::MAX) };
        };
        let (one, job) = (&self.upcalls[at], &self.upcalls[at].jobs[0]);
        let left = one.upcall.batch().get() - job.done;
        Outcome::Run {
            job: one.id(0),
            release: job.release,
            pdus: one.upcall.quantum().get().min(left),
            resumed: job.done > 0,
            demoted: one.demoted,
        }
    }

    fn of(&mut self, task: u32) -> &mut Naive {
        self.upcalls.iter_mut().find(|one| one.task == task).expect("both have it")
    }

    fn complete(&mut self, task: u32, now: Instant) -> bool {
        let one = self.of(task);
        let job = one.jobs.remove(0);
        let late = now > job.deadline && !job.reported;
        one.release(now);
        one.demoted &= one.jobs.first().is_some_and(|job| job.deadline <= now);
        late
    }

    /// Returns whether the running job continues after `pdus` PDUs, and whether it has become late;
    /// `Then::Abort` if it was aborted.
    fn look(&mut self, task: u32, pdus: u32, now: Instant) -> (Then, bool) {
        self.release(now);
        let one = self.of(task);
        one.jobs[0].done += pdus;
        let late = one.jobs[0].deadline <= now && !one.jobs[0].reported;
        if late {
            one.jobs[0].reported = true;
            one.demoted |= one.upcall.overrun() == Overrun::Demote;
            if one.upcall.overrun() == Overrun::Abort {
                one.jobs.remove(0);
                return (Then::Abort, true);
            }
        }
        let goes_on = self.first().map(|at| self.upcalls[at].task) == Some(task);
        (if goes_on { Then::Continue } else { Then::Yield }, late)
    }
}

fn draw(rng: &mut ChaCha8Rng) -> Upcall {
    let batch = rng.random_range(1..6);
    let overrun = Overrun::NAMES[rng.random_range(0..5)].1;
    Upcall::new(UpcallSpec {
        name: "u".into(),
        period: Duration::from_millis([5, 10, 10, 15, 40][rng.random_range(0..5)]),
        batch,
        quantum: rng.random_range(1..=batch),
        time_per_pdu: Service::from_nanos(1),
    })
    .expect("valid")
    .with_overrun(overrun)
}

/// The policy and the model, given the same requests.
struct Both {
    rng: ChaCha8Rng,
    fast: Rmdp,
    slow: Model,
    now: Instant,
    tasks: u32,
    seen: [u32; 3],
}

impl Both {
    fn create(&mut self) {
        let task = self.tasks;
        let upcall = draw(&mut self.rng);
        let ahead = Duration::from_millis(self.rng.random_range(0..9));
        let behind = Duration::from_millis(self.rng.random_range(0..100));
        let past = Instant::from_nanos(self.now.as_nanos().saturating_sub(behind.as_nanos()));
        let requested = if self.rng.random() { self.now + ahead } else { past };
        // The first release is as requested, unless its deadline has passed.
        let mut first = requested;
        if requested + upcall.period() <= self.now {
            while first < self.now {
                first += upcall.period();
            }
        }
        let room = self.slow.upcalls.len() < 6;
        assert_eq!(self.fast.create(task, &upcall, requested, self.now).is_ok(), room);
        if room {
            self.slow.orders += 1;
            let order = self.slow.orders;
            self.slow.upcalls.push(Naive {
                task,
                upcall,
                order,
                grid: first,
                index: 0,
                suspended: false,
                demoted: false,
                jobs: Vec::new(),
            });
            self.slow.sort();
            self.tasks += 1;
        }
    }

    /// Creates, closes, suspends, resumes or changes an upcall between turns.
    fn order(&mut self) {
        let what = self.rng.random_range(0..5);
        if what == 0 || self.slow.upcalls.is_empty() {
            return self.create();
        }
        let now = self.now;
        self.slow.release(now);
        let at = self.rng.random_range(0..self.slow.upcalls.len());
        let task = self.slow.upcalls[at].task;
        let one = &mut self.slow.upcalls[at];
        let jobs = one.jobs.len() as u64;
        match what {
            1 => {
                let left = self.fast.close(task, now).expect("there");
                assert_eq!(left.map_or(0, |left| left.jobs), jobs);
                self.slow.upcalls.remove(at);
            }
            2 => {
                let left = self.fast.suspend(task, now).expect("there");
                assert_eq!(left.map_or(0, |left| left.jobs), jobs);
                one.jobs.clear();
                (one.suspended, one.demoted) = (true, false);
            }
            3 => {
                if one.suspended {
                    while one.grid < now {
                        one.grid += one.upcall.period();
                    }
                    one.suspended = false;
                    assert_eq!(self.fast.resume(task, now), Ok(one.grid));
                }
            }
            _ => self.change(at, task),
        }
    }

    fn change(&mut self, at: usize, task: u32) {
        let upcall = draw(&mut self.rng);
        let dropped = self.fast.change(task, &upcall, self.now).expect("there");
        let one = &mut self.slow.upcalls[at];
        let mut forgiven: Option<(u64, Instant, u64)> = None;
        if upcall.period() != one.upcall.period() {
            if one.jobs.len() > 1 {
                let keep = if one.jobs[0].done > 0 { 0 } else { one.jobs.len() - 1 };
                let number = one.jobs.len() as u64 - 1;
                let kept = one.jobs.remove(keep);
                forgiven = Some((one.jobs[0].index, one.jobs[0].release, number));
                one.jobs = alloc::vec![kept];
                if keep > 0 {
                    one.jobs[0].reported = false;
                }
                one.demoted = false;
                one.jobs[0].reported = false;
                // Deadlines that the kept job has missed are measured against the new phase.
                one.jobs[0].deadline = one.grid;
            }
            self.slow.orders += 1;
            one.order = self.slow.orders;
        }
        let dropped = dropped.map(|left| (left.oldest.index, left.release, left.jobs));
        assert_eq!(dropped, forgiven);
        if let Some(job) = one.jobs.first_mut() {
            job.done = job.done.min(upcall.batch().get() - 1);
        }
        one.demoted &= one.upcall.overrun() == upcall.overrun();
        one.upcall = upcall;
        self.slow.sort();
    }

    fn step(&mut self) {
        let said = match self.fast.next(self.now) {
            Next::Run(mut turn) => {
                let Turn { job, release, pdus, resumed, demoted, .. } = turn;
                assert_eq!(
                    self.slow.next(self.now),
                    Outcome::Run { job, release, pdus, resumed, demoted }
                );
                self.seen[0] += 1;
                return self.run(&mut turn);
            }
            Next::Missed(Missed { oldest, release, jobs, fate, .. }) => {
                self.seen[1] += 1;
                Outcome::Missed { oldest, release, jobs, fate }
            }
            Next::Idle { until, .. } => {
                self.seen[2] += 1;
                Outcome::Idle { until }
            }
        };
        assert_eq!(said, self.slow.next(self.now));
        if let Outcome::Idle { until } = said
            && until < Instant::MAX
        {
            self.now = until + Duration::from_micros(self.rng.random_range(0..3) * 700);
        } else if matches!(said, Outcome::Idle { .. }) {
            self.order();
        }
    }

    fn run(&mut self, turn: &mut Turn) {
        let task = turn.job.task;
        loop {
            self.now += Duration::from_micros([0, 500, 2_000, 9_000][self.rng.random_range(0..4)]);
            let pdus = if self.rng.random_range(0..9) == 0 { 0 } else { turn.pdus };
            let done = self.slow.of(task).jobs[0].done;
            let batch = self.slow.of(task).upcall.batch().get();
            match turn.iterated(self.now, pdus) {
                YieldPoint::Complete => {
                    assert!(pdus == 0 || done + pdus >= batch);
                    let late = self.fast.complete(turn, self.now).is_some();
                    assert_eq!(late, self.slow.complete(task, self.now));
                    return;
                }
                YieldPoint::Continue => {
                    let (then, late) = self.slow.look(task, pdus, self.now);
                    assert_eq!((then, late), (Then::Continue, false), "the short way is right");
                    if self.rng.random_range(0..20) == 0 {
                        self.fast.give_way(turn);
                        return;
                    }
                }
                YieldPoint::Look => {
                    let look = self.fast.look(turn, self.now);
                    let reported = look.missed.is_some();
                    assert_eq!((look.then, reported), self.slow.look(task, pdus, self.now));
                    if look.then != Then::Continue {
                        return;
                    }
                }
            }
        }
    }
}

#[test]
fn random_orders_have_the_outcome_of_the_slow_model() {
    let mut seen = [0; 3];
    for seed in 0..400 {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let (fast, slow) = (Rmdp::with_capacity(6), Model::default());
        let mut both = Both { rng, fast, slow, now: ms(1), tasks: 0, seen: [0; 3] };
        for _ in 0..400 {
            if both.rng.random_range(0..12) == 0 {
                both.order();
            }
            if both.rng.random_range(0..40) == 0 {
                // The driver is absent for a long time.
                both.now += Duration::from_millis(both.rng.random_range(0..400));
            }
            both.step();
        }
        (0..3).for_each(|at| seen[at] += both.seen[at]);
    }
    assert!(seen.iter().all(|count| *count > 5_000), "{seen:?}");
}
