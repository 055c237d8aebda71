use super::*;
use alloc::vec::Vec;
use punctual_model::{Duration, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn task(period: u64, wcet: u64, jitter: u64, quantum: u64, last: u64) -> Task {
    Task::new(TaskSpec {
        relative_deadline: Duration::from_nanos(3 * period),
        release_jitter: Duration::from_nanos(jitter),
        quantum: Service::from_nanos(quantum),
        last_segment: Service::from_nanos(last),
        ..TaskSpec::periodic("t", Duration::from_nanos(period), Service::from_nanos(wcet))
    })
    .expect("valid")
}

fn draw(rng: &mut ChaCha8Rng) -> Vec<Task> {
    (0..rng.random_range(1..5))
        .map(|_| {
            let period = rng.random_range(1..50);
            let wcet = rng.random_range(1..=period);
            let quantum = rng.random_range(0..=wcet);
            let last = rng.random_range(0..=quantum);
            task(period, wcet, rng.random_range(0..3 * period), quantum, last)
        })
        .collect()
}

/// Checks that the first jobs of each task keep its contract.
fn keeps_the_contract(tasks: &[Task], arrivals: &mut dyn Arrivals) {
    for (task, contract) in (0..).zip(tasks) {
        let mut before: Option<Arrival> = None;
        for _ in 0..60 {
            let job = arrivals.next(task);
            assert!(job.release <= job.known);
            assert!(job.known - job.release <= contract.release_jitter());
            assert!(!job.exec_time.is_zero() && job.exec_time <= contract.wcet());
            assert!(job.exec_time >= contract.last_segment());
            if let Some(before) = before {
                assert!(job.release - before.release >= contract.min_inter_arrival());
                assert!(job.known >= before.known);
            }
            before = Some(job);
        }
    }
}

#[test]
fn every_pattern_keeps_the_contract() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tasks = draw(&mut rng);
        let fresh = || ChaCha8Rng::seed_from_u64(seed);
        let phases: Vec<_> = tasks.iter().map(|_| Duration::from_nanos(seed % 9)).collect();
        keeps_the_contract(&tasks, &mut Periodic::new(&tasks, &phases));
        keeps_the_contract(&tasks, &mut Drawn::new(&tasks, fresh()));
        keeps_the_contract(&tasks, &mut Bursty::new(&tasks, fresh()));
        let bursty = Bursty::new(&tasks, fresh());
        keeps_the_contract(&tasks, &mut DrawnTimes::new(&tasks, bursty, fresh()));
        let count = tasks.len() as u32;
        let blocker = Some(rng.random_range(0..count));
        let with = rng.random_range(0..count);
        let aligned = Some(Aligned { task: rng.random_range(0..count), with, job: seed % 4 });
        for aligned in [None, aligned] {
            let attack = Attack { blocker, lead: Duration::from_nanos(seed % 5), aligned };
            keeps_the_contract(&tasks, &mut Adversarial::new(&tasks, attack));
        }
    }
}

#[test]
fn a_burst_piles_up_what_the_jitter_allows() {
    // With jitter of two and a half periods, three releases become known at once.
    let tasks = [task(10, 1, 25, 0, 0)];
    let mut bursty = Bursty::new(&tasks, ChaCha8Rng::seed_from_u64(1));
    let jobs: Vec<Arrival> = (0..40).map(|_| bursty.next(0)).collect();
    assert_eq!(jobs[0].known, jobs[0].release + Duration::from_nanos(25));
    assert!(jobs[..3].iter().all(|job| job.known == jobs[0].known));
    let piles = jobs.windows(3).filter(|three| three[0].known == three[2].known).count();
    assert!(piles > 2, "{piles}");
}

#[test]
fn an_attack_begins_a_nanosecond_before_all_others() {
    let tasks = [task(10, 2, 25, 0, 0), task(50, 9, 7, 6, 2), task(40, 4, 0, 0, 0)];
    let lead = Duration::from_nanos(3);
    let attack = Attack { blocker: Some(1), lead, aligned: None };
    let mut pattern = Adversarial::new(&tasks, attack);
    let critical = pattern.critical_instant();
    let first = pattern.next(0);
    assert_eq!((first.known, first.release), (critical, critical - Duration::from_nanos(25)));
    assert_eq!([pattern.next(0), pattern.next(0)].map(|job| job.known), [critical; 2]);
    assert_eq!(pattern.next(2).known, critical);
    let blocker = pattern.next(1);
    assert_eq!(
        (blocker.known, blocker.release),
        (critical - Duration::from_nanos(4), blocker.known)
    );
    assert_eq!(blocker.exec_time, Service::from_nanos(6), "one quantum");
    assert_eq!(pattern.next(1).exec_time, Service::from_nanos(9));
}

#[test]
fn an_aligned_job_is_due_with_another() {
    let tasks = [task(10, 2, 0, 0, 0), task(7, 1, 3, 0, 0)];
    for job in 0..5 {
        let aligned = Some(Aligned { task: 1, with: 0, job });
        let mut pattern = Adversarial::new(&tasks, Attack { aligned, ..Attack::default() });
        let due: Vec<Instant> =
            (0..20).map(|_| pattern.next(1).release + Duration::from_nanos(21)).collect();
        let other = (0..=job).map(|_| pattern.next(0).release + Duration::from_nanos(30)).last();
        assert!(due.contains(&other.expect("a job")), "{job}");
    }
}
