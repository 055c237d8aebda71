//! One program, from what is asked to a running process.

use std::process::{Child, Command};

use punctual_linux::process::{self, Blocked};
use punctual_linux::{clock, sched::KernelLimits};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation};
use punctual_runtime::reservation::{self as held, Facts, Held, Kind, Wish};

use super::not_started::NotStarted;
use super::places::Places;

/// What a program is to run under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) reservation: Reservation,
    /// `None`: soft where a timetable holds it.
    pub(super) enforcement: Option<Enforcement>,
    /// `None`: whatever serves it best.
    pub(super) backend: Option<Backend>,
    pub(super) cpu: Option<usize>,
}

/// What a program runs under.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) reservation: Reservation,
    pub(super) enforcement: Enforcement,
    pub(super) backend: Backend,
    /// The one CPU it runs on; `None`: any.
    pub(super) cpu: Option<usize>,
    /// Why this back end.
    pub(super) because: String,
}

impl Terms {
    /// A line for a person.
    pub(super) fn text(&self) -> String {
        let Self { reservation, enforcement, because, .. } = self;
        let by = match self.backend {
            Backend::Kernel => "by the kernel, for the first thread",
            Backend::Timetable => "by a timetable, for all that it starts",
        };
        let on = self.cpu.map_or(String::new(), |cpu| format!(", on CPU {cpu}"));
        format!("{reservation}, {}, {by}{on}: {because}", enforcement.name())
    }
}

/// A program that runs.
pub(super) struct Running {
    pub(super) child: Child,
    /// `None`: as an ordinary program.
    pub(super) terms: Option<Terms>,
    /// Only with a timetable.
    pub(super) held: Option<Held>,
    /// When it was started.
    pub(super) started: Instant,
    /// Since when its reservation counts.
    pub(super) since: Instant,
}

/// Which back end, and on what terms.
pub(super) fn terms(asked: Asked, places: &mut Places) -> Result<Terms, NotStarted> {
    let Asked { reservation, enforcement, backend, cpu } = asked;
    if backend == Some(Backend::Kernel) {
        let because = match (enforcement, cpu) {
            (Some(Enforcement::Soft), _) => {
                Err("SCHED_DEADLINE gives nothing outside its budget, so \
                                                 it holds nothing softly; ask for hard, or for the \
                                                 timetable")
            }
            (_, Some(_)) => {
                Err("SCHED_DEADLINE takes no program that is bound to one CPU; leave the \
                                 CPU out, or ask for the timetable")
            }
            _ => Ok("it was asked for; what the first thread starts runs outside"),
        };
        let because = because.map_err(|why| NotStarted::BadInput(why.to_owned()))?;
        return Ok(by_kernel(reservation, because.to_owned()));
    }
    let soft = Enforcement::Soft;
    let wish = Wish {
        reservation,
        kind: Kind::Command,
        enforcement: enforcement.unwrap_or(soft),
        cpu,
        exact: true,
    };
    let facts = places.facts();
    match held::choose(wish, facts) {
        Ok(choice) => Ok(Terms {
            reservation,
            enforcement: wish.enforcement,
            backend: Backend::Timetable,
            cpu,
            because: match backend {
                Some(_) => "it was asked for".to_owned(),
                None => choice.because,
            },
        }),
        Err(no) if backend.is_none() && enforcement.is_none() && kernel_serves(asked, facts) => {
            Ok(by_kernel(reservation, format!("{no}; what the first thread starts runs outside")))
        }
        Err(no) => Err(NotStarted::CannotHere(no.to_string())),
    }
}

fn kernel_serves(asked: Asked, facts: &Facts) -> bool {
    let fits = KernelLimits::read().check(asked.reservation).is_ok();
    asked.cpu.is_none() && facts.deadline.is_ok() && fits
}

fn by_kernel(reservation: Reservation, because: String) -> Terms {
    let (enforcement, backend) = (Enforcement::Hard, Backend::Kernel);
    Terms { reservation, enforcement, backend, cpu: None, because }
}

/// Starts what `make` makes. It is under its reservation before it executes the program.
pub(super) fn start(
    make: &dyn Fn() -> Command,
    terms: Option<Terms>,
    places: &mut Places,
    signals: &Blocked,
) -> Result<Running, NotStarted> {
    let make = || {
        let mut command = make();
        process::die_with_parent(&mut command);
        signals.unblock_on_exec(&mut command);
        command
    };
    let mut command = make();
    let program = || make().get_program().to_string_lossy().into_owned();
    let Some(mut terms) = terms else {
        let child =
            command.spawn().map_err(|error| NotStarted::Program { program: program(), error })?;
        let started = clock::now();
        return Ok(Running { child, terms: None, held: None, started, since: started });
    };
    let Terms { reservation, enforcement, cpu, .. } = terms;
    match terms.backend {
        Backend::Kernel => {
            let child = process::spawn_reserved(&mut command, reservation)
                .map_err(|error| NotStarted::by_kernel(error, reservation, program()))?;
            // The program runs from here: `spawn` returns when it has replaced our child.
            let started = clock::now();
            Ok(Running { child, terms: Some(terms), held: None, started, since: started })
        }
        Backend::Timetable => {
            let (child, held) = places
                .spawn(&make, reservation, enforcement, cpu)
                .map_err(|refused| NotStarted::by_timetable(refused, program()))?;
            terms.cpu = Some(held.cpu());
            let started = clock::now();
            // What was promised before the program ran, nobody could use.
            let since = held.since().max(started);
            Ok(Running { child, terms: Some(terms), held: Some(held), started, since })
        }
    }
}
