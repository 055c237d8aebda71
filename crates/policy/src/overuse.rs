//! Detects that a thread uses more processor time than its grant, at any period of its work.
//!
//! [`Overuse`] is a leaky bucket. Use flows in, the granted rate flows out, and the level is the
//! use ahead of the grant. The level is never below zero: an idle thread saves nothing. So only
//! lower use over time repays a debt; one quiet window does not.
//!
//! [`Nearness`] reports once when a thread's use comes close to its grant.
//!
//! The driver calls both at instants of its choice, with the time and the total processor time that
//! the thread has received. Neither may decrease.

use punctual_model::{Duration, Instant, Service};

/// Parts per million in a whole.
const WHOLE: u128 = 1_000_000;

/// The use beyond the share that is tolerated forever, in parts per million of the share.
pub const TOLERANCE_PPM: u64 = 50_000;

/// The shortest averaging window. Four periods of the work are used instead if they are longer.
const WINDOW: Duration = Duration::from_secs(1);

/// The longest lag of the kernel's accounting of a running thread: a scheduler tick at 100 Hz.
pub const ACCOUNT_LAG: Duration = Duration::from_millis(10);

/// The tolerated debt, as the idle time that repays it.
const PATIENCE: Duration = Duration::from_secs(4);

/// The least debt that is tolerated: time to react to a warning.
const LEAST_PATIENCE: Service = Service::from_millis(100);

/// The terms of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The rate in parts per million of a CPU, including the tolerance; at least 1.
    rate_ppm: u64,
    /// The use ahead of the rate that is allowed without a warning.
    depth: Service,
    /// The further use until the grant is revoked.
    patience: Service,
    /// The time within which a debt must be repaid, or the grant is revoked.
    within: Duration,
    window: Duration,
}

impl Terms {
    /// Returns the terms of a grant of `share_ppm` of a CPU that may use up to `burst` at once, for
    /// work whose longest period is `longest` (zero if it has none).
    ///
    /// The depth is a burst, the amount granted in a second or in four periods, and the lag of the
    /// accounting. So conforming work stays within its terms even while it catches up with missed
    /// work, and however its jobs fall between two checks.
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

    /// Returns the level above which a grant is revoked.
    fn most(&self) -> Service {
        self.depth.saturating_add(self.patience)
    }

    /// Returns the most processor time that a grant can take in any window of length `window` until
    /// its class is revoked, if at most `reaction` passes from one check to the end of the next,
    /// including the revocation for a [`Broken`](Verdict::Broken) grant. That is
    /// `rate · window + D` with `D = depth + patience + reaction`.
    ///
    /// *Proof sketch.* Checks are at `t₀ < t₁ < …`, watching began at `t₀`, and `U(a, b)` is the
    /// use in between. The level after check `k` is
    /// `L_k = max(0, L_{k−1} + U(t_{k−1}, t_k) − r·(t_k − t_{k−1}))`, so by induction
    /// `L_k ≥ U(t_j, t_k) − r·(t_k − t_j)` for each `j ≤ k`. A check that does not end the grant
    /// leaves `L_k ≤ B`, with `B = depth + patience`. In a window `[s, e)`, let `t_j` be the last
    /// check not after `s`, and `t_k` the last check not after `e` that did not end the grant. A
    /// thread runs on one CPU at a time, so `U(t_k, e) ≤ e − t_k`, and `e − t_k ≤ R` for the
    /// reaction `R`: the next check comes within `R`, and if it ends the grant then `e` is not
    /// later. Therefore
    ///
    /// `U(s, e) ≤ U(t_j, t_k) + U(t_k, e) ≤ r·(t_k − t_j) + B + (e − t_k)`
    /// `= r·(e − s) + r·(s − t_j) + B + (1 − r)·(e − t_k) ≤ r·(e − s) + B + R`,
    ///
    /// because both `s − t_j` and `e − t_k` are at most `R`. If no check lies in the window then
    /// `U(s, e) ≤ e − s ≤ R`. ∎
    ///
    /// The bound is tight: a thread that fills the bucket at full speed just before a check, and
    /// runs on until the next, comes as close to it as the checks are regular.
    ///
    /// If the kernel's accounting may lag, `reaction` must include [`ACCOUNT_LAG`], and likewise
    /// the time that revoking the class takes.
    #[must_use]
    pub fn bound(&self, window: Duration, reaction: Duration) -> Service {
        granted(self.rate_ppm, window).saturating_add(self.ahead(reaction))
    }

    /// Returns `D` of the [bound](Self::bound): depth, patience and reaction.
    #[must_use]
    pub fn ahead(&self, reaction: Duration) -> Service {
        // One nanosecond for the fraction that was rounded off the rate.
        self.most()
            .saturating_add(reaction.as_full_service())
            .saturating_add(Service::from_nanos(1))
    }
}

/// The result of a check.
#[must_use = "a grant that is broken must be taken back"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The use is within the grant, or the holder was warned and may still repay.
    Within,
    /// The use exceeds the grant: warn the holder. Reported once, until half of the depth is free
    /// again.
    Over(Debt),
    /// The debt is too large or too old: revoke the grant.
    Broken(Debt),
}

/// Processor time that was used ahead of the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// The debt beyond the depth.
    pub owed: Service,
    /// The grant is revoked when the debt exceeds this amount,
    pub most: Service,
    /// or when it is not repaid by this time.
    pub until: Instant,
}

/// The leaky bucket of one thread. All arithmetic is exact: the level is counted in millionths of a
/// nanosecond, so both a nanosecond of use and a nanosecond at the rate are whole numbers.
#[derive(Clone, Debug)]
pub struct Overuse {
    terms: Terms,
    /// 128 bits hold 2⁶⁴ nanoseconds of use in addition to any debt at any real rate.
    level: u128,
    last: Instant,
    used: Service,
    over_since: Option<Instant>,
}

impl Overuse {
    /// Begins to watch a thread that has received `used` so far. `owed` is the idle time owed by an
    /// earlier grant ([`rest_owed`](Self::rest_owed)): returning a grant and requesting it again
    /// clears no debt.
    pub fn new(terms: Terms, now: Instant, used: Service, owed: Duration) -> Self {
        let level = u128::from(owed.as_nanos()) * u128::from(terms.rate_ppm);
        Self { terms, level, last: now, used, over_since: None }
    }

    /// Checks the thread, which has received `used` in total by `now`.
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

    /// Returns the idle time that would repay the thread's debt, rounded up.
    pub fn rest_owed(&self) -> Duration {
        rest(self.level, self.terms.rate_ppm)
    }

    /// Changes the terms. The debt stays, as the idle time that would repay it.
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

/// Averages use, and detects when it comes near the grant.
#[derive(Clone, Debug)]
pub struct Nearness {
    since: Instant,
    used: Service,
    near: bool,
}

/// The use of a CPU in a window.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The use in parts per million.
    pub ppm: u64,
    /// True if it is the first at 90 % of the grant or more since one was below 80 %: inform the
    /// holder.
    pub comes_near: bool,
}

impl Nearness {
    /// Begins the first window. The thread has received `used` so far.
    pub fn new(now: Instant, used: Service) -> Self {
        Self { since: now, used, near: false }
    }

    /// Checks the thread, and ends the window if it has the length in `terms`.
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

/// Returns a time in millionths of a nanosecond.
fn units(time: Service) -> u128 {
    u128::from(time.as_nanos()) * WHOLE
}

/// Returns the time of so many millionths of a nanosecond, rounded up.
fn whole(units: u128) -> Service {
    Service::from_nanos(saturating(units.div_ceil(WHOLE)))
}

/// Returns the processor time that a rate grants in `length`, rounded down.
fn granted(rate_ppm: u64, length: Duration) -> Service {
    let nanos = u128::from(length.as_nanos()) * u128::from(rate_ppm) / WHOLE;
    Service::from_nanos(saturating(nanos))
}

/// Returns the time in which a level drains, rounded up.
fn rest(level: u128, rate_ppm: u64) -> Duration {
    Duration::from_nanos(saturating(level.div_ceil(u128::from(rate_ppm))))
}

fn saturating(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
