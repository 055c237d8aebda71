//! `punctual run contract.toml`: admits it, starts its programs, and says what became of them.

use std::path::Path;
use std::process::Command;

use punctual_analysis::supply::together::Wanted;
use punctual_channel::client::compact::Compact;
use punctual_linux::process::Blocked;
use punctual_model::{self as model, Contract};
use punctual_runtime::reservation::{Refused, Room};

use super::channel::{self, Environment, Trial};
use super::halting::KeptAwake;
use super::not_started::NotStarted;
use super::places::Places;
use super::start::{Asked, Running, Terms, start, terms, wanted};
use super::traced::{Traced, UNTOLD};
use super::usage::Ran;
use super::{Args, code_of, plan, say, summary, table, waiting};
use punctual::contract::Declared;

use crate::contract_file;
use crate::exit::{Exit, Failure, Outcome, complain};

/// A command that is to run, and on what terms; without, as an ordinary program.
pub(super) struct Chosen<'a> {
    pub(super) command: &'a model::Command,
    pub(super) terms: Option<Terms>,
    pub(super) channel: Option<Channel>,
}

/// What a command's datagrams go through, and what its program is given for that.
pub(super) struct Channel {
    pub(super) asked: Compact,
    environment: Environment,
}

pub(super) fn main(args: &Args, file: &Path) -> Outcome {
    let Declared { contract, text, .. } = contract_file::read(file)?;
    let commands = chosen(args, file, &contract)?;
    let profile = args.profile.choose()?;
    if let Err(refusal) = punctual_analysis::admit(&contract, &profile.host) {
        return Ok(refuse(args, file, &refusal.to_string()));
    }
    // First, so that every thread that is made has them blocked.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut places = Places::new(args.trace.event_room());
    let mut all = Vec::with_capacity(commands.len());
    let mut trials = Vec::new();
    for command in commands {
        let found = terms_of(command, &contract, &mut places, args.broker())
            .and_then(|terms| Ok((terms, channel_of(command, &contract, args.broker())?)));
        match found {
            Ok((terms, channel)) => {
                let (channel, trial) = channel.unzip();
                trials.extend(trial.flatten());
                all.push(Chosen { command, terms, channel });
            }
            Err(no) => return no.outcome(&format!("command \"{}\": ", command.name()), ""),
        }
    }
    // All were granted together: the programs ask for them again.
    for trial in trials {
        if let Err(no) = trial.give_back() {
            return no.outcome("", "");
        }
    }
    let only_admitted = plan::only_admitted(&contract, &all);
    if args.dry_run {
        if let Err(no) = plan_cpus(&mut all, &places, &contract) {
            return no.outcome("", "");
        }
        return plan::show(args.json, &all, &only_admitted);
    }
    let talk = !args.json && !args.quiet;
    if let (Some(line), true) = (&only_admitted, talk) {
        say(&format!("punctual: {line}"));
    }
    let mut traced = Traced::new(args.trace.of_live_run(&text)?);
    let mut awake = KeptAwake::start(args.awake)?;
    // All together, before any of them runs.
    let rooms = match places.make_room(&wanted_of(&all), contract.cpus.into()) {
        Ok(rooms) => rooms,
        Err(refused) => return no_room(refused, &all).outcome("", ""),
    };
    let running = match start_all(&all, rooms, &args.broker, &mut places, &signals, talk) {
        Ok(running) => running,
        Err((not_started, name, others)) => {
            let how_many = others.len();
            waiting::end(others, &signals).map_err(Failure::cannot_here)?;
            let after = match how_many {
                0 => String::new(),
                _ => format!(" (of the others, {how_many} ran already and were ended)"),
            };
            return not_started.outcome(&format!("command \"{name}\": "), &after);
        }
    };
    let has_channel = all.iter().any(|chosen| chosen.channel.is_some());
    awake.keep_for(running.iter().map(Running::cpu), has_channel);
    if let (Some(line), true) = (awake.text(), talk) {
        say(&format!("punctual: {line}"));
    }
    let mut is_told = true;
    for (Chosen { command, .. }, running) in all.iter().zip(&running) {
        is_told &= traced.started(command.name(), running);
    }
    if traced.is_on() && !is_told && !args.quiet {
        say(&format!("punctual: {UNTOLD}"));
    }
    traced.follow(places.timetables());
    let ran = waiting::until_all_have_ended(running, &signals, args.manner(), &mut traced)
        .map_err(|error| Failure::cannot_here(format!("cannot wait for the programs: {error}")))?;
    let awake_cpus = awake.end();
    if let Err(failure) = traced.end() {
        complain(failure);
    }
    report(args, &all, &ran, only_admitted.as_deref(), &awake_cpus);
    Ok(Exit::OfProgram(code(&ran)))
}

/// The commands to start, in file order.
fn chosen<'a>(
    args: &Args,
    file: &Path,
    contract: &'a Contract,
) -> Result<Vec<&'a model::Command>, Failure> {
    let file = file.display();
    let names: Vec<&str> = contract.commands.iter().map(model::Command::name).collect();
    if names.is_empty() {
        return Err(Failure::bad_input(format!(
            "{file}: names no program to start; add a [[command]] (docs/contract.md), or only admit \
             it: punctual admit {file}"
        )));
    }
    if let Some(unknown) = args.only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Failure::bad_input(format!(
            "{file}: there is no command \"{unknown}\"; there is {}",
            plan::quoted(&names)
        )));
    }
    let wanted = |command: &&model::Command| {
        args.only.is_empty() || args.only.iter().any(|name| name == command.name())
    };
    Ok(contract.commands.iter().filter(wanted).collect())
}

/// Exit 1, with what `punctual admit` says.
fn refuse(args: &Args, file: &Path, refusal: &str) -> Exit {
    if args.json {
        say(&serde_json::json!({ "admitted": false, "refusal": refusal }).to_string());
    } else {
        say(&format!("{refusal}\nthe numbers: punctual admit {}", file.display()));
    }
    Exit::Refused
}

fn terms_of(
    command: &model::Command,
    contract: &Contract,
    places: &mut Places,
    broker: Option<&Path>,
) -> Result<Option<Terms>, NotStarted> {
    let Some(holding) = command.held() else { return Ok(None) };
    // In range by the contract's validation.
    let reservation = contract.reservations[holding.reservation].reservation;
    let asked = Asked {
        reservation,
        enforcement: Some(holding.enforcement),
        backend: holding.backend,
        cpu: holding.cpu.map(usize::from),
    };
    terms(asked, places, broker).map(Some)
}

/// What timetables are asked for, in file order.
fn wanted_of(all: &[Chosen<'_>]) -> Vec<Wanted> {
    all.iter().filter_map(|chosen| chosen.terms.as_ref()).filter_map(wanted).collect()
}

/// Finds out on which CPU each will be held, and reserves nothing.
fn plan_cpus(
    all: &mut [Chosen<'_>],
    places: &Places,
    contract: &Contract,
) -> Result<(), NotStarted> {
    let tables = places
        .plan(&wanted_of(all), contract.cpus.into(), &[])
        .map_err(|refused| no_room(refused, all))?;
    let terms = all.iter_mut().filter_map(|chosen| chosen.terms.as_mut());
    for (at, terms) in terms.filter(|terms| wanted(terms).is_some()).enumerate() {
        let table = tables.iter().find(|table| table.holds.contains(&at));
        terms.cpu = table.map(|table| table.cpu.into());
    }
    Ok(())
}

fn no_room(refused: Refused, all: &[Chosen<'_>]) -> NotStarted {
    let program = all.first().map_or("", |chosen| chosen.command.program());
    NotStarted::by_timetable(refused, program.to_owned())
}

/// The channel of a command, if it names one, and its trial.
fn channel_of(
    command: &model::Command,
    contract: &Contract,
    broker: Option<&Path>,
) -> Result<Option<(Channel, Option<Trial>)>, NotStarted> {
    let Some(asked) = channel::of_command(command, contract) else { return Ok(None) };
    let Some(broker) = broker else {
        return Err(NotStarted::BadInput(
            "its channel comes from the broker alone; leave --no-broker out, or the command's channel"
                .to_owned(),
        ));
    };
    let own = command.environment().iter().find(|(name, _)| name == "LD_PRELOAD");
    let preload = own.map(|(_, value)| value.into()).or_else(channel::preloaded);
    let (environment, trial) = channel::prepare(&asked, broker, command.program(), preload)?;
    Ok(Some((Channel { asked, environment }, trial)))
}

/// All, in file order; or why one was not started, its name, and those that run already.
fn start_all<'a>(
    all: &[Chosen<'a>],
    rooms: Vec<Room>,
    broker: &Path,
    places: &mut Places,
    signals: &Blocked,
    talk: bool,
) -> Result<Vec<Running>, (NotStarted, &'a str, Vec<Running>)> {
    let mut running = Vec::with_capacity(all.len());
    let mut rooms = rooms.into_iter();
    for Chosen { command, terms, channel } in all {
        let room = terms.as_ref().and_then(wanted).and_then(|_| rooms.next());
        let make = || {
            let mut made = Command::new(command.program());
            made.args(command.arguments());
            made.envs(command.environment().iter().map(|(name, value)| (name, value)));
            made.envs(channel.iter().flat_map(|channel| channel.environment.0.clone()));
            if let Some(directory) = command.directory() {
                made.current_dir(directory);
            }
            made
        };
        let started =
            directory(command).and_then(|()| start(&make, terms.clone(), room, places, signals));
        match started {
            Ok(mut started) => {
                if let Some(told) = &mut started.told {
                    told.called(command.name());
                }
                if let (Some(terms), true) = (&started.terms, talk) {
                    say(&format!("punctual: {}: {}", command.name(), terms.text()));
                }
                if let (Some(Channel { asked, .. }), true) = (channel, talk) {
                    let text = channel::text(asked, broker);
                    say(&format!("punctual: {}: {text}", command.name()));
                }
                running.push(started);
            }
            Err(not_started) => return Err((not_started, command.name(), running)),
        }
    }
    Ok(running)
}

/// Else a directory that is not there would be taken for a program that is not.
fn directory(command: &model::Command) -> Result<(), NotStarted> {
    match command.directory().map(Path::new) {
        Some(directory) if !directory.is_dir() => {
            Err(NotStarted::BadInput(format!("{} is no directory", directory.display())))
        }
        _ => Ok(()),
    }
}

fn report(
    args: &Args,
    all: &[Chosen<'_>],
    ran: &[Ran],
    only_admitted: Option<&str>,
    awake_cpus: &[usize],
) {
    let each = || all.iter().zip(ran);
    if args.json {
        let commands: Vec<summary::Json> = each()
            .map(|(Chosen { command, .. }, ran)| {
                let words = std::iter::once(command.program().to_owned());
                let words = words.chain(command.arguments().iter().cloned());
                summary::json(Some(command.name()), words.collect(), ran)
            })
            .collect();
        let json = serde_json::json!({
            "admitted": true,
            "commands": commands,
            "only_admitted": only_admitted,
            "awake_cpus": awake_cpus,
        });
        say(&json.to_string());
    } else if !args.quiet {
        say(&table::of(each().map(|(Chosen { command, .. }, ran)| (command.name(), ran))));
    }
    if !args.json {
        for (Chosen { command, .. }, ran) in each() {
            if let Some(broken) = ran.reserved.as_ref().and_then(summary::broken) {
                say(&format!("punctual: {}: {broken}", command.name()));
            }
        }
    }
}

/// The program's own if there is one; else 0, or the first other in file order: which is the same.
fn code(ran: &[Ran]) -> u8 {
    ran.iter().map(|ran| code_of(ran.ended.status)).find(|code| *code != 0).unwrap_or(0)
}
