//! A search for arrivals under which a job is late.

use punctual_model::{Duration, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Adversarial, Aligned, Attack};
use punctual_sim::tasks::{Eager, Setting, run_in};
use punctual_trace::Summary;

/// Releases everybody at once, just after the longest quantum of nobody and of each task began; by
/// earliest deadline also with a deadline of each task aligned with the first of each other. The
/// blocker's yield points are as far apart as allowed, those of all others everywhere.
pub(super) fn finds_a_miss(policy: Policy, tasks: &[Task]) -> bool {
    let count = tasks.len() as u32;
    let blockers = || {
        let with_quantum = move |task: &u32| !tasks[*task as usize].quantum().is_zero();
        std::iter::once(None).chain((0..count).filter(with_quantum).map(Some))
    };
    let at_once = blockers().map(|blocker| Attack { blocker, ..Attack::default() });
    let pairs = (0..count).flat_map(|task| (0..count).map(move |with| (task, with)));
    let aligned = pairs.filter(|(task, with)| task != with).flat_map(|(task, with)| {
        blockers().filter(move |blocker| *blocker != Some(task)).map(move |blocker| {
            let aligned = Some(Aligned { task, with, job: 0 });
            Attack { blocker, aligned, ..Attack::default() }
        })
    });
    let aligned = aligned.filter(|_| policy == Policy::Edf);
    at_once.chain(aligned).any(|attack| misses(policy, tasks, attack))
}

fn misses(policy: Policy, tasks: &[Task], attack: Attack) -> bool {
    let eager: Vec<bool> = (0..tasks.len() as u32).map(|at| attack.blocker != Some(at)).collect();
    let mut arrivals = Adversarial::new(tasks, attack);
    let longest = tasks.iter().map(Task::min_inter_arrival).max().unwrap_or(Duration::ZERO);
    let until = arrivals.critical_instant() + longest * 4;
    let mut summary = Summary::new(tasks);
    let jobs = Jobs::of(policy, tasks, 0);
    let setting = Setting::default().yielding(Eager(&eager));
    // A whole processor leaves nothing unfinished.
    let _ = run_in(setting, tasks, jobs, &mut arrivals, until, &mut summary);
    summary.late() > 0
}
