//! `punctual run --reserve` and `--channel`: one program.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use punctual_linux::process::Blocked;
use serde::Serialize;

use super::channel;
use super::halting::KeptAwake;
use super::not_started::NotStarted;
use super::places::Places;
use super::start::{Asked, start, terms, wanted};
use super::traced::{Traced, UNTOLD};
use super::{Args, code_of, say, summary, waiting};
use crate::exit::{Exit, Failure, Outcome, complain};

/// The summary, and what was done for the program besides.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    json: summary::Json,
    /// Empty: nobody asked for it.
    awake_cpus: Vec<usize>,
}

pub(super) fn main(
    args: &Args,
    asked: Option<Asked>,
    program: &OsStr,
    arguments: &[OsString],
) -> Outcome {
    let named = program.to_string_lossy();
    let prepare = |asked| {
        let (environment, trial) =
            channel::prepare(asked, &args.broker, &named, channel::preloaded())?;
        trial.map_or(Ok(()), channel::Trial::give_back)?;
        Ok(environment)
    };
    let channel = match args.channel.as_ref().map(prepare).transpose() {
        Ok(channel) => channel,
        Err(not_started) => return NotStarted::outcome(not_started, "", ""),
    };
    // First, so that every thread that is made has them blocked, and none comes between the start of
    // the program and our waiting for it.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut traced = Traced::new(args.trace.of_live_run("")?);
    let mut places = Places::new(args.trace.event_room());
    let make = || {
        let mut command = Command::new(program);
        command.args(arguments);
        command.envs(channel.iter().flat_map(|channel| channel.0.clone()));
        command
    };
    let terms = asked.map(|asked| terms(asked, &mut places, args.broker())).transpose();
    let terms = match terms {
        Ok(terms) => terms,
        Err(not_started) => return not_started.outcome("", ""),
    };
    let mut awake = KeptAwake::start(args.awake)?;
    let wanted: Vec<_> = terms.iter().filter_map(wanted).collect();
    // On the first CPU that has room for it.
    let room = match places.make_room(&wanted, usize::MAX) {
        Ok(mut rooms) => rooms.pop(),
        Err(refused) => {
            let not_started = NotStarted::by_timetable(refused, named.into_owned());
            return not_started.outcome("", "");
        }
    };
    let running = match start(&make, terms, room, &mut places, &signals) {
        Ok(running) => running,
        Err(not_started) => return not_started.outcome("", ""),
    };
    awake.keep_for([running.cpu()], channel.is_some());
    let talk = !args.json && !args.quiet;
    if traced.is_on() && !traced.started(&named, &running) && !args.quiet {
        say(&format!("punctual: {UNTOLD}"));
    }
    traced.follow(places.timetables());
    if let (Some(terms), true) = (&running.terms, talk) {
        say(&format!("punctual: {}", terms.text()));
    }
    if let (Some(asked), true) = (&args.channel, talk) {
        say(&format!("punctual: {}", channel::text(asked, &args.broker)));
    }
    if let (Some(line), true) = (awake.text(), talk) {
        say(&format!("punctual: {line}"));
    }
    let ran = waiting::until_all_have_ended(vec![running], &signals, args.manner(), &mut traced)
        .map_err(|error| Failure::cannot_here(format!("cannot wait for the program: {error}")))?;
    let awake_cpus = awake.end();
    if let Err(failure) = traced.end() {
        complain(failure);
    }
    let Some(ran) = ran.first() else { return Ok(Exit::Kept) };
    let words = |word: &OsString| word.to_string_lossy().into_owned();
    if args.json {
        let json = summary::json(None, args.command.iter().map(words).collect(), ran);
        let json = Page { json, awake_cpus };
        // Cannot fail: no map with keys that are not text, no writer.
        say(&serde_json::to_string(&json).unwrap_or_default());
    } else if !args.quiet {
        say(&format!("punctual: {}", summary::text(&program.to_string_lossy(), ran)));
    } else if let Some(broken) = ran.reserved.as_ref().and_then(summary::broken) {
        say(&format!("punctual: {broken}"));
    }
    Ok(Exit::OfProgram(code_of(ran.ended.status)))
}
