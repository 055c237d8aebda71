//! A child that enters its group before it executes the program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::thread::CpuSet;

use crate::cgroup::Group;

/// Makes the child restrict itself to `cpu`, move itself into `group`, and take SCHED_FIFO at
/// `priority` if there is one, before it executes the program. So no instruction of the program,
/// and nothing that it starts, is ever outside. In a frozen group the child stops there, and
/// `spawn` waits.
///
/// # Errors
/// If the group's file cannot be opened. An error in the child is returned by `spawn`.
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
        // "0" means the writer (cgroups(7)).
        rustix::io::write(&members, b"0")?;
        if let Some(priority) = priority {
            super::raise(crate::thread::current(), priority)?;
        }
        Ok(())
    };
    // SAFETY: `in_child` makes four system calls (sched_setaffinity, write, gettid,
    // sched_setscheduler) and allocates nothing; neither does an error made from an errno.
    unsafe { command.pre_exec(in_child) };
    Ok(())
}
