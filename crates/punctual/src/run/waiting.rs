//! Waits for the ends of running programs, and passes signals on to them.

use std::io;
use std::process::Command;

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Caught, Signal, SignalError};
use punctual_model::{Duration, Instant};

use super::account::Used;
use super::meanwhile::Traced;
use super::notice::{Notice, Observer};
use super::start::Running;

/// The time that programs may take to stop before we stop too, because the terminal waits for us.
const STOPPING: Duration = Duration::from_secs(1);

/// The interval at which the broker's events are received, if it granted something, and a trace is
/// written.
const LISTENING: Duration = Duration::from_millis(250);

/// The time that programs may take to end after they are asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The time that killed programs, and the processes that they leave behind, may take to end.
const DYING: Duration = Duration::from_secs(5);

/// The way in which a run learns what happens.
pub(super) enum Signals {
    /// By signals, which are passed on to the programs.
    PassedOn(Box<Blocked>),
    /// By the ends of the programs alone. Signals are left to other threads of this process.
    Left,
}

impl Signals {
    /// Blocks the signals, if they are to be passed on.
    pub(super) fn new(passes_signals_on: bool) -> Result<Self, SignalError> {
        Ok(if passes_signals_on { Self::PassedOn(Box::new(Blocked::new()?)) } else { Self::Left })
    }

    /// Lets the program receive the signals that are blocked here.
    pub(super) fn unblock_on_exec(&self, command: &mut Command) {
        match self {
            Self::PassedOn(signals) => signals.unblock_on_exec(command),
            Self::Left => process::unblock_all_on_exec(command),
        }
    }

    /// Waits for a signal, or for the end of one of these programs; returns `None` if there is none
    /// by `until`.
    fn next(&self, live: &[Option<Running>], until: Option<Instant>) -> io::Result<Option<Caught>> {
        match (self, until) {
            (Self::PassedOn(signals), None) => signals.wait().map(Some).map_err(io::Error::other),
            (Self::PassedOn(signals), Some(until)) => {
                signals.wait_until(until).map_err(io::Error::other)
            }
            (Self::Left, _) => {
                let children = live.iter().flatten().map(|running| &running.child);
                let ended = process::wait_for_one(children, until)?;
                Ok(ended.then_some(Caught::Child))
            }
        }
    }
}

/// Waits for the ends of all programs and passes signals on. Each program loses its reservation
/// with its first process. Returns the results in the order of the programs.
pub(super) fn until_all_have_ended(
    running: Vec<Running>,
    signals: &Signals,
    traced: &mut Traced,
    observer: &mut Observer<'_>,
) -> io::Result<Vec<Used>> {
    let mut live: Vec<Option<Running>> = running.into_iter().map(Some).collect();
    let mut used: Vec<Option<Used>> = live.iter().map(|_| None).collect();
    loop {
        for (of, end) in live.iter_mut().zip(&mut used) {
            if let Some(running) = of.as_mut()
                && let Some(ended) = process::poll(&running.child)?
            {
                // Events that came before the end.
                running.watch.iter_mut().for_each(|watch| watch.settle(observer));
                *end = Some(Used::of(running, ended));
                *of = None;
            }
        }
        if live.iter().all(Option::is_none) {
            return Ok(used.into_iter().flatten().collect());
        }
        match next(&mut live, signals, traced, observer)? {
            Caught::Stop { from_terminal } => pause(&live, signals, from_terminal, observer)?,
            other => pass_on(&live, other, observer)?,
        }
    }
}

/// Waits for the next signal, and meanwhile receives the broker's events and writes the trace.
fn next(
    live: &mut [Option<Running>],
    signals: &Signals,
    traced: &mut Traced,
    observer: &mut Observer<'_>,
) -> io::Result<Caught> {
    loop {
        let mut polls = false;
        for watch in live.iter_mut().flatten().filter_map(|running| running.watch.as_mut()) {
            watch.poll(observer);
            polls |= watch.revoked().is_none();
        }
        for running in live.iter_mut().flatten().filter(|running| running.adaptive.is_some()) {
            running.adapt(observer);
            polls = true;
        }
        traced.turn(observer);
        if !polls && !traced.is_on() {
            return signals.next(live, None).map(|caught| caught.unwrap_or(Caught::Child));
        }
        let until = clock::now() + LISTENING;
        if let Some(caught) = signals.next(live, Some(until))? {
            return Ok(caught);
        }
    }
}

fn pass_on(
    live: &[Option<Running>],
    caught: Caught,
    observer: &mut Observer<'_>,
) -> io::Result<()> {
    match caught {
        // The terminal has sent its signals to the programs as well.
        Caught::Child | Caught::Sent { from_terminal: true, .. } | Caught::Stop { .. } => Ok(()),
        Caught::Sent { signal, .. } => send(live, signal, observer),
    }
}

/// Sends a signal to each program. It cannot reach another process: each child is ours until `poll`
/// has reaped it. A program that runs as another user (set-user-id) cannot be signalled; the run
/// goes on regardless.
fn send(live: &[Option<Running>], signal: Signal, observer: &mut Observer<'_>) -> io::Result<()> {
    live.iter().flatten().try_for_each(|running| match process::send(&running.child, signal) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (signal, process) = (signal.as_raw(), running.child.id());
            observer(&Notice::SignalNotPassedOn { signal, process });
            Ok(())
        }
        sent => sent,
    })
}

/// Does job control: the programs stop first, then this process, until SIGCONT. No timetable is
/// followed while this process is stopped.
fn pause(
    live: &[Option<Running>],
    signals: &Signals,
    from_terminal: bool,
    observer: &mut Observer<'_>,
) -> io::Result<()> {
    if !from_terminal {
        send(live, Signal::TSTP, observer)?;
    }
    let until = clock::now() + STOPPING;
    let still = || {
        let rests = |running: &Running| process::is_stopped(&running.child);
        live.iter()
            .flatten()
            .map(rests)
            .find(|rests| !matches!(rests, Ok(true)))
            .unwrap_or(Ok(true))
    };
    while !still()? {
        match signals.next(live, Some(until))? {
            None => break,
            Some(Caught::Sent { signal: Signal::CONT, .. }) => {
                return send(live, Signal::CONT, observer);
            }
            Some(other) => pass_on(live, other, observer)?,
        }
    }
    // SIGCONT ends this, and stays pending until it is passed on.
    match signals {
        Signals::PassedOn(signals) => signals.stop().map_err(io::Error::other),
        Signals::Left => Ok(()),
    }
}

/// Ends programs after another one could not be started, with all their processes: asks, waits,
/// kills.
pub(super) fn end(
    running: Vec<Running>,
    signals: &Signals,
    observer: &mut Observer<'_>,
) -> io::Result<()> {
    let mut live: Vec<Option<Running>> = running.into_iter().map(Some).collect();
    send(&live, Signal::TERM, observer)?;
    // A stopped program would not receive SIGTERM.
    send(&live, Signal::CONT, observer)?;
    let until = clock::now() + GRACE;
    while reap(&mut live)? > 0 {
        if signals.next(&live, Some(until))?.is_none() {
            break;
        }
    }
    send(&live, Signal::KILL, observer)?;
    let until = clock::now() + DYING;
    while reap(&mut live)? > 0 && clock::now() < until {
        clock::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Kills the processes that ended programs left behind. Returns the number of programs that have
/// not ended.
fn reap(live: &mut [Option<Running>]) -> io::Result<usize> {
    for of in live.iter_mut() {
        if let Some(running) = of.as_ref()
            && process::poll(&running.child)?.is_some()
        {
            let until = clock::now() + DYING;
            while let Some(held) = &running.held
                && !held.processes().is_empty()
                && clock::now() < until
            {
                for pid in held.processes() {
                    // A process that has ended meanwhile needs no signal.
                    let _ = process::send_to(pid, Signal::KILL);
                }
                clock::sleep(Duration::from_millis(1));
            }
            *of = None;
        }
    }
    Ok(live.iter().flatten().count())
}
