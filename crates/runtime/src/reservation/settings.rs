//! The settings of timetables, and the origin of each amount.

use punctual_analysis::supply::{Limits, Rules};
use punctual_linux::host::deadline_limits;
use punctual_linux::thread;
use punctual_model::host::Calibration;
use punctual_model::{HostProfile, Service};

/// The assumed allowance of a slot, where it was not measured.
const ASSUMED: Service = HostProfile::ASSUMED_SLOT_ALLOWANCE;

/// The settings of timetables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The CPUs that may be used, in this order.
    pub cpus: Vec<usize>,
    /// The time lost at the start of each slot: the dispatcher's wake-up, the switch, the thaw.
    pub context_switch: Service,
    /// The measurement behind that time, if there is one.
    pub measured: Option<Measured>,
    /// The most that all slots of a CPU may take, in millionths.
    pub most_ppm: u32,
    /// The number of events of each CPU's timetable that can wait for
    /// [`Reservations::drain`](super::Reservations::drain); more are dropped and counted. Zero
    /// disables events. An event takes 48 bytes.
    pub event_room: usize,
}

/// The allowance of a slot by a host profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// [`Calibration::slot_allowance`].
    pub allowance: Service,
    /// Year, month and day of the measurement, UTC.
    pub on: (u64, u64, u64),
}

impl Default for Settings {
    /// Returns this thread's CPUs from the last to the first, which serves most interrupts; 100 µs
    /// a slot, an assumption ([`Self::for_host`] has better); and the share that
    /// `kernel.sched_rt_runtime_us` leaves, less 2 %.
    fn default() -> Self {
        let mut cpus = thread::affinity();
        cpus.reverse();
        // At most a million.
        let most_ppm = u32::try_from(deadline_limits().timetable_ppm()).unwrap_or(1_000_000);
        Self { cpus, context_switch: ASSUMED, measured: None, most_ppm, event_room: 0 }
    }
}

impl Settings {
    /// Returns the rules by which timetables are built.
    pub fn rules(&self) -> Rules {
        let limits = Limits { context_switch: self.context_switch, ..Limits::default() };
        Rules { limits, most_ppm: self.most_ppm }
    }

    /// Sets the room for events of each CPU.
    ///
    /// ```
    /// use punctual_runtime::reservation::Settings;
    ///
    /// let settings = Settings::default().with_event_room(1 << 14);
    /// assert_eq!(settings.event_room, 1 << 14);
    /// ```
    #[must_use]
    pub fn with_event_room(self, events: usize) -> Self {
        Self { event_room: events, ..self }
    }

    /// Sets the allowance that `calibration` has measured; keeps the old one if it could not be
    /// measured there.
    ///
    /// ```
    /// use punctual_model::host::Calibration;
    /// use punctual_runtime::reservation::Settings;
    ///
    /// # fn example(profile: &str) -> Result<Settings, Box<dyn std::error::Error>> {
    /// let calibration = Calibration::parse("host.toml", profile.as_bytes())?;
    /// Ok(Settings::default().for_host(&calibration))
    /// # }
    /// ```
    #[must_use]
    pub fn for_host(mut self, calibration: &Calibration) -> Self {
        if let Some(allowance) = calibration.slot_allowance() {
            self.context_switch = allowance;
            self.measured = Some(Measured { allowance, on: calibration.run.date() });
        }
        self
    }

    /// Returns the allowance of a slot and its origin, in words that follow a reason.
    pub fn allowance(&self) -> String {
        let amount = self.context_switch;
        let from = match self.measured {
            Some(Measured { allowance, on: (year, month, day) }) if allowance == amount => {
                format!("by the host profile of {year:04}-{month:02}-{day:02}")
            }
            _ if amount == ASSUMED => {
                "an assumption, which a calibration of this host replaces".to_owned()
            }
            _ => "as it was asked for".to_owned(),
        };
        format!(
            "each slot is {amount} longer than the budget, for the dispatcher's wake-up: {from}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_says_where_it_is_from() {
        let settings = Settings::default();
        assert!(
            settings.allowance().contains("100us") && settings.allowance().contains("calibration")
        );
        let allowance = Service::from_micros(162);
        let measured = Some(Measured { allowance, on: (2026, 3, 7) });
        let measured = Settings { context_switch: allowance, measured, ..settings };
        assert!(measured.allowance().contains("162us"));
        assert!(measured.allowance().contains("2026-03-07"));
        let asked = Settings { context_switch: Service::from_micros(40), ..measured };
        assert!(asked.allowance().contains("asked"), "{}", asked.allowance());
    }
}
