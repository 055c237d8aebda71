//! Searches that vary one number at a time, by bisection over admission of the whole contract.
//!
//! Less work never hurts on one CPU, so there the wcet found is the largest that fits. A longer
//! period can hurt: it changes priorities, and on several CPUs any change can alter the mapping. So
//! the number found is next to one with the other answer, but there may be further ones beyond.

use punctual_model::{Contract, HostProfile};

use super::{Entry, Parameter, Relief};
use crate::examination::{examine, fits};
use crate::steps::Steps;

/// The sixteenths by which both numbers of a pair may be moved: to half or twice.
const FURTHEST_PART: u64 = 16;

/// The steps to set up a trial, for each entry.
const SET_UP: usize = 50;

pub(crate) struct Search<'a> {
    original: &'a Contract,
    host: &'a HostProfile,
    /// The contract, with one entry at a time changed.
    trial: Contract,
    steps: Steps,
}

impl<'a> Search<'a> {
    /// Creates a search. All questions together may use `steps`.
    pub(crate) fn new(contract: &'a Contract, host: &'a HostProfile, steps: u64) -> Self {
        Self { original: contract, host, trial: contract.clone(), steps: Steps::new(steps) }
    }

    /// Returns the number nearest to the contract's with which the whole of it is admitted, by the
    /// examination of a new request.
    pub(crate) fn nearest_that_fits(&mut self, parameter: &Parameter) -> Option<u64> {
        let (least, most) = parameter.acceptable();
        let found = match parameter.relief {
            Relief::Less => self.towards(parameter, least),
            Relief::More => self.towards(parameter, most),
            Relief::Either => self.among_powers_of_two(parameter),
        }
        .filter(|&value| {
            parameter.set(self.original, value, &mut self.trial) && self.is_admitted()
        });
        self.restore(parameter);
        found
    }

    /// Returns two numbers with which the whole contract is admitted: both are moved by the same
    /// part of themselves, and then each moves back as far as the other permits.
    pub(crate) fn nearest_pair_that_fits(
        &mut self,
        parameters: [&Parameter; 2],
    ) -> Option<[u64; 2]> {
        let moved = |part: u64| parameters.map(|parameter| parameter.moved(part));
        let (mut too_near, mut fits) = (0, FURTHEST_PART);
        if !self.both_fit(parameters, moved(fits)) {
            return None;
        }
        while fits - too_near > 1 {
            let middle = too_near.midpoint(fits);
            if self.both_fit(parameters, moved(middle)) { fits = middle } else { too_near = middle }
        }
        let mut found = moved(fits);
        for at in 0..2 {
            let mut too_near = parameters[at].value;
            let mut stays = found;
            stays[at] = too_near;
            if self.both_fit(parameters, stays) {
                found = stays;
                continue;
            }
            // To a thousandth.
            while too_near.abs_diff(found[at]) > parameters[at].value / 1_000 + 1 {
                let mut trial = found;
                trial[at] = too_near.midpoint(found[at]);
                if self.both_fit(parameters, trial) { found = trial } else { too_near = trial[at] }
            }
        }
        let admitted = self.set_both(parameters, found) && self.is_admitted();
        self.trial.clone_from(self.original);
        admitted.then_some(found)
    }

    fn both_fit(&mut self, parameters: [&Parameter; 2], values: [u64; 2]) -> bool {
        self.steps.take(2 * SET_UP * Entry::all(self.original).count()).is_ok()
            && self.set_both(parameters, values)
            && fits(&self.trial, self.host, &mut self.steps)
    }

    /// Writes both numbers into the trial; they may belong to one entry.
    fn set_both(&mut self, [first, second]: [&Parameter; 2], values: [u64; 2]) -> bool {
        self.trial.clone_from(self.original);
        if !first.set(self.original, values[0], &mut self.trial) {
            return false;
        }
        let with_first = self.trial.clone();
        second.set(&with_first, values[1], &mut self.trial)
    }

    /// Returns how far the number of a fitting contract can go in the other direction and still
    /// fit. Returns `None` if that is not found within `share` of the steps, because a number found
    /// by then is not the limit.
    pub(crate) fn furthest_that_fits(&mut self, parameter: &Parameter, share: u64) -> Option<u64> {
        let rest = self.steps.left().saturating_sub(share);
        self.steps.give_up(rest);
        let found = match parameter.relief {
            Relief::Less => Some(self.last_that_fits(parameter, parameter.most)),
            Relief::More => Some(self.last_that_fits(parameter, parameter.least)),
            Relief::Either => None,
        }
        .filter(|_| self.steps.left() > 0);
        let found = found.filter(|&furthest| !self.fits_beyond(parameter, furthest));
        self.steps = Steps::new(self.steps.left().saturating_add(rest));
        self.restore(parameter);
        found
    }

    /// Returns whether the contract still fits one unit beyond `furthest`. On several CPUs a search
    /// for a partition may give up before the steps are used up, so a refusal within a share of
    /// them is not a limit.
    fn fits_beyond(&mut self, parameter: &Parameter, furthest: u64) -> bool {
        let beyond = match parameter.relief {
            Relief::Less if furthest < parameter.most => furthest + 1,
            Relief::More if furthest > parameter.least => furthest - 1,
            _ => return false,
        };
        self.original.cpus > 1
            && parameter.set(self.original, beyond, &mut self.trial)
            && self.is_admitted()
    }

    /// Returns whether the contract itself is admitted.
    pub(crate) fn contract_is_admitted(&mut self) -> bool {
        self.is_admitted()
    }

    /// Returns the remaining steps.
    pub(crate) fn left(&self) -> u64 {
        self.steps.left()
    }

    /// Examines the trial like a new request, with all the steps of one. They count here too, so at
    /// most one examination exceeds the steps of the search.
    fn is_admitted(&mut self) -> bool {
        if self.steps.left() == 0 {
            return false;
        }
        let mut steps = Steps::for_tasks(self.trial.tasks.len());
        let allowed = steps.left();
        let admitted = examine(&self.trial, self.host, &mut steps, 0).failure.is_none();
        self.steps.give_up(allowed - steps.left());
        admitted
    }

    fn fits(&mut self, parameter: &Parameter, value: u64) -> bool {
        // The work of a trial before its first formula counts too.
        let Contract { tasks, reservations, channels, streams, .. } = &self.trial;
        // Each channel looks at every other one.
        let sent = channels.len() + streams.len();
        let entries = tasks.len() + reservations.len() + sent * sent.div_ceil(8);
        self.steps.take(SET_UP * entries).is_ok()
            && parameter.set(self.original, value, &mut self.trial)
            && fits(&self.trial, self.host, &mut self.steps)
    }

    fn restore(&mut self, parameter: &Parameter) {
        // The contract's own number makes a valid entry.
        let _ = parameter.set(self.original, parameter.value, &mut self.trial);
    }

    /// Goes from a number that does not fit towards `end` in growing strides until one fits, then
    /// bisects between the last two.
    fn towards(&mut self, parameter: &Parameter, end: u64) -> Option<u64> {
        let mut too_near = parameter.value;
        let mut fits = loop {
            if too_near == end {
                return None;
            }
            let further = stride(parameter.value, too_near, end);
            if self.fits(parameter, further) {
                break further;
            }
            too_near = further;
        };
        while too_near.abs_diff(fits) > 1 {
            let middle = too_near.midpoint(fits);
            if self.fits(parameter, middle) { fits = middle } else { too_near = middle }
        }
        Some(fits)
    }

    /// Returns the last number before one that does not fit, starting from the contract's number,
    /// which fits.
    fn last_that_fits(&mut self, parameter: &Parameter, end: u64) -> u64 {
        let mut fits = parameter.value;
        let mut too_far = loop {
            if fits == end {
                return end;
            }
            let further = stride(parameter.value, fits, end);
            if !self.fits(parameter, further) {
                break further;
            }
            fits = further;
        };
        while fits.abs_diff(too_far) > 1 {
            let middle = fits.midpoint(too_far);
            if self.fits(parameter, middle) { fits = middle } else { too_far = middle }
        }
        fits
    }

    /// Returns the nearest power of two in range that fits; of two equally near ones, the smaller.
    fn among_powers_of_two(&mut self, parameter: &Parameter) -> Option<u64> {
        let mut candidates: alloc::vec::Vec<u64> = (0..64)
            .map(|exponent| 1 << exponent)
            .filter(|power| {
                (parameter.least..=parameter.most).contains(power) && *power != parameter.value
            })
            .collect();
        let distance =
            |power: u64| (power.max(parameter.value) / power.min(parameter.value), power);
        candidates.sort_unstable_by_key(|&power| distance(power));
        candidates.into_iter().find(|&power| self.fits(parameter, power))
    }
}

/// Returns a point twice as far from `origin` as `from` (at first an eighth of `origin`), but not
/// beyond `end`. Downwards it is half of `from` if that is nearer.
fn stride(origin: u64, from: u64, end: u64) -> u64 {
    let step = origin.abs_diff(from).saturating_mul(2).max(origin / 8).max(1);
    if end > from {
        from.saturating_add(step).min(end)
    } else {
        from.saturating_sub(step.min(from.div_ceil(2))).max(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_reach_both_ends() {
        for (origin, end) in [(1, u64::MAX / 2), (1_000_000, 1), (7, 0), (5, 5), (0, 9)] {
            let mut at = origin;
            let mut count = 0;
            while at != end {
                let next = stride(origin, at, end);
                assert!(next.abs_diff(end) < at.abs_diff(end), "{origin} {at} {end}");
                at = next;
                count += 1;
            }
            assert!(count < 130, "{origin} {end}: {count}");
        }
    }
}
