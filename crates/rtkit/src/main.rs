//! `punctual-rtkit`: gives the threads of desktop programs grants of the Punctual broker.
//!
//! Programs that ask `org.freedesktop.RealtimeKit1` on the system bus for a real-time priority get a
//! grant with a budget and a period, which the broker admits and polices. This service has no
//! privilege: it tells the broker for which process it asks, and the broker checks the rest.
//!
//! - [`service`]: the interface. [`target`]: who asks, and for which process. [`polkit`]: whether it
//!   may.
//! - [`keeper`]: the grants and the connections to the broker. [`saved`]: the grants on disk.
//! - [`config`]: what each program gets.
//!
//! `docs/rtkit.md` says what is guaranteed and what is not.
#![forbid(unsafe_code)]

mod config;
mod keeper;
mod polkit;
mod saved;
mod service;
mod target;

use std::fmt::Display;
use std::future::{self, Future as _};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration as Time;
use std::{fs, thread};

use clap::Parser;
use punctual_client::SOCKET;
use tokio::sync::Notify;
use tracing::info;
use tracing_subscriber::EnvFilter;

use crate::config::Config;
use crate::keeper::Keeper;
use crate::service::{NAME, PATH, Service};

/// The default configuration file.
const CONFIG: &str = "/etc/punctual/rtkit.toml";

/// The time to wait for the bus and for polkit.
const PATIENCE: Time = Time::from_secs(20);

const HELP: &str = "\
Examples: as a service, in place of rtkit; in a terminal, for a trial; a check of a configuration
  systemctl disable --now rtkit-daemon; systemctl enable --now punctual-rtkit
  sudo punctual-rtkit --state /run/punctual-rtkit-try
  punctual-rtkit --check --config rtkit.toml
  busctl get-property org.freedesktop.RealtimeKit1 /org/freedesktop/RealtimeKit1 \\
    org.freedesktop.RealtimeKit1 MaxRealtimePriority

Needs no privilege, but must run as root or as the broker's own user (punctual), because only these \
may ask the broker for other processes. DBUS_SYSTEM_BUS_ADDRESS names another bus.

punctual status lists the grants; docs/rtkit.md lists every key of the configuration and what \
differs from rtkit. Logs go to standard error; RUST_LOG=debug logs more.

Exit codes: 0 the configuration is right, or the service was asked to end, 2 bad usage or bad configuration, 3 this host cannot: no \
bus, another rtkit, or no permission.";

/// Gives threads of desktop programs real-time guarantees: speaks org.freedesktop.RealtimeKit1 on the
/// system bus, and asks the Punctual broker.
#[derive(Parser)]
#[command(name = "punctual-rtkit", version, after_help = HELP)]
struct Args {
    /// What each program gets [default: /etc/punctual/rtkit.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The socket of the broker.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// The folder in which grants outlive an end of this service. It should be in memory: nothing in
    /// it outlives a boot.
    #[arg(long, value_name = "FOLDER", default_value = "/run/punctual-rtkit")]
    state: PathBuf,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
}

/// The reason why the service does not run, as a sentence that says what to do.
enum Failure {
    BadInput(String),
    CannotHere(String),
}

fn cannot_here(why: impl Display) -> Failure {
    Failure::CannotHere(why.to_string())
}

fn main() -> ExitCode {
    // clap exits with 2 on bad usage and 0 on --help.
    let (why, code) = match run(&Args::parse()) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::BadInput(why)) => (why, 2),
        Err(Failure::CannotHere(why)) => (why, 3),
    };
    // If standard error cannot be written to, there is nowhere left to report it.
    let _ = writeln!(io::stderr(), "punctual-rtkit: {why}");
    ExitCode::from(code)
}

fn run(args: &Args) -> Result<(), Failure> {
    let file = args.config.as_deref().unwrap_or(Path::new(CONFIG));
    let is_default = args.config.is_none() && !args.check;
    let config = match fs::exists(file) {
        Ok(false) if is_default => Config::default(),
        _ => Config::read(file).map_err(Failure::BadInput)?,
    };
    if args.check {
        let _ = writeln!(io::stdout(), "{}: right", file.display());
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.state);
    made.map_err(|why| {
        let state = args.state.display();
        cannot_here(format!("{state}: {why}: run as root or as the user punctual, or give --state"))
    })?;
    let saved = args.state.join("grants.json");
    let keeper = Keeper::open(config.clone(), args.broker.clone(), saved);
    let keeper = Arc::new(keeper.map_err(cannot_here)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The keeper does one thing at a time.
        .max_blocking_threads(2)
        .build();
    runtime.map_err(cannot_here)?.block_on(serve(config, keeper))
}

/// Serves until it is asked to end, or the bus is gone.
async fn serve(config: Config, keeper: Arc<Keeper>) -> Result<(), Failure> {
    let ends = Arc::new(Notify::new());
    let service = Service { config, keeper: Arc::clone(&keeper), ends: Arc::clone(&ends) };
    let bus = zbus::connection::Builder::system().and_then(|bus| {
        // zbus would take the name from another service, and give it to the next.
        let bus = bus.allow_name_replacements(false).replace_existing_names(false);
        bus.method_timeout(PATIENCE).serve_at(PATH, service)?.name(NAME)
    });
    let bus = match bus {
        Ok(bus) => bus.build().await,
        Err(why) => Err(why),
    };
    let bus = bus.map_err(|why| cannot_here(no_service(why)))?;
    info!(name = NAME, "ready");
    let watching = Arc::clone(&keeper);
    let watch = move || match watching.watch() {
        Ok(()) => {}
        Err(why) => {
            tracing::error!(%why, "the broker cannot be watched");
            std::process::exit(3);
        }
    };
    thread::Builder::new().name("keeper".into()).spawn(watch).map_err(cannot_here)?;
    let is_asked_to_end = {
        let (mut asked, mut closed) = (pin!(ends.notified()), pin!(bus.closed()));
        future::poll_fn(|context| match asked.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => closed.as_mut().poll(context).map(|()| false),
        })
        .await
    };
    if is_asked_to_end {
        // After the answer to that call.
        bus.graceful_shutdown().await;
        info!("ended, as asked for");
        return Ok(());
    }
    Err(cannot_here("the system bus has closed the connection: start this service again with it"))
}

/// Says why the service has no name on the bus, and what to do.
fn no_service(why: zbus::Error) -> String {
    match why {
        zbus::Error::NameTaken => format!(
            "another service has the name {NAME}: stop it (systemctl disable --now rtkit-daemon) \
             and start this one again"
        ),
        zbus::Error::MethodError(name, text, _) => refused(&name, text.as_deref().unwrap_or("")),
        zbus::Error::FDO(error) => {
            let text = error.to_string();
            match *error {
                zbus::fdo::Error::AccessDenied(_) => {
                    refused("org.freedesktop.DBus.Error.AccessDenied", &text)
                }
                _ => no_bus(text),
            }
        }
        other => no_bus(other),
    }
}

fn refused(name: &str, text: &str) -> String {
    match name {
        "org.freedesktop.DBus.Error.AccessDenied" => format!(
            "the bus does not give this user the name {NAME}: install {NAME}.conf into \
             /usr/share/dbus-1/system.d, and run as root or as the user punctual ({text})"
        ),
        _ => no_bus(text),
    }
}

fn no_bus(why: impl Display) -> String {
    format!(
        "there is no system bus to serve on: {why}; start it (systemctl start dbus), or name one in \
         DBUS_SYSTEM_BUS_ADDRESS"
    )
}
