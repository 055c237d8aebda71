//! Whether a thread uses more processor time than it was granted, whatever its rhythm.
//!
//! [`Overuse`] is a leaky bucket. What is used flows in, what is granted flows out, and the level is
//! what was used ahead of the grant. It is never below zero: who rests saves nothing up. So debt is
//! paid back by using less, and by nothing else; in particular not by one quiet window.
//!
//! [`Nearness`] tells a holder once that its use comes close to what it was granted.
//!
//! Both are told the time and the processor time that the thread has received since it began, at
//! instants of the driver's choice. Instants and sums never go back.

use punctual_model::{Duration, Instant, Service};

/// Parts per million in a whole.
const WHOLE: u128 = 1_000_000;

/// Use beyond the share that is tolerated for ever: of the share, in parts per million.
pub const TOLERANCE_PPM: u64 = 50_000;

/// The shortest time over which use is averaged; it holds at least four periods.
const WINDOW: Duration = Duration::from_secs(1);

/// How much the kernel's account of a running thread may be behind: a scheduler tick at 100 Hz.
pub const ACCOUNT_LAG: Duration = Duration::from_millis(10);

/// Debt is tolerated for as long as it can be paid back by resting for so long.
const PATIENCE: Duration = Duration::from_secs(4);

/// At least so much debt is tolerated: time to hear a warning and to act on it.
const LEAST_PATIENCE: Service = Service::from_millis(100);

/// What a grant may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Of a CPU, the tolerance included, at least 1.
    rate_ppm: u64,
    /// Use may run so far ahead of the rate without a word.
    depth: Service,
    /// And so much further until the grant is taken back.
    patience: Service,
    /// Debt is paid back within that, or the grant is taken back.
    within: Duration,
    window: Duration,
}

impl Terms {
    /// Returns the terms of a grant of `share_ppm` of a CPU that may use up to `burst` at once, for
    /// work whose longest period is `longest` (zero if it has none).
    ///
    /// The depth is a burst, what is granted in a second or in four periods, and what the account
    /// may be behind. So work that keeps to its contract is within its terms also while it catches
    /// up with what it missed, and however its jobs lie between two looks.
    pub fn new(share_ppm: u64, burst: Service, longest: Duration) -> Self {
        let tolerated = u128::from(share_ppm) * u128::from(TOLERANCE_PPM) / WHOLE;
        let rate_ppm = share_ppm.saturating_add(saturating(tolerated)).max(1);
        let four = Duration::from_nanos(longest.as_nanos().saturating_mul(4));
        let window = WINDOW.max(four);
        let depth = burst
            .saturating_add(granted(rate_ppm, window))
            .saturating_add(ACCOUNT_LAG.as_full_service());
        let patience = granted(rate_ppm, PATIENCE).max(LEAST_PATIENCE);
        let rest = rest(units(depth.saturating_add(patience)), rate_ppm);
        let within = Duration::from_nanos(rest.as_nanos().saturating_mul(2));
        Self { rate_ppm, depth, patience, within, window }
    }

    /// Returns the level above which a grant is taken back.
    fn most(&self) -> Service {
        self.depth.saturating_add(self.patience)
    }

    /// Returns how much processor time a grant can take at most in any window of length `window`
    /// until its class has been taken back, if no more than `reaction` goes by from one look to the
    /// end of the next, the taking of the class of a [`Broken`](Verdict::Broken) grant included. That
    /// is `rate · window + D` with `D = depth + patience + reaction`.
    ///
    /// *Proof sketch.* Looks are at `t₀ < t₁ < …`, watching began at `t₀`, and `U(a, b)` is the use
    /// in between. The level after look `k` is `L_k = max(0, L_{k−1} + U(t_{k−1}, t_k) − r·(t_k −
    /// t_{k−1}))`, so by induction `L_k ≥ U(t_j, t_k) − r·(t_k − t_j)` for each `j ≤ k`. A look that
    /// does not end the grant leaves `L_k ≤ B`, with `B = depth + patience`. Let a window `[s, e)`
    /// have `t_j` as the last look not after `s`, and `t_k` as the last look not after `e` that did
    /// not end the grant. A thread runs on one CPU at a time, so `U(t_k, e) ≤ e − t_k`, and
    /// `e − t_k ≤ R` for the reaction `R`: the next look comes within `R`, and if it ends the grant
    /// then `e` is not later. Therefore
    ///
    /// `U(s, e) ≤ U(t_j, t_k) + U(t_k, e) ≤ r·(t_k − t_j) + B + (e − t_k)`
    /// `= r·(e − s) + r·(s − t_j) + B + (1 − r)·(e − t_k) ≤ r·(e − s) + B + R`,
    ///
    /// because both `s − t_j` and `e − t_k` are at most `R`. If no look lies in the window then
    /// `U(s, e) ≤ e − s ≤ R`. ∎
    ///
    /// It is tight: a thread that fills the bucket at full speed just before a look, and runs on
    /// until the next, comes as close to it as the looks are regular.
    ///
    /// Where the account of the kernel may be behind, `reaction` includes [`ACCOUNT_LAG`]; where
    /// taking the class takes time, that too.
    #[must_use]
    pub fn bound(&self, window: Duration, reaction: Duration) -> Service {
        granted(self.rate_ppm, window).saturating_add(self.ahead(reaction))
    }

    /// Returns `D` of the [bound](Self::bound): depth, patience and reaction.
    #[must_use]
    pub fn ahead(&self, reaction: Duration) -> Service {
        // One nanosecond for the part of one that was rounded off the rate.
        self.most()
            .saturating_add(reaction.as_full_service())
            .saturating_add(Service::from_nanos(1))
    }
}

/// What a look found.
#[must_use = "a grant that is broken must be taken back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The grant is kept, or the holder was told already and may still pay back.
    Within,
    /// More was used than granted: the holder is to be warned. Said once, until half of the depth is
    /// free again.
    Over(Debt),
    /// The debt is too large or too old: the grant is to be taken back.
    Broken(Debt),
}

/// Processor time that was used ahead of what was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// What it is, beyond what may be used ahead.
    pub owed: Service,
    /// The grant is taken back when it is more than this,
    pub most: Service,
    /// or if it has not been paid back by then.
    pub until: Instant,
}

/// The leaky bucket of one thread. All arithmetic is exact: the level is counted in millionths of a
/// nanosecond, of which both a nanosecond of use and a nanosecond at the rate are a whole number.
#[derive(Clone, Debug)]
pub struct Overuse {
    terms: Terms,
    /// In 128 bits there is room for 2⁶⁴ nanoseconds of use beside any debt at any real rate.
    level: u128,
    last: Instant,
    used: Service,
    over_since: Option<Instant>,
}

impl Overuse {
    /// Begins to watch a thread that has received `used` so far. `owed` is the rest that a grant
    /// before this one was due ([`rest_owed`](Self::rest_owed)): to give a grant back and to ask for
    /// it again clears no debt.
    pub fn new(terms: Terms, now: Instant, used: Service, owed: Duration) -> Self {
        let level = u128::from(owed.as_nanos()) * u128::from(terms.rate_ppm);
        Self { terms, level, last: now, used, over_since: None }
    }

    /// Looks: the thread has received `used` in all by `now`.
    pub fn look(&mut self, now: Instant, used: Service) -> Verdict {
        let elapsed = now.saturating_since(self.last);
        let more = used.saturating_sub(self.used);
        let out = u128::from(elapsed.as_nanos()) * u128::from(self.terms.rate_ppm);
        self.level = self.level.saturating_add(units(more)).saturating_sub(out);
        (self.last, self.used) = (now.max(self.last), used.max(self.used));

        let terms = &self.terms;
        let was_over = self.over_since.is_some();
        if self.level > units(terms.depth) {
            self.over_since.get_or_insert(now);
        } else if self.level <= units(terms.depth) / 2 {
            self.over_since = None;
        }
        let Some(since) = self.over_since else { return Verdict::Within };
        let debt = Debt {
            owed: whole(self.level.saturating_sub(units(terms.depth))),
            most: terms.patience,
            until: since.saturating_add(terms.within),
        };
        if self.level > units(terms.most()) || now > debt.until {
            Verdict::Broken(debt)
        } else if was_over {
            Verdict::Within
        } else {
            Verdict::Over(debt)
        }
    }

    /// Returns for how long the thread would have to rest until it owes nothing, rounded up.
    pub fn rest_owed(&self) -> Duration {
        rest(self.level, self.terms.rate_ppm)
    }

    /// Holds the thread to other terms from here on. What it owes stays, as the rest that would pay
    /// it back.
    pub fn change(&mut self, terms: Terms) {
        let owed = self.rest_owed();
        self.level = u128::from(owed.as_nanos()) * u128::from(terms.rate_ppm);
        self.terms = terms;
    }

    /// Returns the terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// Averages use, and finds out when it comes near to what is granted.
#[derive(Clone, Debug)]
pub struct Nearness {
    since: Instant,
    used: Service,
    near: bool,
}

/// Use of a CPU in a window.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// In parts per million.
    pub ppm: u64,
    /// Whether it is the first at 90 % of the grant or more since one was below 80 %: the holder is
    /// to be told.
    pub comes_near: bool,
}

impl Nearness {
    /// Begins a first window: the thread has received `used` so far.
    pub fn new(now: Instant, used: Service) -> Self {
        Self { since: now, used, near: false }
    }

    /// Looks, and ends the window if it is as long as `terms` ask for.
    pub fn look(
        &mut self,
        now: Instant,
        used: Service,
        granted_ppm: u64,
        terms: &Terms,
    ) -> Option<Average> {
        if now.saturating_since(self.since) < terms.window {
            return None;
        }
        let ppm = self.ppm_at(now, used);
        (self.since, self.used) = (now, used);
        let at_least =
            |percent: u64| u128::from(ppm) * 100 >= u128::from(granted_ppm) * u128::from(percent);
        let comes_near = at_least(90) && !self.near;
        self.near = at_least(90) || (self.near && at_least(80));
        Some(Average { ppm, comes_near })
    }

    /// Returns the use of a CPU since the window began, in parts per million.
    pub fn ppm_at(&self, now: Instant, used: Service) -> u64 {
        let length = now.saturating_since(self.since).as_nanos().max(1);
        saturating(units(used.saturating_sub(self.used)) / u128::from(length))
    }
}

/// A time in millionths of a nanosecond.
fn units(time: Service) -> u128 {
    u128::from(time.as_nanos()) * WHOLE
}

/// The same backwards, rounded up.
fn whole(units: u128) -> Service {
    Service::from_nanos(saturating(units.div_ceil(WHOLE)))
}

/// What a rate grants in a time, rounded down.
fn granted(rate_ppm: u64, length: Duration) -> Service {
    let nanos = u128::from(length.as_nanos()) * u128::from(rate_ppm) / WHOLE;
    Service::from_nanos(saturating(nanos))
}

/// How long a level takes to run off, rounded up.
fn rest(level: u128, rate_ppm: u64) -> Duration {
    Duration::from_nanos(saturating(level.div_ceil(u128::from(rate_ppm))))
}

fn saturating(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
