//! Finds the period of a series of instants and its confidence, or the reason why there is none.

use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Instant};

use super::train::{GAINS, Train, follow};

/// The number of instants from which a period is chosen. The chosen period is then followed through
/// all of them.
const LOOKED_AT: usize = 1024;
/// The least number of periods that must have been seen.
const LEAST: usize = 10;
/// The most places in the series between two instants that may be a period apart. A burst, or other
/// periods, may lie in between.
const FARTHEST: usize = 8;
/// The number of candidate periods that are tried.
const TRIED: usize = 24;
/// The number of first instants from which each is tried.
const STARTS: usize = 4;
/// The tolerances, as divisors of the period, the widest first.
const TOLERANCES: [i64; 4] = [5, 10, 20, 50];
/// The limit of chance. If chance covers more than this, being covered means nothing.
const LUCK: f64 = 0.6;
/// The number of standard deviations above chance that must be covered, because the period was
/// chosen among many.
const SCATTERS: f64 = 5.0;
/// The least confidence at which a thread is called periodic.
pub const SURE: f64 = 0.6;
/// The least part of all wake-ups that a second period must explain, and its least confidence.
const SECOND: (f64, f64) = (0.15, 0.75);

/// A period, and its confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// The average time from one wake-up to the next.
    pub period: Duration,
    /// The confidence from 0 to 1: `(covered − by_chance) / (1 − by_chance)`. It is 1 if a wake-up
    /// came at every expected instant, and 0 for random wake-ups or if chance alone could explain
    /// them.
    pub confidence: f64,
    /// The part of the expected instants at which a wake-up came.
    pub covered: f64,
    /// The part of the expected instants at which a random wake-up would have come.
    pub by_chance: f64,
    /// The greatest distance of a wake-up from its expected instant at which it counts.
    pub tolerance: Duration,
    /// The part of all wake-ups that are at expected instants. The others belong to the same burst,
    /// to other periods, or to none.
    pub explains: f64,
    /// The 95th percentile of the distance of wake-ups from their expected instants.
    pub jitter: Duration,
    /// The instants do not follow one timeline: each comes a period after the previous one, as with
    /// a relative sleep.
    pub drifts: bool,
    /// The indices of the instants that belong to the period.
    pub at: Vec<usize>,
}

/// The periods of a thread. The first explains the most; there is a second if two interleave.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The periods, at least one.
    pub periods: Vec<Period>,
}

impl Found {
    /// Returns the shortest period, which is the period of a reservation for all of them.
    pub fn shortest(&self) -> Option<&Period> {
        self.periods.iter().min_by_key(|one| one.period)
    }
}

/// The reason why a thread is not called periodic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotPeriodic {
    /// There are too few jobs to decide.
    TooFew {
        /// The number of jobs.
        jobs: usize,
    },
    /// The releases follow no period.
    Irregular {
        /// The best candidate.
        period: Duration,
        /// Its confidence, less than [`SURE`].
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
/// At most seven other wake-ups lie between two that are a period apart, unless both follow a
/// pause. Periods are steady over the releases: the period is chosen from the newest 1,024.
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
    // An i64 holds 292 years of nanoseconds.
    let since = |at: &Instant| i64::try_from(at.saturating_since(origin).as_nanos());
    let mut at: Vec<i64> = releases.iter().map(|at| since(at).unwrap_or(i64::MAX / 4)).collect();
    // Timers that expire together may be reported in any order.
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

/// Returns whether `period` is nearly a multiple of `of`. The remaining wake-ups of a burst have
/// the burst's own period.
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
    // The chosen period is followed again through all instants, from the first that fits.
    let all = (0..STARTS.min(at.len()))
        .filter_map(|start| follow(at, start, train.period, train.tolerance, gain))
        .max_by_key(|train| train.hits.len())
        .ok_or(too_few)?;
    let train = if all.hits.len() < LEAST { return Err(too_few) } else { all };
    let period = period_of(&train, at);
    if period.confidence < SURE {
        let (period, confidence) = (period.period, period.confidence);
        return Err(NotPeriodic::Irregular { period, confidence });
    }
    Ok(period)
}

/// Returns the train with the narrowest tolerance whose confidence is about the best. Measures the
/// period on the way.
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
        // The first tolerance is always taken. Narrower ones must be nearly as confident.
        if best.as_ref().is_none_or(|(before, _)| sure >= before - 0.02) {
            let most = best.map_or(sure, |(before, _)| before.max(sure));
            best = Some((most, train));
        }
    }
    best.map(|(_, train)| train)
}

fn confidence(train: &Train, at: &[i64]) -> f64 {
    let (covered, by_chance) = (train.covered(), train.by_chance(at));
    // The number of hits that chance would give, and their variance (binomial distribution).
    let slots = train.slots.max(1) as f64;
    let beyond = (covered - by_chance) * slots;
    let scatter = slots * by_chance * (1.0 - by_chance);
    if by_chance > LUCK || beyond * beyond < SCATTERS * SCATTERS * scatter {
        return 0.0;
    }
    ((covered - by_chance) / (1.0 - by_chance).max(1e-9)).clamp(0.0, 1.0)
}

/// Scores a train. Confidence counts twice, then the part of the wake-ups that it explains. A
/// period thus wins over its multiples, which are as confident and explain less, and over its
/// fractions, which are less confident.
fn score(train: &Train, at: &[i64]) -> f64 {
    let sure = confidence(train, at);
    let explains = train.hits.len() as f64 / at.len() as f64;
    sure * sure * explains
}

/// Returns the most frequent distances between instants as candidate periods, the most frequent
/// first.
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

/// Returns the instants that come after a pause of more than three times the usual one.
fn bursts(at: &[i64]) -> Vec<i64> {
    let mut gaps: Vec<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    let after_pause = at.windows(2).filter(|pair| pair[1] - pair[0] > 3 * usual);
    after_pause.map(|pair| pair[1]).collect()
}

/// Returns the indices to start from: some of the first instants, and the first of a burst.
fn starts(at: &[i64]) -> Vec<usize> {
    let mut starts: Vec<usize> = (0..STARTS.min(at.len())).collect();
    let first_of_burst = bursts(at).first().and_then(|first| at.binary_search(first).ok());
    starts.extend(first_of_burst.filter(|&first| first >= STARTS && first < at.len() / 4));
    starts
}

fn period_of(train: &Train, at: &[i64]) -> Period {
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
