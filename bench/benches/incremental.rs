//! Measures admission one task at a time, against the full test of all tasks at each request.
//!
//! A request removes a random task and asks for another with the same share of the CPU and a period
//! of its own, so at a random priority. If that is denied, the old task comes back.

use std::hint::black_box;

use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::all_in_time;
use punctual_analysis::incremental::{Admission, TaskId};
use punctual_analysis::{CpuLoad, Steps};
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_bench::systems::{self, Deadlines};
use punctual_model::{Policy, Service, Task};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TASKS: u32 = 1_000;
const PAIRS: usize = 11;
const CHECKED: u32 = 300;

fn main() {
    let at_the_period = Deadlines::OfPeriod(1.0);
    for utilisation in [0.7, 0.8, 0.9] {
        against_all_anew("fixed priority (rm)", Policy::Rm, utilisation, at_the_period);
    }
    against_all_anew("edf, D = 0.8 T", Policy::Edf, 0.7, Deadlines::OfPeriod(0.8));
    against_all_anew("edf, D in 0.5–1 T", Policy::Edf, 0.8, Deadlines::Between(0.5, 1.0));
    against_all_anew("edf, D in 0.5–1 T", Policy::Edf, 0.9, Deadlines::Between(0.5, 1.0));
}

fn against_all_anew(what: &str, policy: Policy, utilisation: f64, deadlines: Deadlines) {
    let requests = || Requests { rng: ChaCha8Rng::seed_from_u64(1), deadlines };
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(TASKS));
    let tasks = systems::draw_with(&mut rng, TASKS, utilisation, 1e6, deadlines);
    let mut one_by_one = OneByOne::new(policy, requests(), &tasks);
    let mut all_anew = AllAnew::new(policy, requests(), tasks);
    let denied = (0..CHECKED)
        .filter(|_| {
            let admitted = one_by_one.request();
            assert_eq!(admitted, all_anew.request());
            !admitted
        })
        .count();
    compare(
        &format!(
            "a request among {TASKS} tasks, {what}, utilisation {utilisation}, {denied} of \
             {CHECKED} denied, incremental (A) / full test (B)"
        ),
        PAIRS,
        || nanos_per_op(300, || (0..300).for_each(|_| _ = black_box(one_by_one.request()))),
        || nanos_per_op(20, || (0..20).for_each(|_| _ = black_box(all_anew.request()))),
    );
}

/// The same requests for both, as long as their answers are the same.
struct Requests {
    rng: ChaCha8Rng,
    deadlines: Deadlines,
}

impl Requests {
    /// Returns the position of the task to remove, and the task to request.
    fn next(&mut self, tasks: &[Task]) -> (usize, Task) {
        let at = self.rng.random_range(0..tasks.len());
        let share = tasks[at].utilisation();
        let task = systems::draw_with(&mut self.rng, 1, share, 1e6, self.deadlines).remove(0);
        (at, task)
    }
}

struct OneByOne {
    requests: Requests,
    cpu: Admission,
    tasks: Vec<Task>,
    ids: Vec<TaskId>,
}

impl OneByOne {
    fn new(policy: Policy, requests: Requests, tasks: &[Task]) -> Self {
        let mut cpu = Admission::new(policy, [], Service::ZERO);
        let admit = |task| cpu.admit(task, &mut Steps::default()).expect("the drawn set fits");
        let ids = tasks.iter().map(admit).collect();
        Self { requests, cpu, tasks: tasks.to_vec(), ids }
    }

    fn request(&mut self) -> bool {
        let (at, task) = self.requests.next(&self.tasks);
        self.cpu.remove(self.ids[at]);
        let admitted = self.cpu.admit(&task, &mut Steps::default());
        self.ids[at] = match admitted {
            Ok(id) => {
                self.tasks[at] = task;
                id
            }
            Err(_) => self.cpu.admit(&self.tasks[at], &mut Steps::default()).expect("as before"),
        };
        admitted.is_ok()
    }
}

struct AllAnew {
    requests: Requests,
    policy: Policy,
    tasks: Vec<Task>,
    /// The positions, the most urgent first.
    order: Vec<usize>,
}

impl AllAnew {
    fn new(policy: Policy, requests: Requests, tasks: Vec<Task>) -> Self {
        Self { requests, policy, order: (0..tasks.len()).collect(), tasks }
    }

    fn request(&mut self) -> bool {
        let (at, task) = self.requests.next(&self.tasks);
        let old = std::mem::replace(&mut self.tasks[at], task);
        // Nearly sorted already.
        self.order.sort_by_key(|&at| self.tasks[at].min_inter_arrival());
        let in_order = self.order.iter().map(|&at| &self.tasks[at]);
        let load = CpuLoad::new(in_order, [], Service::ZERO);
        let steps = &mut Steps::default();
        let fits = match self.policy {
            Policy::Edf => processor_demand(&load, steps) == DemandVerdict::Fits,
            _ => all_in_time(&load, steps),
        };
        if !fits {
            self.tasks[at] = old;
        }
        fits
    }
}
