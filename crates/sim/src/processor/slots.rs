//! The slots of one owner of a timetable.

use punctual_model::Instant;
use punctual_policy::timetable::Turns;

use super::{Processor, Stretch};

/// What the timetable policy gives to one owner; its switches are not in it, so a timetable built
/// for costs above zero gives more here than it promises.
#[derive(Clone, Debug)]
pub struct Slots {
    turns: Turns,
    owner: u32,
}

impl Slots {
    /// The slots of `owner` in `turns`; `None` if it has no slot.
    pub fn new(turns: Turns, owner: u32) -> Option<Self> {
        let has_one = turns.table().slots().iter().any(|slot| slot.owner == owner);
        has_one.then_some(Self { turns, owner })
    }
}

impl Processor for Slots {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        let decision = self.turns.at(now);
        Stretch { served: decision.owner == Some(self.owner), until: decision.until }
    }
}
