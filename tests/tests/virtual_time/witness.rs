//! A refusal by an exact test comes with a schedule that misses, and an admitted system has none:
//! the analysis and the simulator share no line, so each checks the other.

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::{ResponseTime, last_segment};
use punctual_analysis::{CpuLoad, Granularity, Steps};
use punctual_model::{Duration, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::witness::{Budget, Witness, search};
use punctual_trace::{Event, Kind};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The preemption of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preemption {
    Anywhere,
    Floating,
    LastSegment,
    Never,
}

/// The answer of the exact test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Admitted,
    /// A job is late by this many nanoseconds.
    Late(u64),
    /// The demand exceeds the processor.
    Overload,
    Undecided,
}

fn draw(seed: u64) -> (Vec<Task>, Preemption, bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tasks = crate::draw::tasks(&mut rng, (0.2, 1.1), 100.0);
    let preemption =
        [Preemption::Anywhere, Preemption::Floating, Preemption::LastSegment, Preemption::Never]
            [rng.random_range(0..4)];
    let by_deadline = rng.random_bool(0.5);
    let tasks = tasks.iter().map(|task| {
        let spec = task.spec().clone();
        let wcet = spec.wcet.as_nanos() / 1000;
        let quantum = rng.random_range(0..=wcet);
        let (quantum, last) = match preemption {
            Preemption::Anywhere => (0, 0),
            Preemption::Floating => (quantum, 0),
            Preemption::LastSegment => (quantum, rng.random_range(0..=quantum)),
            Preemption::Never => (wcet, wcet),
        };
        let (quantum, last_segment) = (Service::from_micros(quantum), Service::from_micros(last));
        Task::new(TaskSpec { quantum, last_segment, ..spec }).expect("within the rules")
    });
    (tasks.collect(), preemption, by_deadline)
}

fn judge(tasks: &[Task], by_deadline: bool) -> Answer {
    let load = CpuLoad::new(tasks, [], Service::ZERO);
    let mut steps = Steps::new(3_000_000);
    if by_deadline {
        return match processor_demand(&load, &mut steps) {
            DemandVerdict::Fits => Answer::Admitted,
            DemandVerdict::Exceeds { by, .. } => Answer::Late(by.as_nanos()),
            DemandVerdict::Overload => Answer::Overload,
            DemandVerdict::Undecided => Answer::Undecided,
        };
    }
    let last: Vec<Service> = tasks.iter().map(Task::last_segment).collect();
    let times = last_segment::response_times(&load, &last, Granularity::Continuous, &mut steps);
    let mut answer = Answer::Admitted;
    for (time, task) in times.into_iter().zip(tasks) {
        let deadline = task.relative_deadline();
        match time {
            ResponseTime::AtMost(bound) if bound <= deadline => {}
            ResponseTime::AtMost(bound) => return Answer::Late((bound - deadline).as_nanos()),
            ResponseTime::Undecided { at_least } if at_least > deadline => {
                return Answer::Late((at_least - deadline).as_nanos());
            }
            ResponseTime::Undecided { .. } => answer = Answer::Undecided,
            ResponseTime::Unbounded => return Answer::Overload,
        }
    }
    answer
}

fn policy(tasks: &[Task], by_deadline: bool) -> Jobs {
    let order: Vec<u32> = (0..tasks.len() as u32).collect();
    if by_deadline { Jobs::earliest_deadline(tasks.len()) } else { Jobs::fixed_priority(&order) }
}

/// Checks that the witness keeps the contract, and that its replay misses as stated.
fn check(witness: &Witness, tasks: &[Task], by_deadline: bool, seed: u64) {
    for (task, jobs) in tasks.iter().zip(&witness.arrivals) {
        for job in jobs {
            assert!(job.release <= job.known, "seed {seed}");
            assert!(job.known - job.release <= task.release_jitter(), "seed {seed}");
            assert!(job.exec_time <= task.wcet(), "seed {seed}");
            assert!(job.exec_time >= task.last_segment(), "seed {seed}");
        }
        for pair in jobs.windows(2) {
            assert!(pair[1].release - pair[0].release >= task.min_inter_arrival(), "seed {seed}");
            assert!(pair[1].known >= pair[0].known, "seed {seed}");
        }
    }
    let mut events: Vec<Event> = Vec::new();
    witness.replay(tasks, policy(tasks, by_deadline), &mut events);
    let completed = events
        .iter()
        .find(|event| event.kind == Kind::Complete && event.job == witness.missed)
        .expect("the job is in the run");
    let task = &tasks[witness.missed.task as usize];
    assert_eq!(completed.at, witness.completion, "seed {seed}");
    let deadline = completed.release + task.relative_deadline();
    assert_eq!(deadline, witness.absolute_deadline, "seed {seed}");
    assert!(completed.at > deadline, "seed {seed}");
}

/// The results for the systems of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    admitted: u64,
    late: u64,
    late_witnessed: u64,
    overload: u64,
    overload_witnessed: u64,
    undecided: u64,
}

fn examine(seed: u64, tallies: &mut [Tally; 8]) {
    let (tasks, preemption, by_deadline) = draw(seed);
    let tally = &mut tallies[preemption as usize * 2 + usize::from(by_deadline)];
    let answer = judge(&tasks, by_deadline);
    let budget = match answer {
        // An unsuccessful search takes the whole budget.
        Answer::Admitted => Budget { jobs: 20_000 },
        _ => Budget::default(),
    };
    let witness = search(&tasks, &policy(&tasks, by_deadline), budget);
    if let Some(witness) = &witness {
        check(witness, &tasks, by_deadline, seed);
    }
    let found = u64::from(witness.is_some());
    match answer {
        Answer::Admitted => {
            assert_eq!(found, 0, "seed {seed}: admitted, and yet {witness:?} of {tasks:#?}");
            tally.admitted += 1;
        }
        Answer::Late(by) => {
            if found == 0 {
                println!("no witness: seed {seed} {preemption:?} edf={by_deadline} by {by}");
            }
            tally.late += 1;
            tally.late_witnessed += found;
        }
        Answer::Overload => {
            if found == 0 {
                let share: f64 = tasks.iter().map(Task::utilisation).sum();
                println!("no witness: seed {seed} {preemption:?} edf={by_deadline} U {share}");
            }
            tally.overload += 1;
            tally.overload_witnessed += found;
        }
        Answer::Undecided => tally.undecided += 1,
    }
}

#[test]
fn every_refusal_has_a_witness_and_no_admission_has_one() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let tallies = std::thread::scope(|scope| {
        let share = |first| {
            scope.spawn(move || {
                let mut tallies = [Tally::default(); 8];
                for seed in (first..SEEDS).step_by(threads as usize) {
                    examine(seed, &mut tallies);
                }
                tallies
            })
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        shares.into_iter().map(|share| share.join().expect("no contradiction")).collect::<Vec<_>>()
    });
    let (mut refused, mut witnessed) = (0, 0);
    for kind in 0..8 {
        let of_kind = || tallies.iter().map(move |tallies| tallies[kind]);
        let sum = |of: fn(Tally) -> u64| of_kind().map(of).sum::<u64>();
        let (late, overload) = (sum(|t| t.late), sum(|t| t.overload));
        println!(
            "kind {kind}: {} admitted, {late} late, {overload} overloads, {} undecided",
            sum(|t| t.admitted),
            sum(|t| t.undecided)
        );
        assert!(late > 50 && sum(|t| t.admitted) > 100, "kind {kind}");
        refused += late + overload;
        witnessed += sum(|t| t.late_witnessed) + sum(|t| t.overload_witnessed);
    }
    println!("{witnessed} of {refused} refusals have a witness");
    assert!(refused >= 5_000 && witnessed == refused, "{witnessed} of {refused}");
}

const SEEDS: u64 = 7_500;

/// A bound in continuous time is a supremum. The blocker of 6 begins a nanosecond early, so it
/// delays by 5; the bound is 11.
#[test]
fn late_by_less_than_the_blockers_nanosecond_has_no_witness() {
    let system = |deadline| {
        let spec = |deadline, wcet, quantum| TaskSpec {
            relative_deadline: Duration::from_nanos(deadline),
            quantum: Service::from_nanos(quantum),
            ..TaskSpec::periodic("t", Duration::from_nanos(100), Service::from_nanos(wcet))
        };
        [spec(deadline, 5, 0), spec(100, 10, 6)].map(|spec| Task::new(spec).expect("valid"))
    };
    for by_deadline in [false, true] {
        for (deadline, late) in [(11, 0), (10, 1), (9, 2)] {
            let tasks = system(deadline);
            let answer = if late == 0 { Answer::Admitted } else { Answer::Late(late) };
            assert_eq!(judge(&tasks, by_deadline), answer);
            let found = search(&tasks, &policy(&tasks, by_deadline), Budget::default());
            assert_eq!(found.is_some(), late > 1, "{deadline} {by_deadline}");
        }
    }
}
