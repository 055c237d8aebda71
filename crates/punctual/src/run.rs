//! Runs unmodified programs under CPU reservations: one, or those of a contract.
//!
//! [`Prepared`] determines how each program would be held, and starts nothing. Then
//! [`Prepared::plan`] returns that as a plan, or [`Prepared::run`] starts all programs and waits
//! until they have ended.
//!
//! Reading order: `terms` (what is asked for a program, and how it is held), `plan` (the programs of
//! a contract), `start` (from a request to a running process, in a timetable of `places`, by the
//! kernel or through the broker), `channel`, `waiting`, `grant` and `meanwhile` (the broker and the
//! trace while programs run), `account` (exit states and usage).

mod account;
mod channel;
mod error;
mod grant;
mod meanwhile;
mod notice;
mod places;
mod plan;
mod start;
mod terms;
mod waiting;

use std::process::Command;

use punctual_analysis::{Request, Steps, System, UpcallOrder};
use punctual_model::command::{Backend, Holding};
use punctual_model::{self as model, Contract, HostProfile};
use punctual_runtime::reservation::Refused;

pub use account::{Alone, Outcome, Ran, Reserved, Used};
pub use error::{Error, NotAdmitted, NotStarted};
pub use notice::{GrantNews, Notice, Observer};
pub use plan::{Plan, Planned};
pub use punctual_channel::client::compact::Compact;
pub use punctual_linux::cgroup::memory::MemoryUse;
pub use punctual_runtime::reservation::Choice;
pub use terms::{Program, Reserve, Settings, Terms, Through};

use crate::trace::Recorder;
use crate::{Failure, host};
use channel::Environment;
use meanwhile::{KeptAwake, Traced};
use places::{AllWanted, Places, Rooms};
use start::Running;
use waiting::Signals;

/// Programs that are ready to start. Nothing runs yet and nothing is reserved.
///
/// The signals that end a process are blocked in the thread that made this value, from then on, so
/// that they can be passed on to the programs ([`Settings::passes_signals_on`]). Call
/// [`Prepared::run`] in that thread.
///
/// # Examples
/// A player that gets 2 ms of processor time in every 8 ms, whatever else runs:
/// ```no_run
/// use punctual::model::Reservation;
/// use punctual::run::{Notice, Prepared, Program, Settings};
///
/// let reservation: Reservation = "2ms/8ms".parse()?;
/// let player = Program::new("aplay", ["song.wav"]);
/// let player = Program { reserve: Some(reservation.into()), ..player };
/// let mut told = |notice: &Notice<'_>| {
///     if let Notice::Held { terms, .. } = notice {
///         eprintln!("held by {}: {}", terms.choice.backend.name(), terms.choice.because);
///     }
/// };
/// let outcome = Prepared::program(player, Settings::default(), &mut told)?.run(None, &mut told)?;
/// println!("it used {} and ended with {}", outcome.commands[0].used.exec_time, outcome.code());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// The commands of a contract, if it is admitted on this host:
/// ```no_run
/// use punctual::run::{Prepared, Settings};
///
/// let contract = punctual::contract::read("studio.toml".as_ref())?.contract;
/// let host = punctual::host::choose(None)?.host;
/// let prepared = Prepared::contract(&contract, &host, &[], Settings::default(), &mut |_| {})?;
/// for planned in prepared.plan()?.commands {
///     println!("{:?} on CPU {:?}", planned.run, planned.terms.and_then(|terms| terms.cpu));
/// }
/// let outcome = prepared.run(None, &mut |notice| eprintln!("{notice:?}"))?;
/// println!("{}", outcome.code());
/// # Ok::<(), punctual::Failure>(())
/// ```
pub struct Prepared {
    all: Vec<Chosen>,
    only_admitted: Option<String>,
    /// The number of CPUs, of those that this process may use, that programs may be placed on.
    cpus: usize,
    settings: Settings,
    places: Places,
    signals: Signals,
}

/// A program, and the terms under which it will run.
struct Chosen {
    program: Program,
    terms: Option<Terms>,
    channel: Option<Environment>,
    /// The position of its reservation in the contract, or 0.
    rank: usize,
}

impl Prepared {
    /// Prepares one program.
    ///
    /// # Errors
    /// If nothing can hold the program here under the terms that it asks for, or its memory or its
    /// channel is refused.
    pub fn program(
        program: Program,
        settings: Settings,
        observer: &mut Observer<'_>,
    ) -> Result<Self, Error> {
        if let Some(memory) = program.reserve.and_then(|asked| asked.memory) {
            let host = HostProfile { memory: Some(host::memory_left()), ..HostProfile::ideal(1) };
            let mut system = System::new(host, UpcallOrder::LevelOrder);
            let kept = system.admit(0, Request::Memory(memory), &mut Steps::default());
            let _kept = kept.map_err(|refusal| NotAdmitted { refusal })?;
        }
        Self::new(vec![(program, 0)], None, (usize::MAX, true), settings, observer)
    }

    /// Admits a contract to `host`, and prepares those of its commands that `only` names, or all if
    /// `only` is empty.
    ///
    /// # Errors
    /// If the contract is refused or has no command to start, if a command cannot be held here
    /// under the terms that it asks for, or if its channel is refused.
    pub fn contract(
        contract: &Contract,
        host: &HostProfile,
        only: &[String],
        settings: Settings,
        observer: &mut Observer<'_>,
    ) -> Result<Self, Error> {
        let commands = plan::commands(contract, only)?;
        let refused = |refusal| NotAdmitted { refusal };
        let grant = punctual_analysis::admit(contract, host).map_err(refused)?;
        let only_admitted = plan::only_admitted(contract, &commands);
        let ranked = |command: &&model::Command| {
            let rank = command.held().map_or(0, |held| held.reservation);
            (plan::program(command, contract), rank)
        };
        let programs = commands.iter().map(ranked).collect();
        let holds_served = |held: Holding| {
            held.backend.is_none() && grant.reservations[held.reservation].job_within.is_some()
        };
        let served = contract.commands.iter().filter_map(model::Command::held).any(holds_served);
        let all =
            Self::new(programs, only_admitted, (contract.cpus.into(), served), settings, observer)?;
        let is_tabled = |one: &Chosen| {
            let held_here = one.terms.as_ref().and_then(Terms::held_here);
            held_here == Some(Backend::Timetable)
        };
        // Servers were admitted, and this host has none.
        if served && all.all.iter().any(is_tabled) {
            let tabled = contract.with_default_backend(Backend::Timetable);
            let _grant = punctual_analysis::admit(&tabled, host).map_err(refused)?;
        }
        Ok(all)
    }

    fn new(
        programs: Vec<(Program, usize)>,
        only_admitted: Option<String>,
        (cpus, served): (usize, bool),
        settings: Settings,
        observer: &mut Observer<'_>,
    ) -> Result<Self, Error> {
        // This comes first: every thread that is made inherits the blocked signals, and no signal
        // is lost between the start of a program and the wait for it.
        let signals = Signals::new(settings.passes_signals_on).map_err(Failure::cannot_here)?;
        let mut places = Places::new(settings.event_room, observer);
        let broker = settings.broker.as_deref();
        let mut all = Vec::with_capacity(programs.len());
        let mut trials = Vec::new();
        for (program, rank) in programs {
            let terms =
                program.reserve.map(|asked| start::terms(asked, served, &mut places, broker));
            let prepare = |asked| channel::prepare(&program, asked, broker);
            let found = terms
                .transpose()
                .and_then(|terms| Ok((terms, program.channel.as_ref().map(prepare).transpose()?)));
            let (terms, channel) = found.map_err(|why| {
                let command = program.name.clone();
                Error::NotStarted { command, why, others_ended: 0 }
            })?;
            let (channel, trial) = channel.unzip();
            trials.extend(trial.flatten());
            all.push(Chosen { program, terms, channel, rank });
        }
        // All channels were granted at the same time. They are released, because the programs
        // request them again.
        for trial in trials {
            trial.give_back()?;
        }
        Ok(Self { all, only_admitted, cpus, settings, places, signals })
    }

    /// Returns how each program would be started, and the CPU of each that a timetable or a server
    /// will hold.
    ///
    /// # Errors
    /// If the CPUs cannot hold all of these programs together.
    pub fn plan(&self) -> Result<Plan, Error> {
        let places = self.places.plan(&self.wanted(), self.cpus, &[]);
        let places = places.map_err(|refused| self.no_room(refused))?;
        let (mut tabled, mut served) = (0.., places.servers.iter().copied());
        let commands = self.all.iter().map(|Chosen { program, terms, .. }| {
            let mut terms = terms.clone();
            if let Some(terms) = &mut terms {
                let cpu = match terms.held_here() {
                    Some(Backend::Timetable) => tabled.next().and_then(|at| {
                        let table = places.tables.iter().find(|table| table.holds.contains(&at));
                        table.map(|table| table.cpu)
                    }),
                    Some(Backend::Server) => served.next(),
                    Some(Backend::Kernel) | None => None,
                };
                terms.cpu = cpu.map(usize::from);
            }
            let (name, channel) = (program.name.clone(), program.channel.clone());
            Planned { name, run: program.words(), terms, channel }
        });
        let commands = commands.collect();
        Ok(Plan { admitted: true, commands, only_admitted: self.only_admitted.clone() })
    }

    /// Starts all programs, waits until they have ended, and returns their exit states and usage.
    /// Meanwhile it passes signals on to them, and writes the slots of their timetables to `trace`.
    /// The programs die with this process.
    ///
    /// # Errors
    /// If a program is refused or cannot be started. Those that ran already are ended first.
    pub fn run(
        mut self,
        trace: Option<Recorder>,
        observer: &mut Observer<'_>,
    ) -> Result<Outcome, Error> {
        if let Some(only_admitted) = &self.only_admitted {
            observer(&Notice::OnlyAdmitted(only_admitted));
        }
        let mut traced = Traced::new(trace);
        let mut awake = KeptAwake::start(self.settings.awake)?;
        // Room is made for all of them before any runs.
        let rooms = self.places.make_room(&self.wanted(), self.cpus);
        let rooms = rooms.map_err(|refused| self.no_room(refused))?;
        let running = self.start_all(rooms, observer)?;
        let has_channel = self.all.iter().any(|chosen| chosen.channel.is_some());
        awake.keep_for(running.iter().map(Running::cpu), has_channel, observer);
        for (Chosen { program, .. }, running) in self.all.iter().zip(&running) {
            let name = program.name.as_ref().map_or(program.program.to_string_lossy(), Into::into);
            traced.started(&name, running, observer);
        }
        traced.follow(self.places.timetables(), observer);
        let used = waiting::until_all_have_ended(running, &self.signals, &mut traced, observer)
            .map_err(cannot_wait)?;
        let awake_cpus = awake.end();
        traced.end(observer);
        let commands = self.all.iter().zip(used).map(|(Chosen { program, .. }, used)| Ran {
            name: program.name.clone(),
            command: program.words(),
            used,
        });
        let commands = commands.collect();
        Ok(Outcome { admitted: true, commands, only_admitted: self.only_admitted, awake_cpus })
    }

    /// Returns what the programs want of timetables and servers.
    fn wanted(&self) -> AllWanted {
        let mut all = AllWanted::default();
        for Chosen { terms, rank, .. } in &self.all {
            terms.iter().for_each(|terms| terms.want(*rank, &mut all));
        }
        all
    }

    fn no_room(&self, refused: Refused) -> Error {
        let program = self.all.first().map(|chosen| chosen.program.program.to_string_lossy());
        NotStarted::by_timetable(refused, program.unwrap_or_default().into_owned()).into()
    }

    /// Starts all programs in order. If one cannot be started, it ends those that run.
    fn start_all(
        &mut self,
        mut rooms: Rooms,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Running>, Error> {
        let Self { all, settings, places, signals, .. } = self;
        let mut running: Vec<Running> = Vec::with_capacity(all.len());
        for chosen @ Chosen { program, terms, .. } in &*all {
            let room = terms.as_ref().and_then(|terms| rooms.next(terms.held_here()?));
            let (name, make) = (program.name.as_deref(), || chosen.make());
            let started = directory(program)
                .and_then(|()| start::start(name, &make, terms.clone(), room, places, signals));
            match started {
                Ok(started) => {
                    observer(&Notice::Started { name, process: started.child.id() });
                    if let Some(terms) = &started.terms {
                        observer(&Notice::Held { name, terms });
                    }
                    if let (Some(asked), Some(broker)) = (&program.channel, &settings.broker) {
                        observer(&Notice::Channel { name, asked, broker });
                    }
                    running.push(started);
                }
                Err(why) => {
                    let others_ended = running.len();
                    waiting::end(running, signals, observer).map_err(Failure::cannot_here)?;
                    let command = program.name.clone();
                    return Err(Error::NotStarted { command, why, others_ended });
                }
            }
        }
        Ok(running)
    }
}

impl Chosen {
    fn make(&self) -> Command {
        let Self { program, channel, .. } = self;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments);
        command.envs(program.environment.iter().map(|(name, value)| (name, value)));
        command.envs(channel.iter().flat_map(|channel| channel.0.clone()));
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        command
    }
}

/// Refuses a missing directory: execve(2) reports it like a missing program.
fn directory(program: &Program) -> Result<(), NotStarted> {
    match &program.directory {
        Some(directory) if !directory.is_dir() => {
            Err(Failure::bad_input(format!("{} is no directory", directory.display())).into())
        }
        _ => Ok(()),
    }
}

fn cannot_wait(error: std::io::Error) -> Failure {
    Failure::cannot_here(format!("cannot wait for the programs: {error}"))
}
