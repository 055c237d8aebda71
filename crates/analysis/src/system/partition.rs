//! Partitioning: tasks that are assigned to CPUs together.
//!
//! Tasks go largest share first, by one [`Fit`] after the other. If none of them places all and the
//! system is small, every partition is tried. A CPU that fails its test with some tasks fails with
//! more of them, because the tests bound the worst case and more tasks only add to it; so cutting
//! the search there loses no partition. On one CPU there is nothing to choose.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cpu::Cpu;
use super::{Entry, Executed, System};
use crate::load::TaskLoad;
use crate::ratio::{self, Utilisation};
use crate::steps::Steps;

/// The most tasks for which every partition is tried.
const MOST_TASKS: usize = 20;

/// The rule that picks one of the CPUs with room for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The first.
    First,
    /// The one with the least room left: keeps room for large tasks.
    Best,
    /// The one with the most room left: spreads the tasks.
    Worst,
}

impl Fit {
    const FAMILY: [Self; 3] = [Self::First, Self::Best, Self::Worst];
}

/// The method by which tasks were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// There is one CPU.
    OneCpu,
    /// All placed by this rule, largest share first.
    By(Fit),
    /// All placed by the exhaustive search; no fit placed them all.
    Exhaustively,
    /// Not all are placed, and there is no partition that passes the deciding test.
    NoneExists,
    /// Not all are placed, and not every partition was tried.
    NotFound,
}

/// The CPUs of tasks, by position.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) how: How,
    /// The CPUs by position; `None` if a task fits on none. On a single CPU it is that one for all
    /// tasks, whether they fit or not.
    pub(crate) cpus: Vec<Option<u16>>,
    /// Whether all tasks are admitted; otherwise none is.
    pub(crate) admitted: bool,
}

impl<Id: Copy + Ord> System<Id> {
    /// Admits all of `tasks`, which are in the order of their policy, or none of them. There must
    /// be no tasks yet.
    pub(crate) fn spread(&mut self, tasks: &[(Id, TaskLoad)], steps: &mut Steps) -> Spread {
        let spread = match &mut self.cpus[..] {
            [cpu] => {
                let admitted = cpu.fill(tasks, steps);
                Spread { how: How::OneCpu, cpus: vec![Some(0); tasks.len()], admitted }
            }
            _ => self.partition(tasks, steps),
        };
        if spread.admitted {
            let entries = tasks.iter().zip(&spread.cpus).map(|(&(id, load), cpu)| {
                let cpu = cpu.map_or(0, usize::from);
                let executed = Executed::Executor { cpu, tasks: Box::new([load]), own: None };
                (id, Entry { share_ppm: 0, executed })
            });
            // All at once: one after the other would leave every node of the map half full.
            self.entries.append(&mut entries.collect());
        }
        spread
    }

    fn partition(&mut self, tasks: &[(Id, TaskLoad)], steps: &mut Steps) -> Spread {
        let empty = Shelves::new(&self.cpus, tasks);
        let mut first = None;
        for fit in Fit::FAMILY {
            let mut shelves = empty.clone();
            let mut part = steps.half();
            let all = shelves.fill(fit, &mut part);
            steps.put_back(part);
            if all {
                return self.adopt(How::By(fit), shelves);
            }
            first.get_or_insert(shelves);
        }
        let mut part = steps.half();
        let found = empty.search(&mut part);
        steps.put_back(part);
        let how = match found {
            Ok(Some(full)) => return self.adopt(How::Exhaustively, full),
            Ok(None) => How::NoneExists,
            Err(NotSearched) => How::NotFound,
        };
        let cpus = first.map_or(Vec::new(), |shelves| shelves.cpus);
        Spread { how, cpus, admitted: false }
    }

    fn adopt(&mut self, how: How, shelves: Shelves<'_, Id>) -> Spread {
        self.cpus = shelves.shelves.into_iter().map(|bin| bin.cpu).collect();
        Spread { how, cpus: shelves.cpus, admitted: true }
    }
}

/// The error of an incomplete search: too many tasks, or out of steps.
struct NotSearched;

/// The CPUs as bins while they are being filled.
#[derive(Clone)]
struct Shelves<'a, Id> {
    tasks: &'a [(Id, TaskLoad)],
    /// The positions of the tasks, the largest share first.
    largest_first: Vec<usize>,
    shelves: Vec<Bin<Id>>,
    /// The CPU of each task.
    cpus: Vec<Option<u16>>,
}

/// One CPU as a bin.
#[derive(Clone)]
struct Bin<Id> {
    used: Utilisation,
    tasks: usize,
    cpu: Cpu<Id>,
}

impl<'a, Id: Copy + Ord> Shelves<'a, Id> {
    fn new(cpus: &[Cpu<Id>], tasks: &'a [(Id, TaskLoad)]) -> Self {
        let empty = |cpu: &Cpu<Id>| Bin { used: cpu.reserved(), tasks: 0, cpu: cpu.clone() };
        let share = |at: usize| ratio::share(tasks[at].1.work, tasks[at].1.period);
        let mut largest_first: Vec<usize> = (0..tasks.len()).collect();
        largest_first.sort_by_key(|&at| (Reverse(share(at)), tasks[at].0));
        let shelves = cpus.iter().map(empty).collect();
        Self { tasks, largest_first, shelves, cpus: vec![None; tasks.len()] }
    }

    /// Places each task by `fit`, and returns whether all found room.
    fn fill(&mut self, fit: Fit, steps: &mut Steps) -> bool {
        let mut all = true;
        let mut order: Vec<usize> = (0..self.shelves.len()).collect();
        for position in 0..self.largest_first.len() {
            let at = self.largest_first[position];
            // Stable: among equally full CPUs the first.
            match fit {
                Fit::First => {}
                Fit::Best => order.sort_by_key(|&cpu| Reverse(self.shelves[cpu].used.below())),
                Fit::Worst => order.sort_by_key(|&cpu| self.shelves[cpu].used.below()),
            }
            all &= order.iter().any(|&cpu| self.put(at, cpu, steps));
        }
        all
    }

    /// Puts the task `at` on `cpu` if all tasks there remain in time.
    fn put(&mut self, at: usize, cpu: usize, steps: &mut Steps) -> bool {
        let (bin, (id, task)) = (&mut self.shelves[cpu], &self.tasks[at]);
        let mut used = bin.used;
        used.add(task.work, task.period);
        let one = core::slice::from_ref(task);
        if used.exceeds_one() || bin.cpu.admit(*id, one, 0, steps).is_err() {
            return false;
        }
        (bin.used, bin.tasks) = (used, bin.tasks + 1);
        self.cpus[at] = Some(cpu as u16);
        true
    }

    /// Removes the task `at` from `cpu`, and restores the utilisation `used` before it came.
    fn take_back(&mut self, at: usize, cpu: usize, used: Utilisation) {
        let (bin, (id, task)) = (&mut self.shelves[cpu], &self.tasks[at]);
        bin.cpu.remove(*id, core::slice::from_ref(task), 0);
        (bin.used, bin.tasks) = (used, bin.tasks - 1);
        self.cpus[at] = None;
    }

    /// Returns the first partition found, the largest tasks first, or `None` if there is none.
    fn search(mut self, steps: &mut Steps) -> Result<Option<Self>, NotSearched> {
        if self.largest_first.len() > MOST_TASKS {
            return Err(NotSearched);
        }
        Ok(self.below(0, steps)?.then_some(self))
    }

    /// Returns whether the tasks from `depth` on fit beside those already placed.
    fn below(&mut self, depth: usize, steps: &mut Steps) -> Result<bool, NotSearched> {
        let Some(&at) = self.largest_first.get(depth) else { return Ok(true) };
        for cpu in 0..self.shelves.len() {
            if self.repeats_an_earlier(cpu) {
                continue;
            }
            let used = self.shelves[cpu].used;
            if self.put(at, cpu, steps) {
                if self.below(depth + 1, steps)? {
                    return Ok(true);
                }
                self.take_back(at, cpu, used);
            }
            // A refusal because of the steps is not a decision.
            steps.take(1).map_err(|_| NotSearched)?;
        }
        Ok(false)
    }

    /// Returns whether `cpu` holds no task and an earlier one like it is empty too: then the
    /// earlier one was tried, with the same result.
    fn repeats_an_earlier(&self, cpu: usize) -> bool {
        let (before, here) = self.shelves.split_at(cpu);
        let alike = |other: &Bin<Id>| other.tasks == 0 && other.cpu.above() == here[0].cpu.above();
        here[0].tasks == 0 && before.iter().any(alike)
    }
}
