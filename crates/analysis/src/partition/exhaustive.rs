//! Every partition of a small system, largest tasks first, cutting off where a CPU is full.
//!
//! A CPU that fails its test with some tasks fails with more of them, so no partition below a cut
//! is lost. (The tests have that property: they bound the worst case, and more tasks only add to
//! it.)

use super::shelf::Shelves;
use crate::steps::Steps;

/// The most tasks for which every partition is tried.
const MOST_TASKS: usize = 20;

/// Too many tasks, or out of steps.
pub(super) struct NotSearched;

/// The first partition found; `None`: there is none.
pub(super) fn search(
    mut shelves: Shelves,
    steps: &mut Steps,
) -> Result<Option<Shelves>, NotSearched> {
    if shelves.largest_first.len() > MOST_TASKS {
        return Err(NotSearched);
    }
    Ok(below(&mut shelves, 0, steps)?.then_some(shelves))
}

/// Whether the tasks from `depth` on fit beside those already placed.
fn below(shelves: &mut Shelves, depth: usize, steps: &mut Steps) -> Result<bool, NotSearched> {
    let Some(&at) = shelves.largest_first.get(depth) else { return Ok(true) };
    for cpu in 0..shelves.count() {
        if shelves.repeats_an_earlier(cpu) {
            continue;
        }
        let used = shelves.used(cpu);
        if shelves.put(at, cpu, steps) {
            if below(shelves, depth + 1, steps)? {
                return Ok(true);
            }
            shelves.take_back(at, cpu, used);
        }
        // A refusal for want of steps says nothing.
        steps.take(1).map_err(|_| NotSearched)?;
    }
    Ok(false)
}
