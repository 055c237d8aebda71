//! Cuts processes that need no broker: upcalls beside other upcalls, and programs under `punctual
//! run`.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use punctual_linux::clock;
use punctual_linux::process::die_with_parent;
use punctual_model::Duration;

use super::cutter::{Action, Cutter, Ended};
use super::{Cycle, Sweep};
use crate::hostile::groups;
use crate::hostile::kills::{self, bandwidth_is_back, must};
use crate::hostile::person::as_role;

/// The number of instructions of upcalls to cut at: a few jobs.
const INSTRUCTIONS: u64 = 6_000;

/// Returns a command that stops itself before it becomes the given program.
pub(super) fn held(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    die_with_parent(&mut shell);
    shell
}

/// Waits for the end of a process, and returns its exit code, or `None` if a signal ended it.
///
/// # Errors
/// Fails if the process does not end; it is then killed.
pub(super) fn end_of(child: &mut Child) -> Result<Option<i32>, String> {
    let mut status = None;
    let ended = must("", || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
        return Err("it does not end".into());
    }
    Ok(status.and_then(|status| status.code()))
}

/// Runs a short program under `punctual run`.
pub(super) fn run(sweep: Sweep, how: &'static [&'static str]) -> Result<Cycle, String> {
    let mut command = Command::new(kills::built("punctual")?);
    command.args(["run", "--reserve", "1ms/10ms", "--quiet"]).args(how);
    command.args(["--", "sleep", "0.02"]);
    let mut cutter = Cutter::start();
    Ok(Box::new(move |at| {
        let mut shell = held(&command);
        let mut child = shell
            .env("PUNCTUAL_HOST_PROFILE", "ideal")
            .process_group(0)
            .spawn()
            .map_err(|why| why.to_string())?;
        let group = child.id();
        cutter.arm(sweep.action, at, group, true)?;
        let code = end_of(&mut child)?;
        let ended = cutter.done();
        let was = |why: String| format!("{why} (cut: {ended:?})");
        let is_killed = sweep.action == Action::Kill && matches!(ended, Ended::Cut(_));
        if !is_killed && code != Some(0) {
            return Err(was(format!("its exit code is {code:?}")));
        }
        let threads = || groups::threads_of(group);
        must("", || threads().is_empty()).map_err(|_| was(format!("left: {:?}", threads())))?;
        let left = || kills::control_groups_of(group);
        must("", || left().iter().all(|group| kills::is_empty(group)))
            .map_err(|_| was(format!("control groups: {:?}", left())))?;
        if !is_killed && !left().is_empty() {
            return Err(was(format!("control groups: {:?}", left())));
        }
        bandwidth_is_back().map_err(was)?;
        Ok(ended)
    }))
}

/// Runs a process with upcalls beside another, with which it exchanges the processor through shared
/// memory.
pub(super) fn handover(sweep: Sweep) -> Result<Cycle, String> {
    let mut beside = kills::Beside::start()?;
    let role = format!("upcalls {}", beside.table_name());
    let mut cutter = Cutter::start();
    Ok(Box::new(move |at| {
        let ended = if sweep.action == Action::KillAtInstruction {
            if at > INSTRUCTIONS {
                return Ok(Ended::Whole(at));
            }
            let mut victim = beside.another();
            cutter.arm(sweep.action, at, victim.pid(), false)?;
            must("it is not cut", || victim.has_ended())?;
            cutter.done()
        } else {
            life_of_upcalls(sweep, &role, &mut cutter, at)?
        };
        beside.goes_on().map_err(|why| format!("{why} (cut: {ended:?})"))?;
        Ok(ended)
    }))
}

/// Runs upcalls from the start of their program to its end.
fn life_of_upcalls(
    sweep: Sweep,
    role: &str,
    cutter: &mut Cutter,
    at: u64,
) -> Result<Ended, String> {
    let mut program = Command::new(std::env::current_exe().map_err(|why| why.to_string())?);
    as_role(&mut program, role);
    let mut shell = held(&program);
    shell.env(crate::hostile::ROLE, role);
    let mut child = shell.stdin(Stdio::piped()).spawn().map_err(|why| why.to_string())?;
    cutter.arm(sweep.action, at, child.id(), true)?;
    let until = clock::now() + Duration::from_millis(60);
    while clock::now() < until && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        clock::sleep(Duration::from_millis(1));
    }
    // The program ends in order once its input is closed.
    drop(child.stdin.take());
    let code = end_of(&mut child)?;
    let ended = cutter.done();
    let is_killed = sweep.action == Action::Kill && matches!(ended, Ended::Cut(_));
    if !is_killed && code != Some(0) {
        return Err(format!("its exit code is {code:?} (cut: {ended:?})"));
    }
    Ok(ended)
}
