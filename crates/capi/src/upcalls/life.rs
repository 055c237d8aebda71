//! Opens, creates, runs, stops and frees upcalls.

use std::mem;
use std::sync::{Arc, Mutex};

use punctual_linux::clock;
use punctual_model::{Duration, HostProfile, Service};
use punctual_runtime::{CreateError, Running, Stopped, Upcalls};

use super::contract::{from_now_on, punctual_best_effort, punctual_contract, within};
use super::handler::{Called, Control, punctual_handler};
use super::options::{punctual_flags, punctual_options};
use super::post::{NoticeFunction, Post};
use super::records::punctual_stopped;
use super::state::{Inner, Phase, State, punctual_upcalls};
use crate::error::punctual_error::{self, *};
use crate::error::{Failure, Inside, guarded, inside};
use crate::sized::{can_write, handle, out, read, write};

/// Opens a handle for upcalls, without any yet. `options` may be null: real-time upcalls with all
/// defaults. A process may have several handles; each is admitted by itself.
///
/// All functions with the handle may be called from any thread at any time, except that
/// punctual_free must be the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_open(
    options: *const punctual_options,
    upcalls: *mut *mut punctual_upcalls,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let to = unsafe { out(upcalls, "upcalls") }?;
        let options = if options.is_null() {
            punctual_options::default()
        } else {
            // SAFETY: as the caller promises.
            unsafe { read(options) }?
        };
        to.write(Box::into_raw(Box::new(open(&options)?)));
        Ok(())
    })
}

fn open(options: &punctual_options) -> Result<punctual_upcalls, Failure> {
    let placement = options.placement()?;
    let mut host = HostProfile::ideal(1);
    let switch = within(options.context_switch_ns, "punctual_options.context_switch_ns")?;
    host.context_switch = Service::from_nanos(switch);
    let grace = within(options.grace_ns, "punctual_options.grace_ns")?;
    let mut upcalls = Upcalls::new(placement, host);
    if grace > 0 {
        upcalls = upcalls.with_grace(Duration::from_nanos(grace));
    }
    if options.flag(punctual_flags::PUNCTUAL_WITHOUT_CONTAINMENT)? {
        upcalls = upcalls.without_containment();
    }
    if options.flag(punctual_flags::PUNCTUAL_PROOF_INSIDE)? {
        upcalls = upcalls.with_proof_inside();
    }
    if options.most_containments > 0 {
        upcalls = upcalls.with_most_containments(options.most_containments);
    }
    if options.room > 0 {
        upcalls = upcalls.with_room(options.room()?);
    }
    let post = Arc::new(Post::new());
    let on_notice = NoticeFunction::new(options.on_notice, options.on_notice_arg);
    let upcalls = upcalls.observe({
        let post = Arc::clone(&post);
        move |notice| on_notice.deliver(notice, &post)
    });
    let inner = Inner::new(upcalls, post);
    Ok(punctual_upcalls { inner: Arc::new(inner), agent: Mutex::new(None) })
}

/// Admits an upcall in addition to those created before, and writes its number to `id`: 0 for the
/// first. (`rts_creat`)
///
/// Before punctual_run, its first release is the start given there, and `first_release_ns` must be
/// 0. After, it is `first_release_ns` (CLOCK_MONOTONIC), but not before now.
///
/// Returns PUNCTUAL_EREFUSED if all upcalls together would not be in time. The sentence names the
/// test that failed, the shortfall, and changes, each of which would make it fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_create(
    upcalls: *mut punctual_upcalls,
    contract: *const punctual_contract,
    handler: *const punctual_handler,
    first_release_ns: u64,
    id: *mut u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all four.
        let (upcalls, contract, handler, to) = unsafe {
            (handle(upcalls, "upcalls")?, read(contract)?, read(handler)?, out(id, "id")?)
        };
        // SAFETY: as the caller promises.
        let upcall = unsafe { contract.upcall() }?;
        let period = upcall.period();
        to.write(upcalls.create(handler, period, |phase, called| match phase {
            Phase::Ready(_) if first_release_ns != 0 => Err(Failure::invalid(
                "first_release_ns must be 0 before punctual_run, which says when all begin",
            )),
            Phase::Ready(ready) => Ok(ready.create(upcall, called)),
            Phase::Running(running) => {
                let first = from_now_on(first_release_ns, "first_release_ns")?;
                Ok(running.create(upcall, called, first))
            }
            Phase::Ended => Ok(Err(CreateError::Ended)),
        })?);
        Ok(())
    })
}

/// Adds a best-effort upcall, and writes its number to `id`. It runs when no real-time upcall of
/// the handle wants the CPU, as an ordinary thread of the host. For PUNCTUAL_UPCALLS with
/// containment, and PUNCTUAL_ORDINARY. Its contract cannot be changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_create_best_effort(
    upcalls: *mut punctual_upcalls,
    contract: *const punctual_best_effort,
    handler: *const punctual_handler,
    id: *mut u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all four.
        let (upcalls, contract, handler, to) = unsafe {
            (handle(upcalls, "upcalls")?, read(contract)?, read(handler)?, out(id, "id")?)
        };
        // SAFETY: as the caller promises.
        let best_effort = unsafe { contract.best_effort() }?;
        to.write(upcalls.create(handler, Duration::MAX, |phase, called| {
            Ok(match phase {
                Phase::Ready(ready) => ready.create_best_effort(best_effort, called),
                Phase::Running(running) => running.create_best_effort(best_effort, called),
                Phase::Ended => Err(CreateError::Ended),
            })
        })?);
        Ok(())
    })
}

impl punctual_upcalls {
    fn create(
        &self,
        handler: punctual_handler,
        relative_deadline: Duration,
        create: impl FnOnce(&mut Phase, Called) -> Result<Result<u32, CreateError>, Failure>,
    ) -> Result<u32, Failure> {
        let inner = &self.inner;
        let control = Arc::new(Control::new());
        let called = Called::new(handler, Arc::clone(&control), Arc::clone(&inner.post))?;
        let mut state = inner.state();
        let State { phase, tally } = &mut *state;
        let id = create(phase, called)??;
        tally.declare(id, relative_deadline);
        inner.add(control, id);
        Ok(id)
    }
}

/// Starts all upcalls, each first released at `start_ns` (CLOCK_MONOTONIC), but not before now.
/// (`rts_run` for all; for a suspended one use punctual_resume.)
///
/// Returns PUNCTUAL_EHOST if the threads do not get the scheduling classes they need, and
/// PUNCTUAL_EREFUSED if the kernel has no bandwidth left for the reservation. Then no upcall runs,
/// and the handle can only be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_run(
    upcalls: *mut punctual_upcalls,
    start_ns: u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let upcalls = unsafe { handle(upcalls, "upcalls") }?;
        let start = from_now_on(start_ns, "start_ns")?;
        let mut state = upcalls.inner.state();
        let ready = match mem::replace(&mut state.phase, Phase::Ended) {
            Phase::Ready(ready) => ready,
            other => {
                state.phase = other;
                return Err(Failure::invalid("the upcalls run, or ran, already"));
            }
        };
        // The agent starts first, so that no handler is called if it cannot be created. It waits
        // for the lock of the state.
        let agent = upcalls.start_agent().map_err(|why| {
            Failure::new(PUNCTUAL_EHOST, format!("no thread to look after the upcalls: {why}"))
        });
        match agent.and_then(|()| Ok(ready.run(start)?)) {
            Ok(running) => {
                state.phase = Phase::Running(Box::new(running));
                Ok(())
            }
            Err(why) => {
                upcalls.inner.closed(None);
                drop(state);
                upcalls.end_agent();
                Err(why)
            }
        }
    })
}

/// Stops all upcalls at the next yield point and waits for it. For handlers that were contained it
/// waits up to two seconds more. `stopped` may be null. Statistics, events and notices stay until
/// the handle is freed.
///
/// Returns PUNCTUAL_EHOST if the kernel had taken the scheduling class away while they ran; they
/// are stopped all the same. Returns PUNCTUAL_EDEADLK from inside a notice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stop(
    upcalls: *mut punctual_upcalls,
    stopped: *mut punctual_stopped,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let upcalls = unsafe { handle(upcalls, "upcalls") }?;
        if !stopped.is_null() {
            // SAFETY: as the caller promises.
            unsafe { can_write(stopped) }?;
        }
        let left = stop(upcalls)?;
        if stopped.is_null() {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { write(stopped, left) }
    })
}

/// Stops the upcalls if they run, and frees the handle, which must not be used again. Does nothing
/// for a null pointer.
///
/// Returns the errors of punctual_stop; the handle is freed all the same, except after
/// PUNCTUAL_EDEADLK. To learn whether handlers are stuck, stop first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_free(upcalls: *mut punctual_upcalls) -> punctual_error {
    guarded(|| {
        if upcalls.is_null() {
            return Ok(());
        }
        not_in_a_notice()?;
        // SAFETY: made by `punctual_open` with `Box::into_raw`, and given up by the caller.
        let upcalls = unsafe { Box::from_raw(upcalls) };
        let runs = matches!(upcalls.inner.state().phase, Phase::Running(_));
        if runs {
            stop(&upcalls)?;
        }
        upcalls.end_agent();
        Ok(())
    })
}

fn not_in_a_notice() -> Result<(), Failure> {
    if inside() == Inside::Notice {
        let why = "called from inside a notice, for whose end it would wait; tell another thread";
        return Err(Failure::new(PUNCTUAL_EDEADLK, why));
    }
    Ok(())
}

fn stop(upcalls: &punctual_upcalls) -> Result<punctual_stopped, Failure> {
    not_in_a_notice()?;
    let inner = &upcalls.inner;
    let running: Box<Running<Called>> = {
        let mut state = inner.state();
        match mem::replace(&mut state.phase, Phase::Ended) {
            Phase::Running(running) => running,
            other => {
                let never = matches!(other, Phase::Ready(_));
                state.phase = other;
                let why = if never { "do not run yet" } else { "were stopped before" };
                return Err(Failure::invalid(format!("the upcalls {why}")));
            }
        }
    };
    // The lock is not held here: notices may still be delivered, and may call functions that need
    // it.
    upcalls.end_agent();
    // A notice may wait for upcalls, and stopping waits for the notice.
    inner.post.end();
    let outcome = running.stop();
    let Stopped { stuck, events, events_lost, unfinished, exec_time, .. } =
        outcome.inspect_err(|_| inner.closed(None))?;
    inner.closed(Some(&stuck));
    let jobs = unfinished.iter().map(|backlog| backlog.jobs).sum();
    let tally = &mut inner.state().tally;
    tally.count(events.into_iter());
    tally.lost(events_lost);
    tally.end(clock::now(), unfinished);
    Ok(punctual_stopped {
        size: size_of::<punctual_stopped>(),
        exec_time_ns: exec_time.as_nanos(),
        events_lost,
        unfinished: jobs,
        stuck: stuck.len() as u64,
    })
}
