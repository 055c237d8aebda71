//! A child that is in its group before it is the program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::thread::CpuSet;

use crate::cgroup::Group;

/// The child takes SCHED_FIFO at `priority` if there is one, may use only `cpu`, and moves itself into
/// `group`, before it executes the program: so no instruction of the program, and nothing that it
/// makes, is ever outside. In a frozen group it stops there, and `spawn` waits.
///
/// # Errors
/// If the group's file cannot be opened. What the child meets comes back as the error of `spawn`.
pub fn join_on_exec(
    command: &mut Command,
    group: &Group,
    cpu: usize,
    priority: Option<u8>,
) -> io::Result<()> {
    // Close-on-exec, so the program never sees it.
    let members = File::options().write(true).open(group.path().join("cgroup.procs"))?;
    let mut cpus = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    cpus.set(cpu);
    let in_child = move || {
        rustix::thread::sched_setaffinity(None, &cpus)?;
        // "0" is the writer (cgroups(7)).
        rustix::io::write(&members, b"0")?;
        if let Some(priority) = priority {
            super::raise(crate::thread::current(), priority)?;
        }
        Ok(())
    };
    // SAFETY: `in_child` makes four system calls (sched_setaffinity, write, gettid,
    // sched_setscheduler) and allocates nothing: an error made from an errno does not either.
    unsafe { command.pre_exec(in_child) };
    Ok(())
}
