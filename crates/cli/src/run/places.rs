//! The CPUs that programs are held on, each with its timetable once somebody needs it.

use std::process::{Child, Command};

use punctual_linux::memory::{self, Locked};
use punctual_model::Reservation;
use punctual_model::reservation::Enforcement;
use punctual_runtime::reservation::{Facts, Held, Refused, Reservations, Settings, StartError};

use crate::host_profile;

/// The timetables of this process.
pub(super) struct Places {
    settings: Settings,
    facts: Option<Facts>,
    /// One for each CPU, so that each program can be sent to its own.
    by_cpu: Vec<(usize, Reservations)>,
    /// What was given or is to be given on a CPU, in millionths.
    planned: Vec<(usize, u64)>,
    /// From the first timetable on, if this process may: a dispatcher that waits for a page is late.
    locked: Option<Locked>,
}

impl Places {
    /// On the CPUs that this process may use, from the last to the first, with slots as much longer
    /// as was measured on this host.
    /// Of what happens `event_room` events a CPU are kept for a trace.
    pub(super) fn new(event_room: usize) -> Self {
        let settings = Settings::default().with_event_room(event_room);
        let settings = match host_profile::measured_here() {
            Some(calibration) => settings.for_host(&calibration),
            None => settings,
        };
        Self { settings, facts: None, by_cpu: Vec::new(), planned: Vec::new(), locked: None }
    }

    /// What this host can do, found out once.
    pub(super) fn facts(&mut self) -> &Facts {
        self.facts.get_or_insert_with(|| Facts::probe(&self.settings))
    }

    /// Keeps room on `cpu` for somebody who can only be there.
    pub(super) fn keep(&mut self, cpu: usize, reservation: Reservation) {
        self.planned.push((cpu, reservation.utilisation_ppm()));
    }

    /// Starts what `make` makes, on `cpu` or on the first CPU that admits it.
    pub(super) fn spawn(
        &mut self,
        make: &dyn Fn() -> Command,
        reservation: Reservation,
        enforcement: Enforcement,
        cpu: Option<usize>,
    ) -> Result<(Child, Held), Refused> {
        let candidates = match cpu {
            Some(cpu) => vec![cpu],
            None => self.candidates(reservation),
        };
        let mut refused: Option<Refused> = None;
        for candidate in candidates {
            let outcome = self.on(candidate).map_err(Refused::from);
            // A fresh command each time: what was prepared for one start is good for that alone.
            let outcome = outcome.and_then(|on| on.spawn(&mut make(), reservation, enforcement));
            match outcome {
                Ok(started) => {
                    if cpu.is_none() {
                        self.keep(candidate, reservation);
                    }
                    return Ok(started);
                }
                Err(error) => {
                    self.leave(candidate);
                    let elsewhere = weight(&error);
                    if elsewhere == 0 {
                        return Err(error);
                    }
                    if refused.as_ref().is_none_or(|old| elsewhere > weight(old)) {
                        refused = Some(error);
                    }
                }
            }
        }
        Err(refused.unwrap_or_else(|| {
            StartError::Thread(std::io::Error::other("this process may use no CPU")).into()
        }))
    }

    /// First those on which it fits beside what can only be there.
    fn candidates(&self, reservation: Reservation) -> Vec<usize> {
        let asked = reservation.utilisation_ppm();
        let full = |cpu: usize| {
            let planned = self.planned.iter().filter(|(at, _)| *at == cpu);
            planned.map(|(_, ppm)| ppm).sum::<u64>() + asked > u64::from(self.settings.most_ppm)
        };
        let mut candidates = self.settings.cpus.clone();
        candidates.sort_by_key(|cpu| full(*cpu));
        candidates
    }

    fn on(&mut self, cpu: usize) -> Result<&Reservations, StartError> {
        let at = match self.by_cpu.iter().position(|(at, _)| *at == cpu) {
            Some(at) => at,
            None => {
                let settings = Settings { cpus: vec![cpu], ..self.settings.clone() };
                // The guard is forked first: it needs none of our memory locked.
                self.by_cpu.push((cpu, Reservations::with(settings)?));
                if self.locked.is_none() {
                    // Without it the timetable is followed all the same (docs/CAVEATS.md).
                    self.locked = memory::lock_all().ok();
                }
                self.by_cpu.len() - 1
            }
        };
        Ok(&self.by_cpu[at].1)
    }

    /// The timetables that are followed.
    pub(super) fn timetables(&self) -> Vec<Reservations> {
        self.by_cpu.iter().map(|(_, on)| on.clone()).collect()
    }

    /// A CPU on which nothing is held is everybody's: its dispatcher ends.
    fn leave(&mut self, cpu: usize) {
        self.by_cpu.retain(|(at, on)| *at != cpu || on.taken().iter().any(|(_, ppm)| *ppm > 0));
    }
}

/// How promising another CPU is after this refusal, and this refusal as an answer: 0 is the end.
fn weight(refused: &Refused) -> u64 {
    match refused {
        Refused::DoesNotFit { refusal, .. } => {
            2 + refusal.offer.map_or(0, |offer| offer.budget().as_nanos())
        }
        Refused::TooMany { .. } | Refused::Start(_) => 1,
        _ => 0,
    }
}
