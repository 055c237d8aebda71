//! Functions of a followed table.

use punctual_model::{Instant, Slot, Timetable};

use super::Rules;
use crate::ratio::Ratio;
use crate::supply::constraint::Commitments;
use crate::supply::mode_change::Anchored;

pub(super) fn commitments(follow: &Anchored, rules: Rules) -> Commitments {
    Commitments::new(&follow.table, follow.origin, rules.limits.context_switch)
}

/// Returns `earliest`, or the end of the slot of `owner` that it would cut.
pub(super) fn after_own_slot(
    table: &Timetable,
    owner: u32,
    origin: Instant,
    earliest: Instant,
) -> Instant {
    let offset = earliest.saturating_since(origin) % table.cycle();
    let cut = |slot: &&Slot| slot.owner == owner && slot.start < offset && offset < slot.end();
    let cut = table.slots().iter().find(cut);
    cut.map_or(earliest, |slot| earliest.saturating_add(slot.end() - offset))
}

pub(super) fn taken(table: &Timetable) -> Ratio {
    let taken: u64 = table.slots().iter().map(|slot| slot.length.as_nanos()).sum();
    Ratio::above(taken, table.cycle().as_nanos())
}

/// Returns the table with positions replaced by names.
pub(super) fn named(table: &Timetable, names: &[u32]) -> Timetable {
    let slots = table.slots().iter().map(|slot| {
        let owner = names[slot.owner as usize];
        Slot { owner, ..*slot }
    });
    Timetable::new(table.cycle(), slots.collect()).expect("the same slots")
}
