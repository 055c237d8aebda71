//! While programs run: their ends, and the signals that are passed on to them.

use std::io;

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Caught, Signal};
use punctual_model::Duration;

use super::account::Used;
use super::meanwhile::Traced;
use super::start::Running;
use super::{Notice, Observer};

/// So long programs may take to stop before we stop too, as the terminal waits for us.
const STOPPING: Duration = Duration::from_secs(1);

/// The broker is listened to so often, where it granted something, and a trace written.
const LISTENING: Duration = Duration::from_millis(250);

/// So long programs that were asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// So long killed programs may take, and what they leave behind.
const DYING: Duration = Duration::from_secs(5);

/// Waits for the ends of all and passes signals on. Each loses its reservation with its first
/// process. Returns them in the order in which they came.
pub(super) fn until_all_have_ended(
    running: Vec<Running>,
    signals: &Blocked,
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
                // What came before the end.
                running.told.iter_mut().for_each(|told| told.hear(observer));
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

/// Waits for the next signal, and meanwhile listens to the broker and writes the trace.
fn next(
    live: &mut [Option<Running>],
    signals: &Blocked,
    traced: &mut Traced,
    observer: &mut Observer<'_>,
) -> io::Result<Caught> {
    loop {
        let mut listens = false;
        for told in live.iter_mut().flatten().filter_map(|running| running.told.as_mut()) {
            told.hear(observer);
            listens |= told.revoked().is_none();
        }
        traced.turn(observer);
        if !listens && !traced.is_on() {
            return signals.wait().map_err(io::Error::other);
        }
        let until = clock::now() + LISTENING;
        if let Some(caught) = signals.wait_until(until).map_err(io::Error::other)? {
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
        // What the terminal sends, it has sent to the programs as well.
        Caught::Child | Caught::Sent { from_terminal: true, .. } | Caught::Stop { .. } => Ok(()),
        Caught::Sent { signal, .. } => send(live, signal, observer),
    }
}

/// Sends a signal to each program. It cannot miss: each child is ours until `poll` has reaped it. A program that has
/// become another user's (set-user-id) may not be told anything; it goes on, and so do we.
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

/// Does job control: the programs stop first, then we do; and go on when we are told to. While we are
/// stopped no timetable is followed.
fn pause(
    live: &[Option<Running>],
    signals: &Blocked,
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
        match signals.wait_until(until).map_err(io::Error::other)? {
            None => break,
            Some(Caught::Sent { signal: Signal::CONT, .. }) => {
                return send(live, Signal::CONT, observer);
            }
            Some(other) => pass_on(live, other, observer)?,
        }
    }
    // SIGCONT ends this, and waits to be passed on.
    signals.stop().map_err(io::Error::other)
}

/// Ends programs whose companion could not be started, with all they made: asks, waits, kills.
pub(super) fn end(
    running: Vec<Running>,
    signals: &Blocked,
    observer: &mut Observer<'_>,
) -> io::Result<()> {
    let mut live: Vec<Option<Running>> = running.into_iter().map(Some).collect();
    send(&live, Signal::TERM, observer)?;
    // A program that was stopped would not hear it.
    send(&live, Signal::CONT, observer)?;
    let until = clock::now() + GRACE;
    while reap(&mut live)? > 0 {
        if signals.wait_until(until).map_err(io::Error::other)?.is_none() {
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

/// Kills what those that have ended left behind. Returns how many have not.
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
