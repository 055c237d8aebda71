//! Which period instants have, how sure that is, or why they have none.

use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Instant};

use super::train::{GAINS, Train, follow};

/// Instants that are looked at to choose a period; all are followed with the one chosen.
const LOOKED_AT: usize = 1024;
/// Periods that must have been seen.
const LEAST: usize = 10;
/// Instants so many apart may be a period apart: a burst, or other periods, may be between.
const FARTHEST: usize = 8;
/// Supposed periods that are tried.
const TRIED: usize = 24;
/// Instants from which each is tried.
const STARTS: usize = 4;
/// Tolerances, in parts of the period, the widest first.
const TOLERANCES: [i64; 4] = [5, 10, 20, 50];
/// Where more than this comes by chance, to be covered says nothing.
const LUCK: f64 = 0.6;
/// So many standard deviations more than chance gives must be covered: the period was chosen among many.
const SCATTERS: f64 = 5.0;
/// Confidence from which on a thread is called periodic.
pub const SURE: f64 = 0.6;
/// A second period is named if it explains so much of all wake-ups, and is so sure.
const SECOND: (f64, f64) = (0.15, 0.75);

/// A period, and how sure it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// The time from one to the next, on average.
    pub period: Duration,
    /// From 0 to 1: of the instants at which the period expects a wake-up, the part at which one came,
    /// less the part at which one would have come by chance, over what chance leaves:
    /// `(covered − by_chance) / (1 − by_chance)`. So 1 is a wake-up at each, 0 what random ones give;
    /// 0 also where chance alone could have given it.
    pub confidence: f64,
    /// The part of the expected instants at which a wake-up came.
    pub covered: f64,
    /// The part at which one would have come, were they random.
    pub by_chance: f64,
    /// How far a wake-up may be from where it was expected to count.
    pub tolerance: Duration,
    /// The part of all wake-ups that are at expected instants: the others are more of the same burst,
    /// other periods, or none.
    pub explains: f64,
    /// 95 in 100 came no farther from where they were expected.
    pub jitter: Duration,
    /// The instants do not keep to one timeline: each begins a period after the one before, as with a
    /// relative sleep.
    pub drifts: bool,
    /// Those of the instants that are at the period, by their places in what was looked at.
    pub at: Vec<usize>,
}

/// The periods of a thread: the first explains the most, a second one is there where two interleave.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// At least one.
    pub periods: Vec<Period>,
}

impl Found {
    /// The shortest: a reservation for all of them has it.
    pub fn shortest(&self) -> Option<&Period> {
        self.periods.iter().min_by_key(|one| one.period)
    }
}

/// Why a thread is not called periodic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotPeriodic {
    /// Too few jobs to say.
    TooFew {
        /// Those there were.
        jobs: usize,
    },
    /// Their releases keep to no period.
    Irregular {
        /// The best that was found.
        period: Duration,
        /// How sure it is: less than [`SURE`].
        confidence: f64,
    },
}

impl fmt::Display for NotPeriodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { jobs } => {
                write!(
                    f,
                    "{jobs} jobs were seen, and {LEAST} periods are needed; watch it for longer"
                )
            }
            Self::Irregular { period, confidence } => write!(
                f,
                "its wake-ups keep to no period: the best is {period}, with a confidence of \
                 {confidence:.2}, and {SURE} is needed"
            ),
        }
    }
}

/// Finds the period of releases, which are in order.
///
/// # Assumptions
/// Of two wake-ups a period apart at most seven are between, or both begin after a pause. Periods
/// are steady over what is looked at: the period is chosen by the newest 1,024 instants.
///
/// # Errors
/// [`NotPeriodic`] is an answer, not a failure.
///
/// ```
/// use punctual_model::{Duration, Instant};
/// use punctual_trace::fit::find;
///
/// let releases: Vec<Instant> = (0..50).map(|n| Instant::from_nanos(n * 20_000_000)).collect();
/// let found = find(&releases).expect("periodic");
/// assert_eq!(found.periods[0].period, Duration::from_millis(20));
/// assert!(found.periods[0].confidence > 0.99);
/// ```
pub fn find(releases: &[Instant]) -> Result<Found, NotPeriodic> {
    let origin = releases.first().copied().unwrap_or(Instant::ZERO);
    // 292 years of nanoseconds.
    let since = |at: &Instant| i64::try_from(at.saturating_since(origin).as_nanos());
    let mut at: Vec<i64> = releases.iter().map(|at| since(at).unwrap_or(i64::MAX / 4)).collect();
    // Timers that expire together may be told in any order.
    for place in 1..at.len() {
        at[place] = at[place].max(at[place - 1]);
    }
    let first = best(&at)?;
    let mut left: Vec<usize> = Vec::new();
    let mut hits = first.at.iter().copied().peekable();
    for place in 0..at.len() {
        if hits.next_if_eq(&place).is_none() {
            left.push(place);
        }
    }
    let mut periods = Vec::new();
    let rest: Vec<i64> = left.iter().map(|&place| at[place]).collect();
    if let Ok(mut second) = best(&rest) {
        second.explains = second.at.len() as f64 / at.len().max(1) as f64;
        second.at.iter_mut().for_each(|place| *place = left[*place]);
        let (explains, confidence) = SECOND;
        let is_sure = second.explains >= explains && second.confidence >= confidence;
        if is_sure && !is_multiple(second.period, first.period) {
            periods.push(second);
        }
    }
    periods.insert(0, first);
    Ok(Found { periods })
}

/// What is left of a burst has the burst's period.
fn is_multiple(period: Duration, of: Duration) -> bool {
    let (period, of) = (period.as_nanos(), of.as_nanos().max(1));
    let times = (period + of / 2) / of;
    times > 0 && period.abs_diff(times * of) < of / 20
}

fn best(at: &[i64]) -> Result<Period, NotPeriodic> {
    let too_few = NotPeriodic::TooFew { jobs: at.len() };
    if at.len() < LEAST {
        return Err(too_few);
    }
    let newest = &at[at.len().saturating_sub(LOOKED_AT)..];
    let mut chosen: Option<(f64, Train, i64)> = None;
    for supposed in supposed(newest) {
        for start in starts(newest) {
            for gain in GAINS {
                let Some(train) = narrowest(newest, start, supposed, gain) else { continue };
                let score = score(&train, newest);
                if chosen.as_ref().is_none_or(|(best, ..)| score > *best) {
                    chosen = Some((score, train, gain));
                }
            }
        }
    }
    let (_, train, gain) = chosen.ok_or(too_few)?;
    // The same through all instants, from the first that fits.
    let all = (0..STARTS.min(at.len()))
        .filter_map(|start| follow(at, start, train.period, train.tolerance, gain))
        .max_by_key(|train| train.hits.len())
        .ok_or(too_few)?;
    let train = if all.hits.len() < LEAST { return Err(too_few) } else { all };
    let period = told(&train, at);
    if period.confidence < SURE {
        let (period, confidence) = (period.period, period.confidence);
        return Err(NotPeriodic::Irregular { period, confidence });
    }
    Ok(period)
}

/// The narrowest tolerance that is about as sure as the best, with the period measured on the way.
fn narrowest(at: &[i64], start: usize, supposed: i64, gain: i64) -> Option<Train> {
    let mut period = supposed;
    let mut best: Option<(f64, Train)> = None;
    for part in TOLERANCES {
        let tolerance = (period / part).max(1);
        let train = follow(at, start, period, tolerance, gain)?;
        if train.hits.len() < LEAST {
            break;
        }
        period = train.measured(at).unwrap_or(period);
        let train = follow(at, start, period, tolerance, gain)?;
        let sure = confidence(&train, at);
        // At its first it is taken as it is; narrower ones must be nearly as sure.
        if best.as_ref().is_none_or(|(before, _)| sure >= before - 0.02) {
            let most = best.map_or(sure, |(before, _)| before.max(sure));
            best = Some((most, train));
        }
    }
    best.map(|(_, train)| train)
}

fn confidence(train: &Train, at: &[i64]) -> f64 {
    let (covered, by_chance) = (train.covered(), train.by_chance(at));
    // So many hits at random would be, and so far they would scatter (binomial distribution).
    let slots = train.slots.max(1) as f64;
    let beyond = (covered - by_chance) * slots;
    let scatter = slots * by_chance * (1.0 - by_chance);
    if by_chance > LUCK || beyond * beyond < SCATTERS * SCATTERS * scatter {
        return 0.0;
    }
    ((covered - by_chance) / (1.0 - by_chance).max(1e-9)).clamp(0.0, 1.0)
}

/// To be sure counts twice; then to explain more of the wake-ups, so that a period wins over its
/// multiples, which are as sure and explain less, and over its parts, which are less sure.
fn score(train: &Train, at: &[i64]) -> f64 {
    let sure = confidence(train, at);
    let explains = train.hits.len() as f64 / at.len() as f64;
    sure * sure * explains
}

/// Times that instants often are apart, the most frequent first.
fn supposed(at: &[i64]) -> Vec<i64> {
    let mut apart: Vec<i64> = Vec::new();
    for lag in 1..=FARTHEST.min(at.len() - 1) {
        apart.extend(at[lag..].iter().zip(at).map(|(later, earlier)| later - earlier));
    }
    let starts = bursts(at);
    for lag in 1..=3 {
        let pairs = starts.iter().skip(lag).zip(&starts);
        apart.extend(pairs.map(|(later, earlier)| later - earlier));
    }
    apart.retain(|&one| one > 0);
    apart.sort_unstable();
    let mut periods = Vec::new();
    while periods.len() < TRIED && !apart.is_empty() {
        let (mut from, mut to, mut until) = (0, 0, 0);
        for begin in 0..apart.len() {
            while until < apart.len() && apart[until] - apart[begin] <= apart[begin] / 25 {
                until += 1;
            }
            if until - begin > to - from {
                (from, to) = (begin, until);
            }
        }
        if to - from < 3 {
            break;
        }
        periods.push(apart[from + (to - from) / 2]);
        apart.drain(from..to);
    }
    periods
}

/// Instants that come after a pause three times as long as the usual one.
fn bursts(at: &[i64]) -> Vec<i64> {
    let mut gaps: Vec<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    let after_pause = at.windows(2).filter(|pair| pair[1] - pair[0] > 3 * usual);
    after_pause.map(|pair| pair[1]).collect()
}

/// Where to begin: some of the first instants, and the first of a burst.
fn starts(at: &[i64]) -> Vec<usize> {
    let mut starts: Vec<usize> = (0..STARTS.min(at.len())).collect();
    let first_of_burst = bursts(at).first().and_then(|first| at.binary_search(first).ok());
    starts.extend(first_of_burst.filter(|&first| first >= STARTS && first < at.len() / 4));
    starts
}

fn told(train: &Train, at: &[i64]) -> Period {
    let nanos = |nanos: i64| Duration::from_nanos(nanos.unsigned_abs());
    let mut away: Vec<i64> = train.residuals.iter().map(|one| one.abs()).collect();
    away.sort_unstable();
    let jitter = away.get(away.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(0);
    let period = train.measured(at).unwrap_or(train.period);
    let straight = Train { period, ..train.clone() };
    Period {
        period: nanos(period),
        confidence: confidence(train, at),
        covered: train.covered(),
        by_chance: train.by_chance(at),
        tolerance: nanos(train.tolerance),
        explains: train.hits.len() as f64 / at.len().max(1) as f64,
        jitter: nanos(jitter),
        drifts: straight.wander(at) > (period / 10).max(2 * jitter),
        at: train.hits.iter().map(|hit| hit.at).collect(),
    }
}
