//! The `punctual-modem` program: soft modems behind ttys, and the demonstration of a driver with
//! deadlines.

mod bank;
mod demo;
mod modems;
mod network;
mod pair;
mod pty;
mod recording;
mod traced;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Provides soft modems that programs use through a tty, like a hardware modem
///
/// Each modem is a pseudo-terminal with AT commands, V.21, V.23, Bell 103 and V.22bis, negotiated
/// by V.8, with V.42 error correction and V.42bis compression. The line is emulated between modems
/// here (--pair, --bank), leads to another host as G.711 audio in RTP (--listen, --call), or is a
/// file (--wav-in, --wav-out).
#[derive(Parser)]
#[command(name = "punctual-modem", version, propagate_version = true, after_help = modems::HELP)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    modems: modems::Args,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Some(Command::Demo(args)) => demo::main(args),
        None => modems::main(&cli.modems),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => punctual_frontend::exit::report(&failure),
    }
}
