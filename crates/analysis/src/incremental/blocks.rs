//! The tasks of one CPU by `d_i = D_i − J_i`, in blocks of neighbours: one line for a whole block
//! nearly always proves as much as one for each of its tasks.

use alloc::vec::Vec;
use core::mem;

use super::TaskId;
use super::line::{Line, ONE, scaled};
use crate::load::TaskLoad;
use crate::steps::{OutOfSteps, Steps};

/// The largest number of tasks in a block; small in the unit tests, so that small systems have many
/// blocks.
const MOST: usize = if cfg!(test) { 6 } else { 64 };

#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// The least d first; no block is empty.
    blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// In the order of their [`Entry::place`].
    entries: Vec<Entry>,
    /// The sum of their lines.
    sum: Line,
    /// The sum of one job of each, in units of 2⁻⁴⁰ ns.
    work: i128,
    /// Their largest quantum.
    quantum: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    d: u64,
    id: TaskId,
    line: Line,
    work: u64,
    quantum: u64,
}

impl Entry {
    fn place(&self) -> (u64, TaskId) {
        (self.d, self.id)
    }
}

/// Instants `[start, end)` in which the lines do not prove enough, all with the same blocking.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) blocking: u64,
    /// Whether no `d_i` is beyond `end`.
    pub(super) last: bool,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self { blocks: Vec::new() }
    }

    pub(super) fn insert(&mut self, id: TaskId, task: &TaskLoad, line: Line) {
        let d = task.deadline_after_jitter();
        let entry = Entry { d, id, line, work: task.work, quantum: task.quantum };
        let at = self.block_of(entry.place());
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block::of(Vec::from([entry])));
            return;
        };
        let position = block.entries.partition_point(|other| other.place() < entry.place());
        block.entries.insert(position, entry);
        block.count(&entry);
        if block.entries.len() > MOST {
            let behind = block.entries.split_off(MOST / 2);
            *block = Block::of(mem::take(&mut block.entries));
            self.blocks.insert(at + 1, Block::of(behind));
        }
    }

    /// Removes an inserted task, and returns its line.
    pub(super) fn remove(&mut self, id: TaskId, task: &TaskLoad) -> Line {
        let place = (task.deadline_after_jitter(), id);
        let at = self.block_of(place);
        let block = &mut self.blocks[at];
        let position = block.entries.partition_point(|other| other.place() < place);
        let entry = block.entries.remove(position);
        debug_assert_eq!(entry.place(), place);
        block.uncount(&entry);
        if block.entries.is_empty() {
            self.blocks.remove(at);
        }
        entry.line
    }

    /// Returns the last block that begins before `place`, or the first; zero if there is none.
    fn block_of(&self, place: (u64, TaskId)) -> usize {
        self.blocks.partition_point(|block| block.entries[0].place() <= place).saturating_sub(1)
    }

    /// Returns the intervals in which `h*(t) + B(t) > t` may hold, the last one first; neighbours
    /// with the same blocking are merged. `total` is the sum of all lines, with a slope below one;
    /// `wake_up` blocks everywhere.
    pub(super) fn unproven_stretches(
        &self,
        total: Line,
        wake_up: u64,
        steps: &mut Steps,
    ) -> Result<Vec<Stretch>, OutOfSteps> {
        steps.take(self.blocks.len())?;
        let mut back =
            Back { lines: total, behind: wake_up, at: None, quantum: 0, found: Vec::new() };
        for block in self.blocks.iter().rev() {
            if !back.passes(block) {
                steps.take(block.entries.len())?;
                block.entries.iter().rev().try_for_each(|entry| back.look_at(entry))?;
            }
        }
        Ok(back.found)
    }

    /// Asserts that every block matches its entries, and that together they are `tasks`.
    #[cfg(test)]
    pub(super) fn assert_kept(&self, tasks: &[TaskLoad], ids: &[TaskId]) {
        let entry = |(task, &id): (&TaskLoad, &TaskId)| Entry {
            d: task.deadline_after_jitter(),
            id,
            line: Line::of_task(task),
            work: task.work,
            quantum: task.quantum,
        };
        let mut anew: Vec<Entry> = tasks.iter().zip(ids).map(entry).collect();
        anew.sort_by_key(Entry::place);
        let kept: Vec<Entry> =
            self.blocks.iter().flat_map(|block| &block.entries).copied().collect();
        assert_eq!(kept, anew);
        for block in &self.blocks {
            assert_eq!(*block, Block::of(block.entries.clone()));
            assert!((1..=MOST).contains(&block.entries.len()));
        }
    }
}

impl Block {
    fn of(entries: Vec<Entry>) -> Self {
        let mut block = Self { entries: Vec::new(), sum: Line::ZERO, work: 0, quantum: 0 };
        entries.iter().for_each(|entry| block.count(entry));
        block.entries = entries;
        block
    }

    fn count(&mut self, entry: &Entry) {
        self.sum.add(entry.line);
        self.work += scaled(entry.work);
        self.quantum = self.quantum.max(entry.quantum);
    }

    fn uncount(&mut self, entry: &Entry) {
        self.sum.subtract(entry.line);
        self.work -= scaled(entry.work);
        if entry.quantum > 0 && entry.quantum == self.quantum {
            self.quantum = self.entries.iter().map(|entry| entry.quantum).max().unwrap_or(0);
        }
    }
}

/// The state of the pass from the last d to the first.
struct Back {
    /// The sum of the lines of all entries that were not passed yet.
    lines: Line,
    /// The largest quantum of a task with a d beyond `at`, or the wake-up.
    behind: u64,
    /// The last d that was examined.
    at: Option<u64>,
    /// The largest quantum of a task with that d.
    quantum: u64,
    found: Vec<Stretch>,
}

impl Back {
    /// Passes all of `block` if a line above all of it proves enough from its first d on.
    ///
    /// If all of its tasks start at that d, each with its first job at once, the sum is nowhere
    /// below h*, and it grows by less than t.
    fn passes(&mut self, block: &Block) -> bool {
        let first = block.entries[0].d;
        let blocking = self.behind.max(self.quantum).max(block.quantum);
        let mut before = self.lines;
        before.subtract(block.sum);
        let enough = before.at(first) + block.work + scaled(blocking) <= scaled(first);
        if enough {
            (self.lines, self.behind, self.at, self.quantum) = (before, blocking, Some(first), 0);
        }
        enough
    }

    /// Passes one entry. Entries with the same d share a check, and tasks with a later d block them
    /// all.
    fn look_at(&mut self, entry: &Entry) -> Result<(), OutOfSteps> {
        let d = entry.d;
        if self.at != Some(d) {
            self.behind = self.behind.max(self.quantum);
            self.quantum = 0;
            let next = self.at.replace(d);
            self.prove(d, next)?;
        }
        self.quantum = self.quantum.max(entry.quantum);
        self.lines.subtract(entry.line);
        Ok(())
    }

    /// Notes the instants in `[d, next)` for which the lines are too high.
    fn prove(&mut self, d: u64, next: Option<u64>) -> Result<(), OutOfSteps> {
        let blocking = self.behind;
        let missing = self.lines.at(d) + scaled(blocking) - scaled(d);
        if missing <= 0 {
            return Ok(());
        }
        // Time gains `1 − slope` on the lines.
        let gained = u128::from(ONE - self.lines.slope);
        let until = u128::try_from(missing).unwrap_or(0).div_ceil(gained);
        let until =
            u64::try_from(until).ok().and_then(|until| d.checked_add(until)?.checked_add(1));
        let end = until.into_iter().chain(next).min().ok_or(OutOfSteps)?;
        match self.found.last_mut() {
            Some(above) if above.start == end && above.blocking == blocking => above.start = d,
            _ => self.found.push(Stretch { start: d, end, blocking, last: next.is_none() }),
        }
        Ok(())
    }
}
