//! Identifies the profile behind a report.

use std::path::Path;

use punctual_model::host::Calibration;
use punctual_model::{HostProfile, Service};
use serde::Serialize;

/// The identity of a profile, with the costs that it charges. Field names are part of the
/// interface.
#[derive(Clone, Debug, Serialize)]
pub struct Stamp {
    /// The file; null for an ideal host.
    path: Option<String>,
    /// The time of the measurement; null for an ideal host.
    measured_at_unix_s: Option<u64>,
    /// The date of the measurement, in UTC; null for an ideal host.
    measured_on: Option<String>,
    /// The cost of one of the two switches of a job.
    context_switch_ns: u64,
    /// The cost of waking an idle thread, charged once in each busy period; 0 if it was not
    /// measured.
    wake_up_ns: u64,
    /// The percentile at which costs were taken; null if switches are free or were given by hand.
    percentile_ppm: Option<u32>,
    /// The working set that a switch refills; null in the same cases.
    working_set_bytes: Option<u64>,
    /// Whether the profile holds the costs of sending.
    sending_measured: bool,
    /// Whether the profile holds the costs of receiving.
    receiving_measured: bool,
}

impl Stamp {
    pub(super) fn ideal() -> Self {
        Self {
            path: None,
            measured_at_unix_s: None,
            measured_on: None,
            context_switch_ns: 0,
            wake_up_ns: 0,
            percentile_ppm: None,
            working_set_bytes: None,
            sending_measured: false,
            receiving_measured: false,
        }
    }

    pub(super) fn measured(path: &Path, calibration: &Calibration) -> Self {
        let (year, month, day) = calibration.run.date();
        let charge = calibration.switching;
        Self {
            path: Some(path.display().to_string()),
            measured_at_unix_s: Some(calibration.run.at_unix_s),
            measured_on: Some(format!("{year:04}-{month:02}-{day:02}")),
            context_switch_ns: charge.map_or(0, |charge| charge.context_switch().as_nanos()),
            wake_up_ns: calibration.wake_up().unwrap_or(Service::ZERO).as_nanos(),
            percentile_ppm: charge.map(|charge| charge.percentile.as_ppm()),
            working_set_bytes: charge.map(|charge| charge.working_set),
            sending_measured: calibration.sending.is_some(),
            receiving_measured: calibration.receiving.is_some(),
        }
    }

    /// Returns the stamp with the costs of `host`, which were given by hand.
    pub fn charging(self, host: &HostProfile) -> Self {
        let (context_switch_ns, wake_up_ns) =
            (host.context_switch.as_nanos(), host.wake_up.as_nanos());
        Self {
            context_switch_ns,
            wake_up_ns,
            percentile_ppm: None,
            working_set_bytes: None,
            ..self
        }
    }

    /// Returns the stamp as a line without its end.
    pub fn line(&self) -> String {
        let switch = Service::from_nanos(self.context_switch_ns);
        let mut cost = if switch.is_zero() {
            "switches are free".to_owned()
        } else {
            format!("{switch} charged for each of the two switches of a job")
        };
        if self.wake_up_ns > 0 {
            cost += &format!(", {} for waking up", Service::from_nanos(self.wake_up_ns));
        }
        match (&self.path, &self.measured_on) {
            (Some(path), Some(date)) => {
                format!("host profile: {}, measured on {date}: {cost}", printable(path))
            }
            _ => format!("host profile: ideal: {cost}"),
        }
    }
}

/// Returns a path that is safe to print: no control character in it can drive a terminal.
fn printable(path: &str) -> String {
    path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
