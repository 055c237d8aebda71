//! Takes one program from its request to a running process.

use std::path::Path;
use std::process::{Child, Command};

use punctual_client::Broker;
use punctual_client::want::Guarantee;
use punctual_linux::cgroup::memory::Kept;
use punctual_linux::clock;
use punctual_linux::host::KernelLimits;
use punctual_linux::process;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation, Service};
use punctual_policy::adaptive::Adaptive;
use punctual_runtime::reservation::{
    self as held, Adapted, Choice, Held, Kind, Room, Unsuitable, Wish,
};

use super::error::NotStarted;
use super::grant::GrantWatch;
use super::notice::{Notice, Observer};
use super::places::Places;
use super::terms::{Reserve, Terms, Through};
use super::waiting::Signals;
use crate::{Failure, Remedy};

/// A running program.
pub(super) struct Running {
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    pub(super) child: Child,
    /// `None` for an ordinary program.
    pub(super) terms: Option<Terms>,
    /// Present only with a timetable or a server.
    pub(super) held: Option<Held>,
    /// The memory that is kept for it, in a group above that of `held`.
    pub(super) kept: Option<Kept>,
    /// Present only with a grant of the broker.
    pub(super) watch: Option<GrantWatch>,
    /// The time of its start.
    pub(super) started: Instant,
    /// The time from which its reservation counts, as it is now.
    pub(super) since: Instant,
    /// The state of a reservation that adapts itself.
    pub(super) adaptive: Option<Adaptive>,
    /// What was offered in how many periods before the last change.
    pub(super) offered_before: (Service, u64),
}

impl Running {
    /// Makes one that began now.
    fn now(name: Option<&str>, child: Child, terms: Option<Terms>) -> Self {
        let (started, offered_before) = (clock::now(), (Service::ZERO, 0));
        let (name, held, kept) = (name.map(str::to_owned), None, None);
        let (watch, since, adaptive) = (None, started, None);
        Self { name, child, terms, held, kept, watch, started, since, adaptive, offered_before }
    }

    /// Returns what its reservation has offered until `until`, and in how many periods.
    pub(super) fn offered(&self, reservation: Reservation, until: Instant) -> (Service, u64) {
        let (before, periods_before) = self.offered_before;
        let length = until.saturating_since(self.since).as_nanos();
        // A period that has begun counts, and there is one at least.
        let periods = length.div_ceil(reservation.period().as_nanos()).max(1);
        // Saturates, after 584 years.
        let budgets = reservation.budget().checked_mul(periods).unwrap_or(Service::MAX);
        (before.checked_add(budgets).unwrap_or(Service::MAX), periods_before + periods)
    }

    /// Follows the program's use, if its reservation adapts itself.
    pub(super) fn adapt(&mut self, observer: &mut Observer<'_>) {
        let (Some(adaptive), Some(held), Some(terms)) =
            (&mut self.adaptive, &mut self.held, &self.terms)
        else {
            return;
        };
        let (name, from) = (self.name.as_deref(), terms.reservation);
        match held.adapt(adaptive) {
            Adapted::Kept => {}
            Adapted::Changed(to) => {
                observer(&Notice::Adapted { name, from, to });
                let now = clock::now();
                self.offered_before = self.offered(from, now);
                self.since = now;
                self.terms.iter_mut().for_each(|terms| terms.reservation = to);
            }
            Adapted::Stayed(why) => observer(&Notice::NotAdapted { name, at: from, why: &why }),
        }
    }

    /// Returns the one CPU it runs on; `None` for any.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.terms.as_ref().and_then(|terms| terms.cpu)
    }
}

/// The part of a program that the kernel's reservation does not hold, for messages.
const OUTSIDE: &str = "what the first thread starts runs outside";

/// Chooses the back end and the terms: for a program without a back end a server if `served`, and a
/// timetable otherwise. If this process has no privilege, the broker at `broker` is to grant the
/// reservation.
pub(super) fn terms(
    asked: Reserve,
    served: bool,
    places: &mut Places,
    broker: Option<&Path>,
) -> Result<Terms, NotStarted> {
    let terms = choose(asked, served, places, broker)?;
    let terms = Terms { adapt: asked.adapt, memory: asked.memory, ..terms };
    let by = format!("{}: {}", terms.choice.backend.name(), terms.choice.because);
    if let Some(memory) = terms.memory {
        if memory.0 == 0 {
            let why = "a size of zero keeps nothing in memory; give one such as 64MiB";
            return Err(Failure::bad_input(why).into());
        }
        if !matches!(terms.held_here(), Some(Backend::Server | Backend::Timetable)) {
            let why = format!(
                "memory is kept for programs that a server or a timetable of this process holds, and this \
                 one would be held by another back end or by the broker ({by})"
            );
            let is_asked_for = asked.backend == Some(Backend::Kernel);
            let failure =
                if is_asked_for { Failure::bad_input(why) } else { Failure::cannot_here(why) };
            return Err(failure.into());
        }
        // What this host lacks is said before anything starts.
        let _tried = Kept::new(memory).map_err(Failure::cannot_here)?;
    }
    terms.adaptive().map_err(Failure::bad_input)?;
    if terms.adapt.is_some() && terms.held_here() != Some(Backend::Server) {
        return Err(Failure::cannot_here(format!(
            "only a server of this process adapts its budget, and this program would be held by another \
             back end or by the broker ({by})"
        ))
        .into());
    }
    Ok(terms)
}

/// Chooses the back end and the terms, whether or not the budget is to be adapted.
fn choose(
    asked: Reserve,
    served: bool,
    places: &mut Places,
    broker: Option<&Path>,
) -> Result<Terms, NotStarted> {
    let Reserve { reservation, enforcement, backend, cpu, .. } = asked;
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
    let held_by = |choice| Terms {
        reservation,
        enforcement: wish.enforcement,
        choice,
        cpu,
        broker: None,
        adapt: None,
        memory: None,
    };
    let facts = places.facts();
    let mut because = "the contract as a whole is not admitted with servers".to_owned();
    if backend == Some(Backend::Server) || served && backend.is_none() {
        match held::choose_server(wish, facts) {
            Ok(choice) => return Ok(held_by(choice)),
            Err(no) => {
                // The broker chooses the CPU itself.
                let asks = cpu.is_none() && missing_privilege().is_some();
                if let Some(through) = broker.filter(|_| asks).and_then(holder_of_programs) {
                    let backend = Backend::Server;
                    let path = through.path.display();
                    let because = format!("without privilege here the broker at {path} is asked");
                    let choice = Choice { backend, because };
                    return Ok(Terms { broker: Some(through), ..held_by(choice) });
                }
                if backend.is_some() {
                    return Err(NotStarted::unsuitable(no));
                }
                because = no.to_string();
            }
        }
    }
    match held::choose(wish, facts) {
        Ok(choice) => Ok(held_by(match backend {
            Some(_) => Choice { because: "it was asked for".to_owned(), ..choice },
            None => Choice { because, ..choice },
        })),
        Err(no @ Unsuitable::TooCoarse(_)) => Err(NotStarted::unsuitable(no)),
        Err(no) => {
            let no = no.to_string();
            match (first_thread_will_do(asked), missing_privilege()) {
                (true, Some(_)) => {
                    let granted = through(broker, &no)?;
                    Ok(by_kernel(reservation, &no, Some(granted)))
                }
                (true, None) if facts.deadline.is_ok() => Ok(by_kernel(reservation, &no, None)),
                (false, Some(_)) if broker.is_some() => Err(Failure::cannot_here(format!(
                    "{no}; without privilege the broker could grant SCHED_DEADLINE, to the first \
                     thread alone, hard and on any CPU: ask for that (in a contract: backend = \
                     \"kernel\" and enforcement = \"hard\")"
                ))
                .with(Remedy::HoldByKernel)
                .into()),
                _ => Err(Failure::cannot_here(no).into()),
            }
        }
    }
}

/// Returns whether SCHED_DEADLINE for the first thread alone meets the whole request.
fn first_thread_will_do(asked: Reserve) -> bool {
    let Reserve { reservation, enforcement, backend, cpu, .. } = asked;
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
    let (choice, cpu, adapt, memory) = (Choice { backend, because }, None, None, None);
    Terms { reservation, enforcement, choice, cpu, broker, adapt, memory }
}

/// Returns why this process may not use SCHED_DEADLINE, if the broker can help.
fn missing_privilege() -> Option<SchedError> {
    let reservation: Reservation = "1ms/100ms".parse().ok()?;
    let tried = sched::try_out(Class::Deadline { reservation, reset_on_fork: true });
    let privilege = |refused: &SchedError| {
        matches!(refused, SchedError::NoDeadlinePrivilege | SchedError::Forbidden)
    };
    tried.err().filter(privilege)
}

/// Finds the broker at `path`, if one answers there. Otherwise the error tells what is missing
/// (`refused`), and both ways to get it.
fn through(path: Option<&Path>, refused: &str) -> Result<Through, NotStarted> {
    let Some(path) = path else {
        return Err(Failure::cannot_here(format!(
            "{refused}; or let the broker grant it (docs/broker.md)"
        ))
        .with(Remedy::UseBroker)
        .into());
    };
    match Broker::connect_to(path) {
        Ok(_) => Ok(Through { path: path.to_owned(), grant: None }),
        Err(no) => {
            let text = format!(
                "{refused}; or let the broker grant it (docs/broker.md), and there is none to ask: {no}"
            );
            Err(Failure::from(no).reworded(text).into())
        }
    }
}

/// Returns the broker at `path` if it holds whole programs for this user.
fn holder_of_programs(path: &Path) -> Option<Through> {
    let holds = Broker::connect_to(path).is_ok_and(|broker| broker.holds_programs());
    holds.then(|| Through { path: path.to_owned(), grant: None })
}

/// Starts the command that `make` makes. It is under its reservation before it executes the
/// program: if a timetable or a server holds it ([`Terms::want`]), in the `room` that was made for it. `name`
/// is its name in messages.
pub(super) fn start(
    name: Option<&str>,
    make: &dyn Fn() -> Command,
    terms: Option<Terms>,
    room: Option<Room>,
    places: &mut Places,
    signals: &Signals,
) -> Result<Running, NotStarted> {
    let make = || {
        let mut command = make();
        process::die_with_parent(&mut command);
        process::allow_huge_pages_on_exec(&mut command);
        signals.unblock_on_exec(&mut command);
        command
    };
    let mut command = make();
    let program = || make().get_program().to_string_lossy().into_owned();
    let Some(mut terms) = terms else {
        let child =
            command.spawn().map_err(|error| NotStarted::Program { program: program(), error })?;
        return Ok(Running::now(name, child, None));
    };
    let Terms { reservation, enforcement, .. } = terms;
    match (terms.choice.backend, &mut terms.broker) {
        (backend, Some(through)) => {
            let (what, outside) = match backend {
                Backend::Kernel => (Guarantee::Reservation(reservation), format!("; {OUTSIDE}")),
                Backend::Timetable | Backend::Server => {
                    (Guarantee::Program { reservation, enforcement }, String::new())
                }
            };
            let spawned = punctual_client::spawn_granted(command, what, &through.path)
                .map_err(|error| NotStarted::by_broker(error, reservation, program()))?;
            let grant = spawned.granted.id();
            through.grant = Some(grant);
            terms.choice.because = format!("granted by the broker, grant {grant}{outside}");
            terms.cpu = spawned.granted.cpu().map(|cpu| cpu as usize);
            let (child, watch) = GrantWatch::of(spawned, name, through.path.clone(), reservation);
            Ok(Running { watch: Some(watch), ..Running::now(name, child, Some(terms)) })
        }
        (Backend::Kernel, None) => {
            let child = process::spawn_reserved(&mut command, reservation)
                .map_err(|error| NotStarted::by_kernel(error, reservation, program()))?;
            // The program runs from here: `spawn` returns when the child has executed it.
            Ok(Running::now(name, child, Some(terms)))
        }
        (Backend::Timetable | Backend::Server, None) => {
            let room = room.expect("made where one is wanted");
            let kept = terms.memory.map(Kept::new).transpose().map_err(Failure::cannot_here)?;
            let (child, held) = places
                .spawn_in(room, &make, enforcement, terms.choice.clone(), kept.as_ref())
                .map_err(|refused| NotStarted::by_timetable(refused, program()))?;
            terms.cpu = Some(held.cpu());
            let adaptive = terms.adaptive().map_err(Failure::bad_input)?;
            let running = Running::now(name, child, Some(terms));
            // The program could not use any time that was reserved before it ran.
            let since = held.since().max(running.started);
            Ok(Running { held: Some(held), kept, since, adaptive, ..running })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_that_has_begun_offers_its_budget_and_the_last_change_counts_from_its_time() {
        let child = Command::new("true").spawn().expect("true is there");
        let reservation = "2ms/8ms".parse().expect("valid");
        let mut running = Running::now(None, child, None);
        for (nanos, count) in [(0, 1), (1, 1), (8_000_000, 1), (8_000_001, 2), (80_000_000, 10)] {
            let until = running.since + punctual_model::Duration::from_nanos(nanos);
            let budgets = Service::from_millis(2 * count);
            assert_eq!(running.offered(reservation, until), (budgets, count), "{nanos}");
        }
        running.offered_before = (Service::from_millis(5), 3);
        let offered = running.offered(reservation, running.since);
        assert_eq!(offered, (Service::from_millis(7), 4));
        running.child.wait().expect("our child");
    }
}
