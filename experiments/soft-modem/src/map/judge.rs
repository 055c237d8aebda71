//! Decides whether a reservation is enough for a device: ten calls, as in the study's Table 3.

use punctual_analysis::Steps;
use punctual_analysis::supply::{Guarantee, Supply};
use punctual_model::{Duration, Instant, Reservation};
use punctual_sim::processor::{Periods, Place, Processor};

use crate::virtual_time::driver::{Call, Device, Outcome, run};
use crate::virtual_time::service::{Bandwidth, Turns, When, WithTurns};

/// Calls for each reservation.
pub const CALLS: u64 = 10;

/// The length of each call: as long as the study's transfer of 200,000 bytes (Table 2).
pub const LENGTH: Duration = Duration::from_secs(37);

/// The share of samples lost above which a call ends: then it is insufficient in any case. The
/// study calls "marginal" what worked sometimes or slowly, without a number; this number is ours.
pub const MARGINAL_PPM: u64 = 50_000;

/// The placement of a reservation's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Hard, at a fixed place in every period, as by the study's scheduler.
    Fixed,
    /// Hard, as early as possible.
    Early,
    /// Hard, as late as possible.
    Late,
    /// At a fixed place, and an ordinary thread's turns outside.
    Soft,
}

impl Served {
    /// All placements, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Fixed, Self::Early, Self::Late, Self::Soft];

    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Early => "early",
            Self::Late => "late",
            Self::Soft => "soft",
        }
    }

    /// Returns the guarantee of a thread served in this way.
    pub fn guarantee(self) -> Guarantee {
        match self {
            Self::Fixed | Self::Soft => Guarantee::EveryWindow,
            Self::Early | Self::Late => Guarantee::EveryPeriod,
        }
    }

    /// Returns the number of distinct calls: if a reservation begins when the thread wakes, all
    /// calls are the same.
    pub fn calls(self) -> u64 {
        match self {
            Self::Fixed | Self::Soft => CALLS,
            Self::Early | Self::Late => 1,
        }
    }
}

/// The result of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Calls that lost no sample.
    pub intact: u64,
    /// Calls made.
    pub calls: u64,
    /// The largest loss of a call, in millionths of its samples; for a call that was given up, the
    /// loss until then.
    pub worst_ppm: u64,
}

/// The three classes of the study's Figure 17.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// No call lost a sample.
    Sufficient,
    /// Some calls lost samples, none more than [`MARGINAL_PPM`].
    Marginal,
    /// A call lost more.
    Insufficient,
}

impl Class {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sufficient => "sufficient",
            Self::Marginal => "marginal",
            Self::Insufficient => "insufficient",
        }
    }
}

impl Verdict {
    const NONE: Self = Self { intact: 0, calls: 0, worst_ppm: 0 };

    fn and(self, outcome: &Outcome) -> Self {
        Self {
            intact: self.intact + u64::from(outcome.is_intact()),
            calls: self.calls + 1,
            worst_ppm: self.worst_ppm.max(outcome.lost_ppm()),
        }
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        if self.intact == self.calls {
            Class::Sufficient
        } else if self.worst_ppm > MARGINAL_PPM {
            Class::Insufficient
        } else {
            Class::Marginal
        }
    }
}

/// Returns true if the analysis proves `reservation` enough for `device`, given `guarantee`. An
/// undecided case counts as not proven.
pub fn predicted(device: &Device, reservation: Reservation, guarantee: Guarantee) -> bool {
    const STEPS: u64 = 200_000;
    device.demand().is_some_and(|demand| {
        demand.sufficient(&Supply::new(reservation, guarantee), &mut Steps::new(STEPS)).is_ok()
    })
}

/// Simulates the calls of `device` under `reservation`. If given, `hard` is the verdict of the same
/// calls without turns outside, which only add service. A call that loses more than `give_up_ppm`
/// is ended.
pub fn judge(
    device: &Device,
    reservation: Reservation,
    served: Served,
    hard: Option<Verdict>,
    give_up_ppm: u64,
) -> Verdict {
    if served == Served::Soft && hard.is_some_and(|hard| hard.intact == hard.calls) {
        return hard.unwrap_or(Verdict::NONE);
    }
    let calls = 0..served.calls();
    calls.fold(Verdict::NONE, |verdict, at| {
        verdict.and(&one(device, reservation, served, at, give_up_ppm))
    })
}

/// Returns true if the first of [`CALLS`] at a fixed place loses no sample: its interrupts have the
/// worst phase to the slots.
pub fn first_call_is_intact(device: &Device, reservation: Reservation) -> bool {
    one(device, reservation, Served::Fixed, 0, 0).is_intact()
}

/// Simulates one call. In the first call, interrupts come exactly at the end of a slot, where the
/// next service is farthest away; in the others as close to it as the two periods allow.
fn one(
    device: &Device,
    reservation: Reservation,
    served: Served,
    at: u64,
    give_up_ppm: u64,
) -> Outcome {
    let (device_period, period) = (device.period.as_nanos(), reservation.period().as_nanos());
    let common = gcd(device_period, period);
    let phase = Duration::from_nanos(common / CALLS * at);
    let start = Instant::ZERO + reservation.budget().at_full_speed() + phase;
    let call = |repeats_after| Call {
        start,
        interrupts: LENGTH / device.period,
        give_up_ppm,
        repeats_after,
    };
    let fixed = Periods::new(reservation, Instant::ZERO, Place::Early);
    match served {
        Served::Fixed => go(device, fixed, call(Some(period / common))),
        Served::Early => go(device, Bandwidth::new(reservation, When::Early), call(None)),
        Served::Late => go(device, Bandwidth::new(reservation, When::Late), call(None)),
        Served::Soft => {
            // Each call has a different phase to the others' turns.
            let turns = Turns::OF_THE_STUDY;
            let round = turns.slice * (u64::from(turns.competitors) + 1);
            let origin = Instant::ZERO + round * at / CALLS;
            go(device, WithTurns::new(fixed, Turns { origin, ..turns }), call(None))
        }
    }
}

fn go<P: Processor>(device: &Device, mut processor: P, call: Call) -> Outcome {
    run(device, &mut processor, call)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
