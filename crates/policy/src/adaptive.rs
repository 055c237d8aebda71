//! Adapts the size of a reservation to the measured work.
//!
//! The soft modem study names two ways to choose the amount (§5.4): from the time that a pass
//! really used, and from whether earlier passes finished in time; "both techniques may also be
//! employed in combination". This is the combination:
//!
//! - After a pass that did not finish in time, it asks for more at once: a quarter more than now,
//!   or the largest pass seen plus its margin, whichever is larger.
//! - After a run of passes that were all in time, it asks for the largest of them plus its margin,
//!   if that is less than now by more than the margin. So small changes of the load change nothing.
//! - The time that a pass used is scaled from the passes' period to the reservation's:
//!   `used · Y / P`.
//! - After a refusal it does not repeat the request for a run. If the refusal offers more than now,
//!   it accepts the offer.
//!
//! The period stays: it follows from the device's latency (the study's gap condition), not from its
//! load.

use punctual_model::{Duration, Instant, Reservation, Service};

/// The limits of the amount and the parameters of the adaptation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The smallest budget.
    pub least: Service,
    /// The largest budget.
    pub most: Service,
    /// The period of the passes.
    pub pass_every: Duration,
    /// The margin above the largest pass, in percent.
    pub margin_percent: u32,
    /// The number of passes in a run.
    pub run: u32,
}

/// A decision about the reservation.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Keep the reservation.
    Keep,
    /// Request this reservation, then call [`Adaptive::applied`] or [`Adaptive::refused`].
    Change(Reservation),
}

/// The rule that the bounds break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBounds {
    /// The least is zero or above the most, or the most is above the period.
    Amounts,
    /// The passes have no period, or a run has no passes.
    Passes,
}

impl core::fmt::Display for BadBounds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Amounts => {
                "the bounds of an adaptive reservation must be 0 < least <= its budget <= most <= its \
                 period"
            }
            Self::Passes => "passes must have a period, and a run at least one pass",
        })
    }
}

impl core::error::Error for BadBounds {}

/// The state of one adaptive reservation.
///
/// Call order: [`pass`](Self::pass) after each pass; after a [`Decision::Change`] one of
/// [`applied`](Self::applied) and [`refused`](Self::refused) before the next.
#[derive(Clone, Copy, Debug)]
pub struct Adaptive {
    bounds: Bounds,
    now: Reservation,
    request: Option<Reservation>,
    /// The largest pass of this run, and the number of its passes so far.
    largest: Service,
    passes: u32,
    /// The number of passes until more may be requested, after a refusal.
    hold: u32,
}

impl Adaptive {
    /// Starts with the most: an excess shrinks after one run, but a shortage loses data.
    pub fn new(bounds: Bounds, period: Duration) -> Result<Self, BadBounds> {
        if bounds.pass_every.is_zero() || bounds.run == 0 {
            return Err(BadBounds::Passes);
        }
        if bounds.least.is_zero() || bounds.least > bounds.most {
            return Err(BadBounds::Amounts);
        }
        let now = Reservation::new(bounds.most, period).map_err(|_| BadBounds::Amounts)?;
        Ok(Self { bounds, now, request: None, largest: Service::ZERO, passes: 0, hold: 0 })
    }

    /// Starts with another budget than the most.
    ///
    /// # Errors
    /// [`BadBounds::Amounts`] if it is not within the bounds.
    pub fn starting_with(self, budget: Service) -> Result<Self, BadBounds> {
        let Bounds { least, most, .. } = self.bounds;
        if !(least..=most).contains(&budget) {
            return Err(BadBounds::Amounts);
        }
        let now = Reservation::new(budget, self.now.period()).map_err(|_| BadBounds::Amounts)?;
        Ok(Self { now, ..self })
    }

    /// Returns the current reservation.
    pub fn reservation(&self) -> Reservation {
        self.now
    }

    /// Records a pass that ended at `now`, used `used`, and did or did not finish in time.
    ///
    /// `now` only orders the calls. Decisions count passes, so a device that pauses loses nothing.
    pub fn pass(&mut self, _now: Instant, used: Service, finished_in_time: bool) -> Decision {
        self.largest = self.largest.max(used);
        self.passes += 1;
        self.hold = self.hold.saturating_sub(1);
        let needed = self.needed();
        let budget = self.now.budget();
        if !finished_in_time {
            let more = Service::from_nanos(budget.as_nanos().saturating_add(budget.as_nanos() / 4));
            // A new run begins, so that the budget does not shrink right after a late pass.
            self.passes = 0;
            return if self.hold == 0 {
                self.request_budget(more.max(needed))
            } else {
                Decision::Keep
            };
        }
        if self.passes < self.bounds.run {
            return Decision::Keep;
        }
        self.begin_run();
        if self.with_margin(needed) < budget { self.request_budget(needed) } else { Decision::Keep }
    }

    /// Records that the requested change is in force.
    pub fn applied(&mut self) {
        if let Some(request) = self.request.take() {
            self.now = request;
            self.begin_run();
        }
    }

    /// Records that the change was refused and that `offer` would fit. Requests the offer if it is
    /// more than now; otherwise requests nothing for a run.
    pub fn refused(&mut self, offer: Option<Reservation>) -> Decision {
        self.request = None;
        self.hold = self.bounds.run;
        match offer {
            Some(offer) if offer.budget() > self.now.budget() => {
                self.request_budget(offer.budget())
            }
            _ => Decision::Keep,
        }
    }

    fn begin_run(&mut self) {
        self.passes = 0;
        self.largest = Service::ZERO;
    }

    /// Returns the budget per period for the largest pass of the run, with its margin.
    fn needed(&self) -> Service {
        let scaled = u128::from(self.largest.as_nanos()) * u128::from(self.now.period().as_nanos());
        let scaled = scaled.div_ceil(u128::from(self.bounds.pass_every.as_nanos()));
        self.with_margin(Service::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX)))
    }

    fn with_margin(&self, amount: Service) -> Service {
        let percent = 100 + u128::from(self.bounds.margin_percent);
        let more = u128::from(amount.as_nanos()).saturating_mul(percent).div_ceil(100);
        Service::from_nanos(u64::try_from(more).unwrap_or(u64::MAX))
    }

    fn request_budget(&mut self, budget: Service) -> Decision {
        let budget = budget.clamp(self.bounds.least, self.bounds.most);
        match Reservation::new(budget, self.now.period()) {
            Ok(request) if request != self.now => {
                self.request = Some(request);
                Decision::Change(request)
            }
            _ => Decision::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Service {
        Service::from_micros(n)
    }

    /// Makes the soft modem's reservation: a pass every 12.5 ms, a budget every 8 ms.
    fn adaptive() -> Adaptive {
        let bounds = Bounds {
            least: us(200),
            most: us(4_000),
            pass_every: Duration::from_micros(12_500),
            margin_percent: 15,
            run: 40,
        };
        Adaptive::new(bounds, Duration::from_millis(8)).expect("valid")
    }

    /// Runs passes of `used` each; a pass is late if the budget every 8 ms does not suffice for it.
    fn passes(adaptive: &mut Adaptive, used: Service, count: u32) -> (u32, u32) {
        let (mut changes, mut late) = (0, 0);
        for n in 0..count {
            let budget = adaptive.reservation().budget().as_nanos();
            let in_time = used.as_nanos() * 8_000 <= budget * 12_500;
            late += u32::from(!in_time);
            if let Decision::Change(_) =
                adaptive.pass(Instant::from_nanos(u64::from(n)), used, in_time)
            {
                adaptive.applied();
                changes += 1;
            }
        }
        (changes, late)
    }

    #[test]
    fn it_shrinks_to_the_measured_use_and_stays_there() {
        let mut adaptive = adaptive();
        assert_eq!(passes(&mut adaptive, us(1_800), 200), (1, 0));
        // 1.8 ms of 12.5 ms is 1.152 ms of 8 ms; with a margin of 15 %.
        assert_eq!(adaptive.reservation().budget(), Service::from_nanos(1_324_800));
    }

    #[test]
    fn one_late_pass_is_enough_to_grow_and_the_bounds_hold() {
        let mut adaptive = adaptive();
        let _ = passes(&mut adaptive, us(1_800), 100);
        // Training ends, and each pass takes 3.3 ms.
        let (changes, late) = passes(&mut adaptive, us(3_300), 100);
        assert_eq!((changes, late), (1, 1));
        assert_eq!(adaptive.reservation().budget(), Service::from_nanos(2_428_800));
        let _ = passes(&mut adaptive, us(100_000), 100);
        assert_eq!(adaptive.reservation().budget(), us(4_000));
        let _ = passes(&mut adaptive, us(1), 100);
        assert_eq!(adaptive.reservation().budget(), us(200));
    }

    #[test]
    fn small_changes_of_the_load_change_nothing() {
        let mut adaptive = adaptive();
        let _ = passes(&mut adaptive, us(1_800), 100);
        for used in [1_700, 1_850, 1_650, 1_900, 1_800] {
            assert_eq!(passes(&mut adaptive, us(used), 80), (0, 0), "{used}");
        }
    }

    #[test]
    fn late_passes_that_use_little_grow_too() {
        let mut adaptive = adaptive();
        let _ = passes(&mut adaptive, us(500), 100);
        let before = adaptive.reservation().budget().as_nanos();
        let Decision::Change(request) = adaptive.pass(Instant::ZERO, us(100), false) else {
            panic!("it was late")
        };
        assert_eq!(request.budget().as_nanos(), before + before / 4);
    }

    #[test]
    fn a_refused_wish_is_not_repeated_for_a_run_and_an_offer_is_taken() {
        let mut adaptive = adaptive();
        let _ = passes(&mut adaptive, us(1_800), 100);
        let before = adaptive.reservation();
        assert!(matches!(adaptive.pass(Instant::ZERO, us(3_300), false), Decision::Change(_)));
        let offer = Reservation::new(us(1_500), before.period()).expect("valid");
        assert_eq!(adaptive.refused(Some(offer)), Decision::Change(offer));
        assert_eq!(adaptive.refused(None), Decision::Keep);
        assert_eq!(adaptive.reservation(), before);
        for _ in 0..39 {
            assert_eq!(adaptive.pass(Instant::ZERO, us(3_300), false), Decision::Keep);
        }
        assert!(matches!(adaptive.pass(Instant::ZERO, us(3_300), false), Decision::Change(_)));
    }

    #[test]
    fn bounds_are_checked() {
        let good = adaptive().bounds;
        let period = Duration::from_millis(8);
        for (bounds, why) in [
            (Bounds { least: Service::ZERO, ..good }, BadBounds::Amounts),
            (Bounds { least: us(5_000), ..good }, BadBounds::Amounts),
            (Bounds { most: us(8_001), ..good }, BadBounds::Amounts),
            (Bounds { run: 0, ..good }, BadBounds::Passes),
            (Bounds { pass_every: Duration::ZERO, ..good }, BadBounds::Passes),
        ] {
            assert_eq!(Adaptive::new(bounds, period).expect_err("broken"), why);
        }
        let starting = |budget| adaptive().starting_with(budget);
        assert_eq!(starting(us(300)).expect("within").reservation().budget(), us(300));
        for outside in [199, 4_001] {
            assert_eq!(starting(us(outside)).expect_err("outside"), BadBounds::Amounts);
        }
    }
}
