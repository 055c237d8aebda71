//! Tasks that find their CPUs together.
//!
//! Largest share first, by [`Fit`]s one after the other; where none of them places all and the system is small, every
//! partition is tried. A CPU that fails its test with some tasks fails with more of them, so no partition below a cut is
//! lost: the tests bound the worst case, and more tasks only add to it. On one CPU there is nothing to choose.

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

/// Which of the CPUs with room for a task takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The first.
    First,
    /// The one with the least left: keeps room for what is large.
    Best,
    /// The one with the most left: spreads.
    Worst,
}

impl Fit {
    const FAMILY: [Self; 3] = [Self::First, Self::Best, Self::Worst];
}

/// How tasks found their CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// There is one CPU.
    OneCpu,
    /// All placed by this rule, largest share first.
    By(Fit),
    /// All placed; no rule of the family did it.
    Exhaustively,
    /// Not all are placed, and no partition exists that passes the deciding test.
    NoneExists,
    /// Not all are placed, and not every partition was tried.
    NotFound,
}

/// Where tasks are, by position.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) how: How,
    /// Positions of CPUs; `None` where a task fits on none. On the one CPU that there is all are, whether they fit or
    /// not.
    pub(crate) cpus: Vec<Option<u16>>,
    /// Whether all are admitted; else none is.
    pub(crate) admitted: bool,
}

impl<Id: Copy + Ord> System<Id> {
    /// Admits all of `tasks`, which are in the order of their policy, or none of them. There must be none yet.
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
                let executed = Executed::Executor { cpu, tasks: Box::new([load]) };
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

/// Too many tasks, or out of steps.
struct NotSearched;

/// CPUs while they are being filled.
#[derive(Clone)]
struct Shelves<'a, Id> {
    tasks: &'a [(Id, TaskLoad)],
    /// The positions of the tasks, the largest share first.
    largest_first: Vec<usize>,
    shelves: Vec<Bin<Id>>,
    /// Where each task is.
    cpus: Vec<Option<u16>>,
}

/// One of them.
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

    /// Places each task by `fit`; says whether all found room.
    fn fill(&mut self, fit: Fit, steps: &mut Steps) -> bool {
        let mut all = true;
        let mut order: Vec<usize> = (0..self.shelves.len()).collect();
        for position in 0..self.largest_first.len() {
            let at = self.largest_first[position];
            // Stable: of equally full ones the first.
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

    /// Takes the task `at` from `cpu`, where it is, and gives back what was used before it came.
    fn take_back(&mut self, at: usize, cpu: usize, used: Utilisation) {
        let (bin, (id, task)) = (&mut self.shelves[cpu], &self.tasks[at]);
        bin.cpu.remove(*id, core::slice::from_ref(task), 0);
        (bin.used, bin.tasks) = (used, bin.tasks - 1);
        self.cpus[at] = None;
    }

    /// Finds the first partition, the largest tasks first; `None`: there is none.
    fn search(mut self, steps: &mut Steps) -> Result<Option<Self>, NotSearched> {
        if self.largest_first.len() > MOST_TASKS {
            return Err(NotSearched);
        }
        Ok(self.below(0, steps)?.then_some(self))
    }

    /// Says whether the tasks from `depth` on fit beside those already placed.
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
            // A refusal for want of steps says nothing.
            steps.take(1).map_err(|_| NotSearched)?;
        }
        Ok(false)
    }

    /// Says whether `cpu` holds no task and an earlier one like it holds none either: then what fits here fits there,
    /// and there it was tried.
    fn repeats_an_earlier(&self, cpu: usize) -> bool {
        let (before, here) = self.shelves.split_at(cpu);
        let alike = |other: &Bin<Id>| other.tasks == 0 && other.cpu.above() == here[0].cpu.above();
        here[0].tasks == 0 && before.iter().any(alike)
    }
}
