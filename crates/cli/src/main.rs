//! The `punctual` command. Each subcommand is a module, a thin layer over the crates below.

mod admit;
mod calibrate;
mod doctor;
mod explore;
mod export;
mod fit;
mod inject;
mod inputs;
mod metrics;
mod modem;
mod report;
mod run;
mod serve;
mod simulate;
mod status;
mod verify;
mod watch;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use punctual_frontend::exit;

/// Real-time guarantees for periodic work on stock Linux: declare, admit, run, police, prove.
#[derive(Parser)]
#[command(name = "punctual", version, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Admit(admit::Args),
    Simulate(simulate::Args),
    Explore(explore::Args),
    Run(run::Args),
    Doctor(doctor::Args),
    Calibrate(calibrate::Args),
    Serve(serve::Args),
    Status(status::Args),
    Metrics(metrics::Args),
    /// Provides soft modems as ttys by running the separate program punctual-modem
    Modem(modem::Args),
    /// Sends a file over a modem call whose driver has deadlines, by running punctual-modem demo
    Demo(modem::Args),
    Watch(watch::Args),
    Why(why::Args),
    Export(export::Args),
    Report(report::Args),
    Fit(fit::Args),
    Verify(verify::Args),
    Inject(inject::Args),
}

fn main() -> ExitCode {
    // clap exits with 2 on bad usage and 0 on --help, as `exit` promises.
    let outcome = match Cli::parse().command {
        Command::Admit(args) => admit::main(&args),
        Command::Simulate(args) => simulate::main(&args),
        Command::Explore(args) => explore::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Metrics(args) => metrics::main(&args),
        Command::Modem(args) => modem::main(&[], &args),
        Command::Demo(args) => modem::main(&["demo"], &args),
        Command::Watch(args) => watch::main(&args),
        Command::Why(args) => why::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Fit(args) => fit::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Inject(args) => inject::main(&args),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => exit::report(&failure),
    }
}
