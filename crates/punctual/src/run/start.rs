//! One program, from what is asked to a running process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use punctual_analysis::supply::together::Wanted;
use punctual_client::Broker;
use punctual_client::grant::GrantId;
use punctual_linux::clock;
use punctual_linux::process::{self, Blocked};
use punctual_linux::sched::{self, Class, KernelLimits, SchedError};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation};
use punctual_runtime::reservation::{self as held, Choice, Held, Kind, Room, Wish};

use super::Reserve;
use super::error::NotStarted;
use super::meanwhile::Told;
use super::places::Places;
use crate::Failure;

/// What a program runs under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How much, how often.
    pub reservation: Reservation,
    /// Whether it may run outside its budget.
    pub enforcement: Enforcement,
    /// What executes the reservation, and why that does.
    pub choice: Choice,
    /// The one CPU it runs on; none: any.
    pub cpu: Option<usize>,
    /// The broker that grants it; none: this process takes it by its own right.
    pub broker: Option<Through>,
}

impl Terms {
    /// Returns what a timetable is asked for, if one is to hold it.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        // A CPU that is none is refused by its number.
        let cpu = self.cpu.map(|cpu| u16::try_from(cpu).unwrap_or(u16::MAX));
        (self.choice.backend == Backend::Timetable).then_some((self.reservation, cpu))
    }
}

/// The broker through which a program has its reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// Where the broker listens.
    pub path: PathBuf,
    /// The grant; none before the program was started.
    pub grant: Option<GrantId>,
}

/// A program that runs.
pub(super) struct Running {
    pub(super) child: Child,
    /// None: it is an ordinary program.
    pub(super) terms: Option<Terms>,
    /// Only with a timetable.
    pub(super) held: Option<Held>,
    /// Only with a grant of the broker.
    pub(super) told: Option<Told>,
    /// When it was started.
    pub(super) started: Instant,
    /// Since when its reservation counts.
    pub(super) since: Instant,
}

impl Running {
    /// Returns the one CPU it runs on; none: any.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.terms.as_ref().and_then(|terms| terms.cpu)
    }
}

/// What the kernel's reservation does not hold.
const OUTSIDE: &str = "what the first thread starts runs outside";

/// Chooses the back end and the terms. Without privilege the broker at `broker` is to grant it.
pub(super) fn terms(
    asked: Reserve,
    places: &mut Places,
    broker: Option<&Path>,
) -> Result<Terms, NotStarted> {
    let Reserve { reservation, enforcement, backend, cpu } = asked;
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
            _ => Ok("it was asked for"),
        };
        let because = because.map_err(Failure::bad_input)?;
        let granted = match missing_privilege() {
            Some(refused) => Some(through(broker, &refused.to_string())?),
            None => None,
        };
        return Ok(by_kernel(reservation, because, granted));
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
            choice: match backend {
                Some(_) => Choice { because: "it was asked for".to_owned(), ..choice },
                None => choice,
            },
            cpu,
            broker: None,
        }),
        Err(no) => {
            let no = no.to_string();
            match (first_thread_will_do(asked), missing_privilege()) {
                (true, Some(_)) => {
                    let granted = through(broker, &no)?;
                    Ok(by_kernel(reservation, &no, Some(granted)))
                }
                (true, None) if facts.deadline.is_ok() => Ok(by_kernel(reservation, &no, None)),
                (false, Some(_)) if broker.is_some() => Err(Failure::CannotHere(format!(
                    "{no}; without privilege the broker could grant SCHED_DEADLINE, to the first \
                     thread alone, hard and on any CPU: ask for --backend kernel (in a contract for \
                     backend = \"kernel\" and enforcement = \"hard\")"
                ))
                .into()),
                _ => Err(Failure::CannotHere(no).into()),
            }
        }
    }
}

/// Returns whether nothing was asked for that SCHED_DEADLINE could not do for the first thread.
fn first_thread_will_do(asked: Reserve) -> bool {
    let Reserve { reservation, enforcement, backend, cpu } = asked;
    let fits = KernelLimits::read().check(reservation).is_ok();
    backend.is_none() && enforcement.is_none() && cpu.is_none() && fits
}

fn by_kernel(reservation: Reservation, because: &str, broker: Option<Through>) -> Terms {
    let (enforcement, backend) = (Enforcement::Hard, Backend::Kernel);
    let because = match &broker {
        None => format!("{because}; {OUTSIDE}"),
        Some(Through { path, .. }) => {
            let path = path.display();
            format!("{because}; without privilege here the broker at {path} is asked; {OUTSIDE}")
        }
    };
    Terms { reservation, enforcement, choice: Choice { backend, because }, cpu: None, broker }
}

/// Returns why this process may not use SCHED_DEADLINE, if the reason is one that the broker is there for.
fn missing_privilege() -> Option<SchedError> {
    let reservation: Reservation = "1ms/100ms".parse().ok()?;
    let tried = sched::try_out(Class::Deadline { reservation, reset_on_fork: true });
    let privilege = |refused: &SchedError| {
        matches!(refused, SchedError::NoDeadlinePrivilege | SchedError::Forbidden)
    };
    tried.err().filter(privilege)
}

/// Finds the broker at `path`, if one answers there; else says what is missing (`refused`), and both ways to get it.
fn through(path: Option<&Path>, refused: &str) -> Result<Through, NotStarted> {
    let Some(path) = path else {
        return Err(Failure::CannotHere(format!(
            "{refused}; or let the broker grant it: leave --no-broker out (docs/broker.md)"
        ))
        .into());
    };
    match Broker::connect_to(path) {
        Ok(_) => Ok(Through { path: path.to_owned(), grant: None }),
        Err(no) => Err(Failure::CannotHere(format!(
            "{refused}; or let the broker grant it (docs/broker.md), and there is none to ask: {no}"
        ))
        .into()),
    }
}

/// Starts what `make` makes, which people call `name`. It is under its reservation before it executes the program: in
/// the `room` that was made for it where a timetable holds it ([`Terms::wanted`]).
pub(super) fn start(
    name: Option<&str>,
    make: &dyn Fn() -> Command,
    terms: Option<Terms>,
    room: Option<Room>,
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
        let (held, told) = (None, None);
        return Ok(Running { child, terms: None, held, told, started, since: started });
    };
    let Terms { reservation, enforcement, .. } = terms;
    match (terms.choice.backend, &mut terms.broker) {
        (Backend::Kernel, Some(through)) => {
            let spawned = punctual_client::spawn_reserved(command, reservation, &through.path)
                .map_err(|error| NotStarted::by_broker(error, program()))?;
            let started = clock::now();
            let grant = spawned.granted.id();
            through.grant = Some(grant);
            terms.choice.because = format!("granted by the broker, grant {grant}; {OUTSIDE}");
            let (child, told) = Told::of(spawned, name, through.path.clone(), reservation);
            Ok(Running {
                child,
                terms: Some(terms),
                held: None,
                told: Some(told),
                started,
                since: started,
            })
        }
        (Backend::Kernel, None) => {
            let child = process::spawn_reserved(&mut command, reservation)
                .map_err(|error| NotStarted::by_kernel(error, reservation, program()))?;
            // The program runs from here: `spawn` returns when it has replaced our child.
            let started = clock::now();
            let (held, told) = (None, None);
            Ok(Running { child, terms: Some(terms), held, told, started, since: started })
        }
        (Backend::Timetable, _) => {
            let room = room.expect("made where a timetable is wanted");
            let (child, held) = places
                .spawn_in(room, &make, enforcement, terms.choice.clone())
                .map_err(|refused| NotStarted::by_timetable(refused, program()))?;
            terms.cpu = Some(held.cpu());
            let started = clock::now();
            // What was promised before the program ran, nobody could use.
            let since = held.since().max(started);
            let (held, told) = (Some(held), None);
            Ok(Running { child, terms: Some(terms), held, told, started, since })
        }
    }
}
