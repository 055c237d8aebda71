//! Infers which of its waits a thread is released from, by the regularity of the wake-ups.
//!
//! A wait is taken to be the wait for releases if a thread that waits there is woken at the next
//! instant of a period: one period after the last release, or, if it did not come to wait in time,
//! a whole number of periods after it. Three kinds of evidence are tried, the strongest first:
//!
//! - timers that were due on one timeline, to two microseconds: an absolute sleep or a periodic
//!   timer;
//! - timers of one length, or wake-ups about a period apart;
//! - one period among other wake-ups at the same place ([`fit::find`](crate::fit::find)).
//!
//! Waits at different places in the program are told apart as far as needed: the most precise
//! description under which a wait is regular is used.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Instant};

use super::wait::{Nap, Wait};
use crate::fit;

/// The least number of waits from which a period is inferred.
const LEAST: usize = 10;
/// The same for wake-ups that are not exact, and so may be regular by chance or for a while, and the
/// part of them that must keep to the period.
const LEAST_LOOSE: usize = 32;
const REGULAR_LOOSE: f64 = 0.95;
/// The part of the wake-ups that must keep to the period, if it is inferred and if it is declared.
const REGULAR: f64 = 0.9;
const DECLARED: f64 = 0.5;
/// The distance at which an instant is still on an exact timeline, in nanoseconds.
const EXACT: u64 = 2_000;
/// The tolerances for other wake-ups, if the period is inferred and if it is declared, as divisors
/// of the period. Those of a runtime's thread that does several things are often about regular.
const LOOSE: u64 = 10;
const LOOSE_DECLARED: u64 = 5;
/// The parts of all its sleep that a thread must spend in a wait that is not exact: woken by others
/// and by timers of one length. A thread is idle where it waits for its releases.
const IDLE: f64 = 0.2;
const IDLE_RELATIVE: f64 = 0.5;
/// The least part of all wake-ups at one place that a period explains. It was chosen among many.
const EXPLAINED: f64 = 0.25;
/// The number of exact periods that are tried, the shortest first.
const TRIED: usize = 8;

/// The way in which releases follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// They are on one timeline, whatever the jobs do: a release that did not come is missed.
    Timeline,
    /// Each comes a period after the thread began to wait: a long job delays the next.
    Relative,
    /// No period is known: each wake-up is a release.
    Events,
}

/// The wait from which a thread is released, and the evidence for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Release {
    /// The wait.
    pub wait: Wait,
    /// Only wake-ups by a timer are releases.
    pub by_timer: bool,
    /// How releases follow each other.
    pub rhythm: Rhythm,
    /// The average time from one release to the next.
    pub period: Option<Duration>,
    /// Whether the user declared the period.
    pub is_declared: bool,
    /// The part of the wake-ups that keep to the period. Without a period: the part of the thread's
    /// sleep that is in this wait.
    pub regular: f64,
    /// The number of wake-ups that this is inferred from.
    pub seen: usize,
    /// How far from its expected instant a wake-up is still a release, if others come between;
    /// `None` if all are releases.
    pub(super) among_others: Option<Duration>,
    /// Timers that were due on one timeline: this is no chance.
    pub(super) is_exact: bool,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wait, regular, seen, .. } = self;
        let percent = 100.0 * regular;
        match (self.period, self.rhythm) {
            (Some(period), rhythm) => {
                let about = if rhythm == Rhythm::Timeline && self.by_timer { "" } else { "about " };
                let by = if self.by_timer { "released by" } else { "woken in" };
                let declared = if self.is_declared { " as declared" } else { "" };
                write!(f, "{by} {wait} {about}every {period}{declared}, {percent:.1} % regular")?;
            }
            (None, _) => {
                write!(
                    f,
                    "woken in {wait}, where it spends {percent:.1} % of its sleep; no period"
                )?;
            }
        }
        write!(f, " ({seen} waits)")
    }
}

impl Release {
    /// Returns whether a sleep was in this wait.
    pub(super) fn is_in(&self, nap: &Nap) -> bool {
        nap.wait.is_some_and(|wait| self.wait.covers(&wait))
    }

    /// Returns whether the release after `last` came when it was expected, after a job of `busy`.
    pub(super) fn keeps(&self, last: Instant, busy: Duration, next: Instant) -> bool {
        let apart = next.saturating_since(last).as_nanos();
        let period = self.period.map_or(1, Duration::as_nanos).max(1);
        match self.rhythm {
            Rhythm::Relative => apart >= period / 3 && apart <= 3 * period,
            _ => Step { apart, busy: busy.as_nanos() }.periods(period, period / LOOSE).is_some(),
        }
    }

    /// Returns whether the releases may be regular for a while only.
    pub(super) fn is_to_be_confirmed(&self) -> bool {
        self.rhythm != Rhythm::Events && !self.is_exact && !self.is_declared
    }

    /// Returns whether releases are missed while a job goes on.
    pub(super) fn missable(&self) -> Option<Duration> {
        self.period.filter(|_| self.rhythm == Rhythm::Timeline || self.is_declared)
    }
}

/// The step from one release to the next, in nanoseconds.
#[derive(Clone, Copy)]
struct Step {
    apart: u64,
    /// The time from the first to the sleep from which the second woke the thread.
    busy: u64,
}

/// The waits at one place.
struct Group<'a> {
    wait: Wait,
    by_timer: bool,
    naps: Vec<&'a Nap>,
    /// The positions of the naps among all.
    at: Vec<usize>,
    /// `None` across missing records.
    steps: Vec<Option<Step>>,
    /// The part of all sleep.
    idle: f64,
}

/// Infers the releases of a thread from its sleeps. Returns the position of the first release of
/// the first regular run, too; what came before was starting.
pub(super) fn infer(naps: &[Nap], declared: Option<Duration>) -> Option<(Release, usize)> {
    let plain = |group: &Group<'_>| match declared {
        Some(period) => group.keeps_to(period),
        None => group.regular(),
    };
    let among_others = |group: &Group<'_>| group.among_others(declared);
    best(naps, plain).or_else(|| best(naps, among_others))
}

/// Takes the wait in which a thread sleeps most as the wait for its releases. They have no period,
/// except a declared one.
pub(super) fn by_events(naps: &[Nap], declared: Option<Duration>) -> Option<(Release, usize)> {
    let all = groups(naps, 1);
    let most = all.iter().filter(|group| !group.by_timer);
    let most = most.max_by(|one, other| one.idle.total_cmp(&other.idle))?;
    let release = Release {
        wait: most.wait,
        by_timer: false,
        rhythm: Rhythm::Events,
        period: declared,
        is_declared: declared.is_some(),
        regular: most.idle,
        seen: most.naps.len(),
        among_others: None,
        is_exact: false,
    };
    Some((release, *most.at.first()?))
}

type Candidate = (Release, usize);

fn best(
    naps: &[Nap],
    evidence: impl Fn(&Group<'_>) -> Option<Candidate>,
) -> Option<(Release, usize)> {
    (0..3)
        .find_map(|level| {
            let all = groups(naps, level).into_iter();
            let all = all.filter(|group| group.naps.len() >= LEAST && !group.is_of_timers());
            let candidates = all.filter_map(|group| Some((evidence(&group)?, group)));
            let rank = |((release, _), group): &(Candidate, Group<'_>)| {
                (release.is_exact, group.idle * release.regular, group.by_timer)
            };
            let best = candidates.max_by(|one, other| {
                let (one, other) = (rank(one), rank(other));
                one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.cmp(&other.2))
            });
            // With too few waits for a decision, a coarser description would only blur them.
            let is_enough = |(release, _): &Candidate| {
                release.is_exact
                    || release.rhythm == Rhythm::Relative
                    || release.seen >= LEAST_LOOSE
            };
            best.map(|(candidate, _)| Some(candidate).filter(is_enough))
        })
        .flatten()
}

/// Groups the sleeps by their places. Those that a timer ended are a group of their own, too.
fn groups(naps: &[Nap], level: u8) -> Vec<Group<'_>> {
    let mut all = Duration::ZERO;
    let mut places: BTreeMap<(Wait, bool), Vec<usize>> = BTreeMap::new();
    for (at, nap) in naps.iter().enumerate() {
        let Some(wait) = nap.wait else { continue };
        all = all.saturating_add(nap.length());
        places.entry((wait.coarse(level), false)).or_default().push(at);
        if nap.due.is_some() {
            places.entry((wait.coarse(level), true)).or_default().push(at);
        }
    }
    let group = |((wait, by_timer), at): ((Wait, bool), Vec<usize>)| {
        let here: Vec<&Nap> = at.iter().map(|&at| &naps[at]).collect();
        let asleep = here.iter().map(|nap| nap.length());
        let asleep = asleep.fold(Duration::ZERO, Duration::saturating_add);
        let idle = asleep.as_nanos() as f64 / all.as_nanos().max(1) as f64;
        let steps = at.windows(2).map(|pair| {
            let is_broken = naps[pair[0] + 1..=pair[1]].iter().any(|nap| nap.after_gap);
            let (one, next) = (&naps[pair[0]], &naps[pair[1]]);
            let since = |at: Instant| at.saturating_since(one.release()).as_nanos();
            let step = Step { apart: since(next.release()), busy: since(next.sleeps) };
            (!is_broken).then_some(step)
        });
        let steps = steps.collect();
        Group { wait, by_timer, naps: here, at, steps, idle }
    };
    places.into_iter().map(group).collect()
}

impl Step {
    /// Returns the number of periods from one release to the next, if the next came at the first
    /// instant of the period at which the thread waited for it.
    fn periods(self, period: u64, tolerance: u64) -> Option<u64> {
        let periods = (self.apart + period / 2) / period;
        let is_on = periods > 0 && self.apart.abs_diff(periods * period) <= tolerance;
        (is_on && (periods - 1) * period <= self.busy + tolerance).then_some(periods)
    }
}

impl Group<'_> {
    /// Returns whether there is a group of the timers alone that is about the same.
    fn is_of_timers(&self) -> bool {
        let timers = self.naps.iter().filter(|nap| nap.due.is_some()).count();
        !self.by_timer && 10 * timers >= 9 * self.naps.len()
    }

    fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps.iter().flatten().copied()
    }

    /// Returns the part of the steps that keep to a period, and the period that they keep to on
    /// average.
    fn keeping(&self, period: u64, tolerance: u64) -> (f64, u64) {
        let (mut all, mut on, mut apart, mut periods) = (0_u64, 0_u64, 0_u64, 0_u64);
        for step in self.steps() {
            all += 1;
            if let Some(of) = step.periods(period, tolerance) {
                (on, apart, periods) = (on + 1, apart + step.apart, periods + of);
            }
        }
        (on as f64 / all.max(1) as f64, apart.checked_div(periods).unwrap_or(period))
    }

    fn sorted(&self, of: impl Fn(&Step) -> u64) -> Vec<u64> {
        let mut all: Vec<u64> = self.steps().map(|step| of(&step)).collect();
        all.sort_unstable();
        all
    }

    fn release(&self, rhythm: Rhythm, period: u64, regular: f64) -> Release {
        Release {
            wait: self.wait,
            by_timer: self.by_timer,
            rhythm,
            period: Some(Duration::from_nanos(period)),
            is_declared: false,
            regular,
            seen: self.naps.len(),
            among_others: None,
            is_exact: false,
        }
    }

    /// Returns the position of the first release that two others follow in the rhythm.
    fn first(&self, period: u64, tolerance: u64) -> usize {
        let on =
            |step: &Option<Step>| step.is_some_and(|one| one.periods(period, tolerance).is_some());
        let run = self.steps.windows(2).position(|pair| pair.iter().all(on));
        self.at[run.unwrap_or(0)]
    }

    fn candidate(&self, rhythm: Rhythm, period: u64, tolerance: u64) -> (Candidate, f64) {
        let (regular, period) = self.keeping(period, tolerance);
        let mut release = self.release(rhythm, period, regular);
        release.is_exact = self.by_timer && tolerance == EXACT;
        ((release, self.first(period, tolerance)), regular)
    }

    /// Looks for a period.
    fn regular(&self) -> Option<Candidate> {
        let apart = self.sorted(|step| step.apart);
        if apart.len() + 1 < LEAST {
            return None;
        }
        let mut tried = 0;
        for (place, &period) in apart.iter().enumerate() {
            // Three steps of one period, and the first of its kind.
            let is_new = place == 0 || period > apart[place - 1] + EXACT;
            let again = apart.get(place + 2).is_some_and(|&third| third <= period + 2 * EXACT);
            if !self.by_timer || tried == TRIED || !is_new || !again || period <= 10 * EXACT {
                continue;
            }
            tried += 1;
            let (candidate, regular) = self.candidate(Rhythm::Timeline, period, EXACT);
            if regular >= REGULAR {
                return Some(candidate);
            }
        }
        self.relative().or_else(|| {
            // The steps of one period are the shortest; overload makes others longer.
            let quantiles = [apart.len() / 10, apart.len() / 4, apart.len() / 2];
            quantiles.iter().find_map(|&at| {
                let period = apart[at].max(1);
                let near = |&&one: &&u64| one.abs_diff(period) <= period / LOOSE;
                let singles = apart.iter().filter(near).count();
                let (candidate, regular) = self.candidate(Rhythm::Timeline, period, period / LOOSE);
                let is_it =
                    regular >= REGULAR_LOOSE && 2 * singles >= apart.len() && self.idle >= IDLE;
                is_it.then_some(candidate)
            })
        })
    }

    /// Looks for timers that are all of one length.
    fn relative(&self) -> Option<Candidate> {
        if !self.by_timer || self.idle < IDLE_RELATIVE {
            return None;
        }
        let slept = |step: &Step| step.apart.saturating_sub(step.busy);
        let (slept, apart) = (self.sorted(slept), self.sorted(|step| step.apart));
        let (length, period) = (slept[slept.len() / 2], apart[apart.len() / 2]);
        let (wanders, shifts) = (spread(&slept, length), spread(&apart, period));
        let usual = apart.iter().filter(|&&one| one >= period / 2 && one <= 2 * period).count();
        let is_it = wanders < shifts
            && wanders <= length / 50 + 100_000
            && 10 * usual >= 7 * apart.len()
            && length > 0;
        let regular = usual as f64 / apart.len() as f64;
        is_it.then(|| {
            (self.release(Rhythm::Relative, period, regular), self.first(period, period / 2))
        })
    }

    /// Looks for a period that was declared.
    fn keeps_to(&self, declared: Duration) -> Option<Candidate> {
        let period = declared.as_nanos().max(1);
        let of = |tolerance| {
            let ((release, first), regular) = self.candidate(Rhythm::Timeline, period, tolerance);
            let release = Release { period: Some(declared), is_declared: true, ..release };
            (regular >= DECLARED).then_some((release, first))
        };
        let near = |&(release, _): &Candidate| {
            let found = release.period.map_or(0, Duration::as_nanos);
            found.abs_diff(period) <= period / 3
        };
        let relative = || {
            let (release, first) = self.relative().filter(near)?;
            Some((Release { period: Some(declared), is_declared: true, ..release }, first))
        };
        of(EXACT)
            .or_else(relative)
            .or_else(|| of(period / LOOSE_DECLARED).filter(|_| self.idle >= IDLE))
    }

    /// Looks for a period of some of the wake-ups, among others at the same place.
    fn among_others(&self, declared: Option<Duration>) -> Option<Candidate> {
        if self.idle < IDLE {
            return None;
        }
        let releases: Vec<Instant> = self.naps.iter().map(|nap| nap.release()).collect();
        let found = fit::find(&releases).ok()?;
        let period = found.periods.first()?;
        if period.covered < REGULAR_LOOSE || period.explains < EXPLAINED {
            return None;
        }
        if let Some(declared) = declared {
            let apart = period.period.as_nanos().abs_diff(declared.as_nanos());
            if apart > declared.as_nanos() / LOOSE_DECLARED {
                return None;
            }
        }
        let rhythm = if period.drifts { Rhythm::Relative } else { Rhythm::Timeline };
        let mut release = self.release(rhythm, period.period.as_nanos(), period.covered);
        release.is_declared = declared.is_some();
        release.among_others = (period.explains < REGULAR).then_some(period.tolerance);
        Some((release, self.at[*period.at.first()?]))
    }
}

/// Returns the 90th percentile of the distance from `middle`.
fn spread(all: &[u64], middle: u64) -> u64 {
    let mut away: Vec<u64> = all.iter().map(|one| one.abs_diff(middle)).collect();
    away.sort_unstable();
    away[(away.len() - 1) * 9 / 10]
}
