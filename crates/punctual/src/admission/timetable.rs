//! The reservations of each CPU as a timetable, with its cost.

use punctual_analysis::supply::{Limits, Share, build};
use punctual_analysis::{Grant, Steps};
use punctual_model::{HostProfile, Reservation};
use serde::Serialize;

/// One reservation in the timetable of its CPU, where it gets X in every window of length Y.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimetableRow {
    /// The name of the reservation.
    pub reservation: String,
    /// Its CPU.
    pub cpu: u16,
    /// What it gets; `None` if its CPU has no timetable.
    pub share: Option<TimetableShare>,
    /// The reason why its CPU has no timetable.
    pub why: Option<String>,
}

/// The share of a reservation in a timetable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimetableShare {
    /// The time that it gets in each period.
    pub budget_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// The number of its slots in a period.
    pub slots_a_period: usize,
    /// The longest time between two of its slots.
    pub longest_gap_ns: u64,
    /// Its slots' part of the CPU, in parts per million.
    pub bandwidth_ppm: u128,
    /// The part beyond X/Y, in parts per million.
    pub above_x_over_y_ppm: u128,
}

/// Returns a row for each granted reservation that has no server, in the order of the contract.
pub(super) fn rows(grant: &Grant, host: &HostProfile) -> Vec<TimetableRow> {
    let mut rows: Vec<Option<TimetableRow>> = grant.reservations.iter().map(|_| None).collect();
    let mut cpus: Vec<u16> = grant.reservations.iter().map(|granted| granted.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let limits = Limits::of(host);
    // A server needs no slots.
    let is_slotted = |at: usize| grant.reservations[at].job_within.is_none();
    for cpu in cpus {
        let here: Vec<usize> = (0..rows.len())
            .filter(|&at| is_slotted(at) && grant.reservations[at].cpu == cpu)
            .collect();
        let reservations: Vec<Reservation> =
            here.iter().map(|&at| grant.reservations[at].reservation).collect();
        let built = build(&reservations, limits, &mut Steps::default());
        for (position, at) in here.into_iter().enumerate() {
            rows[at] = Some(TimetableRow {
                reservation: grant.reservations[at].name.clone(),
                cpu,
                share: built.as_ref().ok().map(|built| served(&built.shares[position])),
                why: built.as_ref().err().map(ToString::to_string),
            });
        }
    }
    rows.into_iter().flatten().collect()
}

fn served(share: &Share) -> TimetableShare {
    TimetableShare {
        budget_ns: share.budget.as_nanos(),
        period_ns: share.period.as_nanos(),
        slots_a_period: share.pieces,
        longest_gap_ns: share.longest_gap.as_nanos(),
        bandwidth_ppm: share.bandwidth.ppm_above(),
        above_x_over_y_ppm: share.above.ppm_above(),
    }
}
