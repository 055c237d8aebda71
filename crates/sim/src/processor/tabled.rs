//! Simulates a processor on which a timetable is followed.

use punctual_model::{Duration, Instant, Service};
use punctual_policy::table_dispatcher::{Full, Holder, Step, TableDispatcher};
use punctual_policy::timetable::Turns;

use super::{Processor, Stretch};

/// The part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The slots of this owner, each without the allowance that is lost at its start.
    Slots(u32),
    /// The time that no slot covers. Every slot is used whole, as by an owner that always wants
    /// more.
    Free,
}

/// Another processor in a part of the time: the time that the dispatcher's own policy gives to an
/// owner, or leaves to the tasks below.
#[derive(Clone, Debug)]
pub struct Tabled<P> {
    processor: P,
    table_dispatcher: TableDispatcher,
    part: Part,
    allowance: Duration,
    /// The instant since which `step` holds.
    since: Instant,
    step: Step,
    away: bool,
}

impl<P: Processor> Tabled<P> {
    /// Takes `part` of `processor`, on which `turns` are followed from the origin of time on. With
    /// `None` all time is free.
    pub fn new(processor: P, turns: Option<Turns>, part: Part, allowance: Service) -> Self {
        let mut table_dispatcher = TableDispatcher::new(allowance);
        // There is always room for the first table.
        let _ = table_dispatcher.hand_over(Instant::ZERO, turns);
        let since = Instant::ZERO;
        let step = table_dispatcher.at(since);
        let allowance = allowance.at_full_speed();
        Self { processor, table_dispatcher, part, allowance, since, step, away: false }
    }

    /// Follows `turns` from `from` on, which is later than the instant of any call so far. With
    /// `None` all time is free from then on.
    ///
    /// # Errors
    /// [`Full`] as for [`TableDispatcher::hand_over`]. No table is given back here, so all of them
    /// count.
    pub fn hand_over(&mut self, from: Instant, turns: Option<Turns>) -> Result<(), Full> {
        self.table_dispatcher.hand_over(from, turns)?;
        self.step.until = self.step.until.min(from);
        Ok(())
    }
}

impl<P: Processor> Processor for Tabled<P> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        while self.step.until <= now {
            self.since = self.step.until;
            self.step = self.table_dispatcher.at(self.since);
        }
        let useful = self.since.saturating_add(self.allowance).min(self.step.until);
        let (here, until) = match (self.part, self.step.who) {
            (Part::Slots(own), Holder::Owner(owner)) if own == owner => {
                (now >= useful, if now < useful { useful } else { self.step.until })
            }
            (Part::Free, Holder::Free) => (true, self.step.until),
            _ => (false, self.step.until),
        };
        self.away = !here;
        let under = self.processor.at(now, wanted && here);
        Stretch { served: here && under.served, until: until.min(under.until) }
    }

    fn preempts(&self) -> bool {
        self.away || self.processor.preempts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Periods, Place, Whole};
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use punctual_model::{Slot, Timetable};

    #[test]
    fn a_table_handed_over_is_followed_from_its_instant_on() {
        let nanos = Duration::from_nanos;
        let turns = |start| {
            let slot = Slot { start: nanos(start), length: nanos(2), owner: 0 };
            let table = Timetable::new(nanos(8), vec![slot]).expect("valid");
            Some(Turns::new(table, Instant::ZERO))
        };
        let mut tabled = Tabled::new(Whole, turns(1), Part::Slots(0), Service::ZERO);
        assert_eq!(tabled.hand_over(Instant::from_nanos(10), turns(5)), Ok(()));
        assert_eq!(tabled.hand_over(Instant::from_nanos(22), None), Ok(()));
        let mut served = |at| tabled.at(Instant::from_nanos(at), true).served;
        let seen: Vec<u64> = (0..40).filter(|&at| served(at)).collect();
        assert_eq!(seen, [1, 2, 9, 13, 14, 21]);
    }

    #[test]
    fn every_part_has_its_own_time_and_loses_the_allowance() {
        let nanos = Duration::from_nanos;
        let slots = [(0, 4, 0), (4, 3, 1), (9, 3, 0)];
        let slots = slots.map(|(start, length, owner)| Slot {
            start: nanos(start),
            length: nanos(length),
            owner,
        });
        let table = Timetable::new(nanos(16), slots.to_vec()).expect("valid");
        let turns = || Some(Turns::new(table.clone(), Instant::ZERO));
        // The processor is away in the last of every eight nanoseconds.
        let above = Periods::new("7ns/8ns".parse().expect("valid"), Instant::ZERO, Place::Early);
        for (part, served) in [
            (Part::Slots(0), &[2, 3, 11][..]),
            (Part::Slots(1), &[6]),
            (Part::Free, &[8, 12, 13, 14]),
        ] {
            let new = || Tabled::new(above, turns(), part, Service::from_nanos(2));
            for step in 1..6 {
                let mut tabled = new();
                for now in (0..160).step_by(step) {
                    let here = served.contains(&(now % 16));
                    let said = tabled.at(Instant::from_nanos(now), true);
                    assert_eq!(said.served, here, "{part:?} {now}");
                    // Nothing changes before the returned instant.
                    let until = said.until.as_nanos();
                    let later: Vec<u64> = (now..until).collect();
                    assert!(later.iter().all(|at| served.contains(&(at % 16)) == here));
                }
            }
        }
    }
}
