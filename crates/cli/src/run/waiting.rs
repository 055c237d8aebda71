//! While programs run: their ends, and the signals that are passed on to them.

use std::io;

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Caught, Signal};
use punctual_model::Duration;

use super::start::Running;
use super::traced::Traced;
use super::usage::Ran;
use super::{Manner, say};

/// How long programs may take to stop before we stop too, as the terminal waits for us.
const STOPPING: Duration = Duration::from_secs(1);

/// How often the broker is listened to, where it granted something, and a trace written.
const LISTENING: Duration = Duration::from_millis(250);

/// How long programs that were asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// What killed programs may take, and what they leave behind.
const DYING: Duration = Duration::from_secs(5);

/// Waits for the ends of all and passes signals on. Each loses its reservation with its first
/// process. In the order in which they came.
pub(super) fn until_all_have_ended(
    running: Vec<Running>,
    signals: &Blocked,
    manner: Manner,
    traced: &mut Traced,
) -> io::Result<Vec<Ran>> {
    let mut live: Vec<Option<Running>> = running.into_iter().map(Some).collect();
    let mut ran: Vec<Option<Ran>> = live.iter().map(|_| None).collect();
    loop {
        for (of, end) in live.iter_mut().zip(&mut ran) {
            if let Some(running) = of.as_mut()
                && let Some(ended) = process::poll(&running.child)?
            {
                // What came before the end.
                running.told.iter_mut().for_each(|told| told.hear(manner));
                *end = Some(Ran::of(running, ended));
                *of = None;
            }
        }
        if live.iter().all(Option::is_none) {
            return Ok(ran.into_iter().flatten().collect());
        }
        match next(&mut live, signals, manner, traced)? {
            Caught::Stop { from_terminal } => pause(&live, signals, from_terminal)?,
            other => pass_on(&live, other)?,
        }
    }
}

/// Waits for the next signal, and meanwhile listens to the broker and writes the trace.
fn next(
    live: &mut [Option<Running>],
    signals: &Blocked,
    manner: Manner,
    traced: &mut Traced,
) -> io::Result<Caught> {
    loop {
        let mut listens = false;
        for told in live.iter_mut().flatten().filter_map(|running| running.told.as_mut()) {
            told.hear(manner);
            listens |= told.revoked().is_none();
        }
        traced.turn();
        if !listens && !traced.is_on() {
            return signals.wait().map_err(io::Error::other);
        }
        let until = clock::now() + LISTENING;
        if let Some(caught) = signals.wait_until(until).map_err(io::Error::other)? {
            return Ok(caught);
        }
    }
}

fn pass_on(live: &[Option<Running>], caught: Caught) -> io::Result<()> {
    match caught {
        // What the terminal sends, it has sent to the programs as well.
        Caught::Child | Caught::Sent { from_terminal: true, .. } | Caught::Stop { .. } => Ok(()),
        Caught::Sent { signal, .. } => send(live, signal),
    }
}

/// Cannot miss: each child is ours until `poll` has reaped it. A program that has become another
/// user's (set-user-id) may not be told anything; it goes on, and so do we.
fn send(live: &[Option<Running>], signal: Signal) -> io::Result<()> {
    live.iter().flatten().try_for_each(|running| match process::send(&running.child, signal) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            say(&format!(
                "punctual: signal {} was not passed on to process {}, which belongs to another user",
                signal.as_raw(),
                running.child.id()
            ));
            Ok(())
        }
        sent => sent,
    })
}

/// Job control: the programs stop first, then we do; and go on when we are told to. While we are
/// stopped nobody follows the timetables.
fn pause(live: &[Option<Running>], signals: &Blocked, from_terminal: bool) -> io::Result<()> {
    if !from_terminal {
        send(live, Signal::TSTP)?;
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
        match signals.wait_until(until).map_err(io::Error::other)? {
            None => break,
            Some(Caught::Sent { signal: Signal::CONT, .. }) => return send(live, Signal::CONT),
            Some(other) => pass_on(live, other)?,
        }
    }
    // SIGCONT ends this, and waits to be passed on.
    signals.stop().map_err(io::Error::other)
}

/// Ends programs whose companion could not be started: asks, waits, kills, with all they made.
pub(super) fn end(running: Vec<Running>, signals: &Blocked) -> io::Result<()> {
    let mut live: Vec<Option<Running>> = running.into_iter().map(Some).collect();
    send(&live, Signal::TERM)?;
    // A program that was stopped would not hear it.
    send(&live, Signal::CONT)?;
    let until = clock::now() + GRACE;
    while reap(&mut live)? > 0 {
        if signals.wait_until(until).map_err(io::Error::other)?.is_none() {
            break;
        }
    }
    send(&live, Signal::KILL)?;
    let until = clock::now() + DYING;
    while reap(&mut live)? > 0 && clock::now() < until {
        clock::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How many are left. Of those that have ended, what they left behind is killed.
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
                    // One that has ended meanwhile needs none.
                    let _ = process::send_to(pid, Signal::KILL);
                }
                clock::sleep(Duration::from_millis(1));
            }
            *of = None;
        }
    }
    Ok(live.iter().flatten().count())
}
