//! The contexts of the study (§5), as this kernel has them.

use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation, Service};
use punctual_runtime::callback;

/// The context in which the driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// No driver: the control case.
    None,
    /// INT: in the hard interrupt of a software clock.
    Interrupt,
    /// DPC: in the softirq of a timer.
    Softirq,
    /// THR at an ordinary priority.
    Ordinary,
    /// THR at a real-time priority.
    RealTime,
    /// RES, hard: SCHED_DEADLINE.
    ReservedHard,
    /// RES, soft: our timetable.
    ReservedSoft,
}

/// The priority of a real-time driver thread: below the callback, which must run first.
pub const DRIVER_PRIORITY: u8 = callback::PRIORITY - 18;

impl Context {
    /// The contexts in the order in which they are run: those that disturb the host most come last.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Interrupt,
        Self::Softirq,
        Self::RealTime,
        Self::ReservedHard,
        Self::ReservedSoft,
        Self::Ordinary,
    ];

    /// Returns a short name, for tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Interrupt => "INT",
            Self::Softirq => "DPC",
            Self::Ordinary => "THR ordinary",
            Self::RealTime => "THR real-time",
            Self::ReservedHard => "RES hard",
            Self::ReservedSoft => "RES soft",
        }
    }

    /// Returns a description.
    pub fn words(self) -> String {
        match (self, self.place()) {
            (_, Some(place)) => format!("native, {}", place.words()),
            (Self::Interrupt, _) => "BPF in the hard interrupt of a perf software clock".into(),
            (Self::Softirq, _) => "BPF in the softirq of a bpf_timer".into(),
            _ => "no modem".into(),
        }
    }

    /// Returns true if the core runs in the kernel's BPF machine.
    pub fn is_in_kernel(self) -> bool {
        matches!(self, Self::Interrupt | Self::Softirq)
    }

    /// Returns the scheduling of the thread, if the context is one.
    pub fn place(self) -> Option<Place> {
        Some(match self {
            Self::None | Self::Interrupt | Self::Softirq => return None,
            Self::Ordinary => Place::Ordinary,
            Self::RealTime => Place::RealTime,
            Self::ReservedHard => Place::Reserved(reservation(), Enforcement::Hard),
            Self::ReservedSoft => Place::Reserved(reservation(), Enforcement::Soft),
        })
    }
}

/// The scheduling of a driver's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A thread like any other.
    Ordinary,
    /// A real-time priority.
    RealTime,
    /// X in every Y: hard with SCHED_DEADLINE, soft with our timetable.
    Reserved(Reservation, Enforcement),
}

impl Place {
    /// Returns a description.
    pub fn words(self) -> String {
        match self {
            Self::Ordinary => "a thread of SCHED_OTHER".into(),
            Self::RealTime => format!("a thread of SCHED_FIFO {DRIVER_PRIORITY}"),
            Self::Reserved(reservation, Enforcement::Hard) => {
                format!("{reservation} of SCHED_DEADLINE")
            }
            Self::Reserved(reservation, Enforcement::Soft) => {
                format!("{reservation} of a timetable, soft")
            }
        }
    }
}

/// Returns the reservation that the study found sufficient and used (§6.4): X = 2 ms every Y = 8
/// ms.
pub fn reservation() -> Reservation {
    Reservation::new(Service::from_millis(2), Duration::from_millis(8)).expect("2 of 8 ms")
}
