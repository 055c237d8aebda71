//! The live view: one thread watches, and this one draws and reads keys.

use std::io::{IsTerminal, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration as Time;

use punctual::watch::Watcher;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::draw::draw;
use super::look::Look;
use super::picture::Picture;
use super::rows;
use super::screen::Screen;
use super::state::State;

/// The period at which the picture is updated.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// The longest wait for a key, and so the oldest age of a picture on the screen.
const WAIT: Time = Time::from_millis(100);

/// The latest picture, and whether the view has ended.
#[derive(Default)]
struct Shared {
    picture: Mutex<Arc<Picture>>,
    over: AtomicBool,
}

/// Shows the view until a key, a signal or the time limit ends it.
pub(super) fn watch(watcher: Watcher, until: Option<Instant>, look: Look) -> Outcome {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(Failure::bad_input(
            "watch needs a terminal for its input and output; punctual watch --once prints one \
             frame, punctual status what the broker has granted",
        ));
    }
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked_to_end))
            .map_err(|why| Failure::cannot_here(format!("signals cannot be received: {why}")))?;
    }
    let shared = Arc::new(Shared::default());
    let watches = {
        let shared = Arc::clone(&shared);
        thread::Builder::new()
            .name("watch".into())
            .spawn(move || update(watcher, &shared))
            .map_err(|why| Failure::cannot_here(format!("no thread can be made: {why}")))?
    };
    let failed = |why: std::io::Error| Failure::cannot_here(format!("the terminal: {why}"));
    let shown = Screen::open().map_err(failed).and_then(|mut screen| {
        let is_over = || {
            asked_to_end.load(Ordering::Acquire)
                || watches.is_finished()
                || until.is_some_and(|until| clock::now() >= until)
        };
        turn(&mut screen, &shared, look, is_over).map_err(failed)
    });
    shared.over.store(true, Ordering::Release);
    // A program that was started ends with the watcher, after the view.
    let watched = watches.join();
    shown?;
    match watched {
        Ok(()) => Ok(Exit::Kept),
        Err(_) => Err(Failure::cannot_here("the watching thread has failed; its message is above")),
    }
}

/// Draws and reads keys.
fn turn(
    screen: &mut Screen,
    shared: &Shared,
    look: Look,
    is_over: impl Fn() -> bool,
) -> std::io::Result<()> {
    let mut state = State::default();
    let mut picture = Arc::new(Picture::default());
    while !state.quit && !is_over() {
        if !state.paused {
            picture = Arc::clone(&shared.picture.lock().unwrap_or_else(PoisonError::into_inner));
        }
        screen.terminal.draw(|frame| draw(frame, &picture, &state, look))?;
        // Handles all keys that were typed meanwhile, then draws one frame.
        let mut wait = WAIT;
        while event::poll(wait)? {
            if let Event::Key(key) = event::read()? {
                state = state.press(key, &picture);
            }
            wait = Time::ZERO;
        }
    }
    Ok(())
}

/// Updates the picture until the view has ended.
fn update(mut watcher: Watcher, shared: &Shared) {
    let is_over = || shared.over.load(Ordering::Acquire);
    while !is_over() {
        let picture = Arc::new(rows::picture(&watcher.state()));
        *shared.picture.lock().unwrap_or_else(PoisonError::into_inner) = picture;
        watcher.collect(clock::now() + LOOK, |_| is_over());
    }
}
