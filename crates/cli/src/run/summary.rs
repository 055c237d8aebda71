//! What a program used of its reservation, for a person and for a program.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;

use punctual_linux::process::Ended;
use punctual_model::reservation::Reservation;
use punctual_model::time::{Duration, Service};
use serde::Serialize;

/// The facts when the program has ended.
pub(super) struct Summary<'a> {
    pub(super) command: &'a [OsString],
    pub(super) reservation: Reservation,
    pub(super) wall: Duration,
    pub(super) ended: Ended,
}

/// The form that other programs read: keys are never renamed, only added.
#[derive(Serialize)]
struct Json {
    command: Vec<String>,
    budget_ns: u64,
    period_ns: u64,
    wall_ns: u64,
    exec_time_ns: u64,
    exec_time_of_first_thread_ns: Option<u64>,
    periods: u64,
    offered_ns: u64,
    used_percent: f64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

impl Summary<'_> {
    /// Periods begun while it ran: in each it could use a budget.
    fn periods(&self) -> u64 {
        self.wall.as_nanos().div_ceil(self.reservation.period().as_nanos()).max(1)
    }

    /// Saturates: after 584 years.
    fn offered(&self) -> Service {
        self.reservation.budget().checked_mul(self.periods()).unwrap_or(Service::MAX)
    }

    /// What the reservation could have served: the first thread's, which alone holds it.
    fn reserved(&self) -> Service {
        self.ended.usage.first_thread.unwrap_or(self.ended.usage.processor)
    }

    fn used_percent(&self) -> f64 {
        100.0 * self.reserved().as_secs_f64() / self.offered().as_secs_f64()
    }

    /// A sentence.
    pub(super) fn text(&self) -> String {
        let usage = self.ended.usage;
        let name = self.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        format!(
            "{name} ran {:.3} s; its first thread used {:.3} s, {:.1} % of the {:.3} s that {} \
             offered (periods begun: {}), its other threads and children {:.3} s outside of it; \
             switches: {} voluntary, {} involuntary (preempted, or throttled at its budget's end)",
            self.wall.as_secs_f64(),
            self.reserved().as_secs_f64(),
            self.used_percent(),
            self.offered().as_secs_f64(),
            self.reservation,
            self.periods(),
            usage.processor.saturating_sub(self.reserved()).as_secs_f64(),
            usage.voluntary_switches,
            usage.involuntary_switches,
        )
    }

    /// One line of JSON.
    pub(super) fn json(&self) -> String {
        let usage = self.ended.usage;
        let json = Json {
            command: self.command.iter().map(|s| s.to_string_lossy().into_owned()).collect(),
            budget_ns: self.reservation.budget().as_nanos(),
            period_ns: self.reservation.period().as_nanos(),
            wall_ns: self.wall.as_nanos(),
            exec_time_ns: usage.processor.as_nanos(),
            exec_time_of_first_thread_ns: usage.first_thread.map(Service::as_nanos),
            periods: self.periods(),
            offered_ns: self.offered().as_nanos(),
            used_percent: self.used_percent(),
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            exit_code: self.ended.status.code(),
            signal: self.ended.status.signal(),
        };
        // Cannot fail: no map with keys that are not text, no writer.
        serde_json::to_string(&json).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::process::Usage;
    use std::process::ExitStatus;

    fn summary(wall: Duration, processor: Service, command: &[OsString]) -> Summary<'_> {
        Summary {
            command,
            reservation: "2ms/8ms".parse().expect("valid"),
            wall,
            ended: Ended {
                status: ExitStatus::from_raw(0),
                usage: Usage {
                    first_thread: None,
                    processor,
                    voluntary_switches: 3,
                    involuntary_switches: 4,
                },
            },
        }
    }

    #[test]
    fn a_period_that_has_begun_counts() {
        let command = ["x".into()];
        for (wall_ns, periods) in [(0, 1), (1, 1), (8_000_000, 1), (8_000_001, 2)] {
            let of = summary(Duration::from_nanos(wall_ns), Service::ZERO, &command);
            assert_eq!(of.periods(), periods);
            assert_eq!(of.offered(), Service::from_millis(2) * periods);
        }
    }

    #[test]
    fn the_use_is_a_part_of_what_was_offered() {
        let command = ["x".into()];
        let of = summary(Duration::from_millis(80), Service::from_millis(10), &command);
        assert!((of.used_percent() - 50.0).abs() < 1e-9);
        assert!(
            of.text().contains("50.0 % of the 0.020 s that 2ms/8ms offered (periods begun: 10)")
        );
    }
}
