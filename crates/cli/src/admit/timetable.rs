//! The reservations of each CPU as a timetable, with what it costs, for `--explain`.

use comfy_table::Table;
use punctual_analysis::supply::{Limits, Share, build};
use punctual_analysis::{Grant, Steps};
use punctual_model::{Duration, HostProfile, Reservation};
use serde::Serialize;

use super::text::{align_right, table};

/// One reservation in the timetable of its CPU, where it gets X in every window of length Y.
#[derive(Serialize)]
pub(super) struct Row {
    reservation: String,
    cpu: u16,
    /// Null if its CPU has no timetable; `why` gives the reason.
    share: Option<Served>,
    why: Option<String>,
}

#[derive(Serialize)]
struct Served {
    budget_ns: u64,
    period_ns: u64,
    slots_a_period: usize,
    longest_gap_ns: u64,
    bandwidth_ppm: u128,
    above_x_over_y_ppm: u128,
}

/// Returns a row for each granted reservation, in the order of the contract.
pub(super) fn rows(grant: &Grant, host: &HostProfile) -> Vec<Row> {
    let mut rows: Vec<Option<Row>> = grant.reservations.iter().map(|_| None).collect();
    let mut cpus: Vec<u16> = grant.reservations.iter().map(|granted| granted.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let limits = Limits::of(host);
    for cpu in cpus {
        let here: Vec<usize> =
            (0..rows.len()).filter(|&at| grant.reservations[at].cpu == cpu).collect();
        let reservations: Vec<Reservation> =
            here.iter().map(|&at| grant.reservations[at].reservation).collect();
        let built = build(&reservations, limits, &mut Steps::default());
        for (position, at) in here.into_iter().enumerate() {
            rows[at] = Some(Row {
                reservation: grant.reservations[at].name.clone(),
                cpu,
                share: built.as_ref().ok().map(|built| served(&built.shares[position])),
                why: built.as_ref().err().map(ToString::to_string),
            });
        }
    }
    rows.into_iter().flatten().collect()
}

fn served(share: &Share) -> Served {
    Served {
        budget_ns: share.budget.as_nanos(),
        period_ns: share.period.as_nanos(),
        slots_a_period: share.pieces,
        longest_gap_ns: share.longest_gap.as_nanos(),
        bandwidth_ppm: share.bandwidth.ppm_above(),
        above_x_over_y_ppm: share.above.ppm_above(),
    }
}

/// Returns the table for a person, or `None` without reservations.
pub(super) fn page(rows: &[Row]) -> Option<Table> {
    let header =
        ["in a timetable", "CPU", "gets", "every", "longest gap", "of the CPU, ppm", "above X/Y"];
    let mut table = table(&header);
    for Row { reservation, cpu, share, why } in rows {
        let time = |nanos: u64| Duration::from_nanos(nanos).to_string();
        let numbers = match (share, why) {
            (Some(share), _) => [
                time(share.budget_ns),
                time(share.period_ns),
                time(share.longest_gap_ns),
                share.bandwidth_ppm.to_string(),
                share.above_x_over_y_ppm.to_string(),
            ],
            (None, why) => {
                let why = why.clone().unwrap_or_default();
                [why, "-".into(), "-".into(), "-".into(), "-".into()]
            }
        };
        table.add_row([vec![reservation.clone(), cpu.to_string()], numbers.into()].concat());
    }
    align_right(&mut table, 1..=6);
    (!rows.is_empty()).then_some(table)
}
