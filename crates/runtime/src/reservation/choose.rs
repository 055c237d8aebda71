//! Chooses the back end that holds a reservation, and gives the reason.
//!
//! Pure: the host's abilities come in as [`Facts`].

use punctual_analysis::supply::{Limits, TooCoarse};
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::host::KernelLimits;
use punctual_linux::process;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
pub use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation};
use thiserror::Error;

use super::owner::DISPATCHER;
use super::settings::Settings;

/// A back end, and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The back end.
    pub backend: Backend,
    /// The reason.
    pub because: String,
}

/// The owner of a reservation, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The calling thread itself.
    ThisThread,
    /// Another thread.
    OtherThread,
    /// A process with all its threads and children, present and future.
    Process,
    /// A program to be started, with all its threads and children.
    Command,
}

/// The requested reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The budget and the period.
    pub reservation: Reservation,
    /// The kind of owner.
    pub kind: Kind,
    /// Soft if it may also run outside its slots.
    pub enforcement: Enforcement,
    /// The CPU on which it must be, if any.
    pub cpu: Option<usize>,
    /// True if the owner does not keep its budget by itself, and must be held to it within some 100
    /// µs. The kernel alone enforces budgets only within a tick or two.
    pub exact: bool,
}

/// The abilities of this host, each with the reason why it lacks one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// SCHED_DEADLINE for an unpinned thread.
    pub deadline: Result<(), String>,
    /// The kernel's limits on SCHED_DEADLINE.
    pub limits: KernelLimits,
    /// SCHED_FIFO at the dispatcher's priority.
    pub fifo: Result<(), String>,
    /// Freezing a group; checked by a trial.
    pub freezer: Result<(), String>,
    /// Counting the time of a group on one CPU; checked by a trial.
    pub group_clock: Result<(), String>,
    /// True if timers fire at any nanosecond.
    pub high_resolution: bool,
    /// The limits on a timetable ([`Settings::rules`]).
    pub slots: Limits,
}

impl Facts {
    /// Probes the host by trials, for timetables with these settings. Takes some milliseconds.
    pub fn probe(settings: &Settings) -> Self {
        let reservation =
            Reservation::new(punctual_model::Service::from_millis(1), Duration::from_millis(100));
        let deadline = match reservation {
            Ok(reservation) => sched::try_out(Class::Deadline { reservation, reset_on_fork: true }),
            Err(_) => Ok(()),
        };
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        // An empty group shows as much without putting a thread at risk, although a thread's own
        // death would thaw it.
        let freezer = Freezer::for_children_of(me)
            .and_then(|freezer| freezer.freeze_and_see())
            .map_err(|error| words(&error));
        Self {
            deadline: deadline.map_err(|error| words(&error)),
            limits: KernelLimits::read(),
            fifo: sched::try_out(Class::Fifo { priority: DISPATCHER })
                .map_err(|error| words(&error)),
            freezer,
            group_clock: GroupClock::probe(settings.cpus.first().copied().unwrap_or(0))
                .map_err(|error| words(&error)),
            high_resolution: clock::resolution() < Duration::from_micros(100),
            slots: settings.rules().limits,
        }
    }
}

/// No back end can hold the reservation here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unsuitable {
    /// A timetable is needed and cannot be followed.
    #[error("{because}; a timetable would do it, and cannot be followed here: {why}")]
    NoTimetable {
        /// The reason why the kernel's reservations are unsuitable.
        because: String,
        /// The ability that the timetable lacks.
        why: String,
    },
    /// A frozen owner must be in a group.
    #[error(
        "a hard reservation freezes its owner outside its slots or budgets, and that is not possible \
         here: {0}; ask for a soft one, or for SCHED_DEADLINE for one thread"
    )]
    NoFreezer(String),
    /// The budget is below what can be held here.
    #[error(transparent)]
    TooCoarse(#[from] TooCoarse),
    /// The members of a process are found by its group.
    #[error("a whole process is held in a control group, and that is not possible here: {0}")]
    NoGroup(String),
    /// A server serves whole programs, and needs certain abilities of the kernel.
    #[error("{0}; a timetable would do it")]
    NoServer(String),
    /// A process that is frozen or lowered together with its dispatcher could not be started again.
    #[error(
        "process {pid} follows the timetable itself, and stopping it would stop its own \
         dispatcher; reserve for its threads one by one (Subject::Thread, or Reserved::current in the \
         thread), or run the work in a process of its own (Reservations::spawn)"
    )]
    OwnProcess {
        /// The id that was given.
        pid: i32,
    },
}

/// Chooses a back end. SCHED_DEADLINE is chosen for one thread that keeps its budget, unpinned,
/// hard, within the kernel's limits: it costs nothing and needs no dispatcher. Everything else goes
/// to the timetable.
///
/// SCHED_DEADLINE is never chosen for a *soft* reservation. By itself it throttles. With
/// SCHED_FLAG_RECLAIM a holder takes all unreserved time before any ordinary program gets it, 95 %
/// of a CPU, which is more than an ordinary program's part.
pub fn choose(wish: Wish, facts: &Facts) -> Result<Choice, Unsuitable> {
    let because = match not_the_kernel(wish, facts) {
        None => {
            return Ok(Choice {
                backend: Backend::Kernel,
                because: "one thread that keeps its own budget, on any CPU, within the kernel's \
                          limits: SCHED_DEADLINE guarantees and enforces it at scheduler ticks, and \
                          costs nothing"
                    .to_owned(),
            });
        }
        Some(because) => because,
    };
    let no = |why: &String| Unsuitable::NoTimetable { because: because.clone(), why: why.clone() };
    facts.fifo.as_ref().map_err(no)?;
    if !facts.high_resolution {
        return Err(no(&"timers of this host fire at scheduler ticks only \
                       (CONFIG_HIGH_RES_TIMERS, or the boot option highres=off)"
            .to_owned()));
    }
    let own_soft_thread = wish.kind == Kind::ThisThread && wish.enforcement == Enforcement::Soft;
    if let (Err(why), false) = (&facts.freezer, own_soft_thread) {
        return Err(match wish.enforcement {
            Enforcement::Hard => Unsuitable::NoFreezer(why.clone()),
            Enforcement::Soft => Unsuitable::NoGroup(why.clone()),
        });
    }
    facts.slots.hold(wish.reservation, wish.enforcement)?;
    Ok(Choice { backend: Backend::Timetable, because })
}

/// Checks that a server can hold the reservation here, on a CPU that is found later.
///
/// # Errors
/// An [`Unsuitable`].
pub fn choose_server(wish: Wish, facts: &Facts) -> Result<Choice, Unsuitable> {
    let no = |why: &str| Err(Unsuitable::NoServer(why.to_owned()));
    if !matches!(wish.kind, Kind::Command | Kind::Process) {
        return no("a server holds whole programs");
    }
    if let Err(why) = facts.fifo.as_ref().and(facts.group_clock.as_ref()) {
        return no(&format!("a server cannot run here: {why}"));
    }
    if let (Err(why), Enforcement::Hard) = (&facts.freezer, wish.enforcement) {
        return Err(Unsuitable::NoFreezer(why.clone()));
    }
    if !facts.high_resolution {
        return no("a server ends budgets by timers, and those of this host fire at ticks only");
    }
    facts.slots.hold(wish.reservation, wish.enforcement)?;
    let because = "a server runs it whenever it wakes, up to its budget in each period".to_owned();
    Ok(Choice { backend: Backend::Server, because })
}

/// Returns the reason why SCHED_DEADLINE is unsuitable, if it is.
fn not_the_kernel(wish: Wish, facts: &Facts) -> Option<String> {
    match wish.kind {
        Kind::Process | Kind::Command => {
            return Some(
                "a whole process is to be held, and SCHED_DEADLINE holds one thread, whose children \
                 it does not"
                    .to_owned(),
            );
        }
        Kind::OtherThread => {
            return Some(
                "the thread is another's, and one can put it under SCHED_DEADLINE but not take it \
                 out again without losing its bandwidth to the kernel's account"
                    .to_owned(),
            );
        }
        Kind::ThisThread => {}
    }
    if wish.enforcement == Enforcement::Soft {
        return Some(
            "it is to be soft, and SCHED_DEADLINE gives nothing outside its budget".to_owned(),
        );
    }
    if let Some(cpu) = wish.cpu {
        return Some(format!(
            "it is to be on CPU {cpu}, and SCHED_DEADLINE takes no pinned thread outside a partition"
        ));
    }
    if wish.exact {
        return Some(
            "it is to be held to its budget exactly, and SCHED_DEADLINE enforces at scheduler ticks"
                .to_owned(),
        );
    }
    if let Err(limit) = facts.limits.check(wish.reservation) {
        return Some(format!("SCHED_DEADLINE does not take it ({limit})"));
    }
    let refused = facts.deadline.as_ref().err()?;
    Some(format!("SCHED_DEADLINE is not to be had ({refused})"))
}

/// Returns the kind and the process of a thread that is to hold a reservation.
pub(super) fn kind_of(tid: thread::Tid) -> Option<(Kind, i32)> {
    let pid = process::process_of(tid)?;
    let kind = if tid == thread::current() { Kind::ThisThread } else { Kind::OtherThread };
    Some((kind, pid))
}

#[cfg(test)]
mod tests {
    use punctual_model::Service;

    use super::*;

    fn facts() -> Facts {
        Facts {
            deadline: Ok(()),
            limits: KernelLimits::DEFAULT,
            fifo: Ok(()),
            freezer: Ok(()),
            group_clock: Ok(()),
            high_resolution: true,
            slots: Limits { context_switch: Service::from_micros(100), ..Limits::default() },
        }
    }

    fn wish() -> Wish {
        Wish {
            reservation: "2ms/10ms".parse().expect("valid"),
            kind: Kind::ThisThread,
            enforcement: Enforcement::Hard,
            cpu: None,
            exact: false,
        }
    }

    #[test]
    fn one_thread_that_keeps_its_budget_is_the_kernels() {
        assert_eq!(choose(wish(), &facts()).expect("both work").backend, Backend::Kernel);
    }

    #[test]
    fn everything_else_is_the_timetables_and_the_reason_is_said() {
        let long = "1ms/5s".parse().expect("valid");
        for (wish, word) in [
            (Wish { kind: Kind::Command, ..wish() }, "whole process"),
            (Wish { kind: Kind::OtherThread, ..wish() }, "another's"),
            (Wish { enforcement: Enforcement::Soft, ..wish() }, "soft"),
            (Wish { cpu: Some(1), ..wish() }, "CPU 1"),
            (Wish { exact: true, ..wish() }, "exactly"),
            (Wish { reservation: long, ..wish() }, "sched_deadline_period_max_us"),
        ] {
            let choice = choose(wish, &facts()).expect("the timetable does it");
            assert_eq!(choice.backend, Backend::Timetable);
            assert!(choice.because.contains(word), "{}", choice.because);
        }
        let denied = Facts { deadline: Err("no right".into()), ..facts() };
        let choice = choose(wish(), &denied).expect("the timetable does it");
        assert!(choice.because.contains("no right"));
    }

    #[test]
    fn a_hard_budget_is_at_least_ten_times_what_slots_are_longer() {
        let of = |text: &str| Wish {
            reservation: text.parse().expect("valid"),
            kind: Kind::Command,
            ..wish()
        };
        assert!(choose(of("1ms/10ms"), &facts()).is_ok());
        let small = of("999us/10ms");
        let refused = choose(small, &facts()).expect_err("a slot of 1099 us");
        assert!(refused.to_string().contains("the least budget is 1ms"), "{refused}");
        assert!(choose(Wish { enforcement: Enforcement::Soft, ..small }, &facts()).is_ok());
    }

    #[test]
    fn a_server_holds_programs_where_the_kernel_counts_their_time() {
        let soft = Wish { kind: Kind::Command, enforcement: Enforcement::Soft, ..wish() };
        let hard = Wish { enforcement: Enforcement::Hard, ..soft };
        for wish in [soft, hard] {
            let choice = choose_server(wish, &facts()).expect("all is there");
            assert_eq!(choice.backend, Backend::Server);
        }
        let no_freezer = Facts { freezer: Err("no groups".into()), ..facts() };
        assert!(choose_server(soft, &no_freezer).is_ok(), "it is never frozen");
        let refused = choose_server(hard, &no_freezer);
        assert_eq!(refused, Err(Unsuitable::NoFreezer("no groups".into())));
        let small = Wish { reservation: "999us/10ms".parse().expect("valid"), ..hard };
        assert!(matches!(choose_server(small, &facts()), Err(Unsuitable::TooCoarse(_))));
        let least = |budget: &str| Wish { reservation: budget.parse().expect("valid"), ..soft };
        for choose in [choose, choose_server] {
            let refused = choose(least("99us/10ms"), &facts()).expect_err("its slot may be lost");
            assert!(refused.to_string().contains("the least budget is 100us"), "{refused}");
            assert!(choose(least("100us/10ms"), &facts()).is_ok());
        }
        for (wish, facts, word) in [
            (Wish { kind: Kind::OtherThread, ..soft }, facts(), "whole programs"),
            (soft, Facts { fifo: Err("no right".into()), ..facts() }, "no right"),
            (soft, Facts { group_clock: Err("no count".into()), ..facts() }, "no count"),
            (soft, Facts { high_resolution: false, ..facts() }, "ticks"),
        ] {
            let why = choose_server(wish, &facts).expect_err("unsuitable").to_string();
            assert!(why.contains(word) && why.contains("a timetable would do it"), "{why}");
        }
    }

    #[test]
    fn what_the_host_lacks_is_named() {
        let command = Wish { kind: Kind::Command, ..wish() };
        let soft = Wish { enforcement: Enforcement::Soft, ..wish() };
        let no_freezer = Facts { freezer: Err("no groups".into()), ..facts() };
        assert!(matches!(choose(command, &no_freezer), Err(Unsuitable::NoFreezer(_))));
        // A soft reservation of the calling thread needs no group.
        assert!(choose(soft, &no_freezer).is_ok());
        let soft_command = Wish { kind: Kind::Command, ..soft };
        assert!(matches!(choose(soft_command, &no_freezer), Err(Unsuitable::NoGroup(_))));
        for facts in [
            Facts { fifo: Err("no right".into()), ..facts() },
            Facts { high_resolution: false, ..facts() },
        ] {
            assert!(matches!(choose(command, &facts), Err(Unsuitable::NoTimetable { .. })));
            assert!(choose(wish(), &facts).is_ok(), "the kernel's needs neither");
        }
    }
}
