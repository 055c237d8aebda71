//! `punctual modem` and `punctual demo`: run `punctual-modem`, the only program that links
//! libspandsp.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use punctual_frontend::exit::{Failure, Outcome};

const PROGRAM: &str = "punctual-modem";

/// Passes all arguments on, even `--help`.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// Options of punctual-modem, which its --help lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `punctual-modem`: the one beside this program, or else the one on the
/// PATH.
pub(crate) fn main(before: &[&str], args: &Args) -> Outcome {
    let beside = env::current_exe().ok().map(|this| this.with_file_name(PROGRAM));
    let beside = beside.filter(|program| program.exists()).map(OsString::from);
    let mut command = Command::new(beside.unwrap_or_else(|| PROGRAM.into()));
    let error = command.args(before).args(&args.arguments).exec();
    Err(Failure::cannot_here(match error.kind() {
        ErrorKind::NotFound => format!(
            "the modem is a program of its own, {PROGRAM}, which is neither beside this one nor on the \
             PATH: install it (make install-modem)"
        ),
        _ => format!("{PROGRAM} cannot be run: {error}"),
    }))
}
