//! `punctual run --reserve`: one program.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use punctual_linux::process::Blocked;

use super::places::Places;
use super::start::{Asked, start, terms};
use super::{Args, code_of, say, summary, waiting};
use crate::exit::{Exit, Failure, Outcome};

pub(super) fn main(args: &Args, asked: Asked, program: &OsStr, arguments: &[OsString]) -> Outcome {
    // First, so that every thread that is made has them blocked, and none comes between the start of
    // the program and our waiting for it.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let mut places = Places::new();
    let make = || {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let started = terms(asked, &mut places, args.broker())
        .and_then(|terms| start(&make, Some(terms), &mut places, &signals));
    let running = match started {
        Ok(running) => running,
        Err(not_started) => return not_started.outcome("", ""),
    };
    if let (Some(terms), false) = (&running.terms, args.json || args.quiet) {
        say(&format!("punctual: {}", terms.text()));
    }
    let ran = waiting::until_all_have_ended(vec![running], &signals, args.manner())
        .map_err(|error| Failure::cannot_here(format!("cannot wait for the program: {error}")))?;
    let Some(ran) = ran.first() else { return Ok(Exit::Kept) };
    let words = |word: &OsString| word.to_string_lossy().into_owned();
    if args.json {
        let json = summary::json(None, args.command.iter().map(words).collect(), ran);
        // Cannot fail: no map with keys that are not text, no writer.
        say(&serde_json::to_string(&json).unwrap_or_default());
    } else if !args.quiet {
        say(&format!("punctual: {}", summary::text(&program.to_string_lossy(), ran)));
    } else if let Some(broken) = ran.reserved.as_ref().and_then(summary::broken) {
        say(&format!("punctual: {broken}"));
    }
    Ok(Exit::OfProgram(code_of(ran.ended.status)))
}
