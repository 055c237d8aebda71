//! Deliberate trouble for one process: a quota of its control group, the freezer, a signal that
//! stops it. Dropping what is here gives the process back, and removes the control groups.

use std::fmt;

use punctual_linux::cgroup::{CgroupError, Group, Hierarchy};
use punctual_linux::clock;
use punctual_linux::process::{self, Signal};
use punctual_model::Duration;
use thiserror::Error;

/// A way to stop a process for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// SIGSTOP and SIGCONT.
    Signal,
    /// The freezer of control groups, version 1.
    FreezerV1,
    /// The freezer of control groups, version 2.
    FreezerV2,
}

/// The reason a process cannot be held.
#[derive(Debug, Error)]
pub enum HoldError {
    /// The hierarchy is not mounted.
    #[error("there is no {0} here")]
    NoHierarchy(&'static str),
    /// A control group cannot be used.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The signal cannot be sent.
    #[error("the process {pid} cannot be signalled: {why}")]
    Signal {
        /// The process.
        pid: u32,
        /// The system call's error.
        why: String,
    },
}

/// A process that can be held. Dropping it lets the process go on.
#[derive(Debug)]
pub struct Holder {
    pid: u32,
    /// The group that is frozen, unless signals are used.
    group: Option<(Group, bool)>,
}

impl Holder {
    /// Prepares holding the process `pid`, a child of the caller, by these means.
    ///
    /// # Errors
    /// A [`HoldError`].
    pub fn new(means: Means, pid: u32) -> Result<Self, HoldError> {
        let found = match means {
            Means::Signal => return Ok(Self { pid, group: None }),
            Means::FreezerV1 => Hierarchy::v1("freezer").map(|found| (found, true)),
            Means::FreezerV2 => Hierarchy::v2().map(|found| (found, false)),
        };
        let missing = match means {
            Means::FreezerV1 => "freezer of version 1",
            _ => "control group of version 2",
        };
        let (hierarchy, is_v1) = found.ok_or(HoldError::NoHierarchy(missing))?;
        let group = Group::make(&hierarchy.root(), is_v1)?;
        group.add(number(pid))?;
        Ok(Self { pid, group: Some((group, is_v1)) })
    }

    /// Stops the process.
    ///
    /// # Errors
    /// A [`HoldError`].
    pub fn hold(&self) -> Result<(), HoldError> {
        self.set(true)
    }

    /// Lets the process go on.
    ///
    /// # Errors
    /// A [`HoldError`].
    pub fn let_go(&self) -> Result<(), HoldError> {
        self.set(false)
    }

    /// Holds the process for `length` in every `period`, as long as `goes_on` returns true. Returns
    /// how often.
    ///
    /// # Errors
    /// A [`HoldError`].
    pub fn alternate(
        &self,
        length: Duration,
        period: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<u64, HoldError> {
        let mut times = 0;
        let mut due = clock::now();
        while goes_on() {
            due += period;
            clock::sleep_until(due);
            self.hold()?;
            clock::sleep(length);
            self.let_go()?;
            times += 1;
        }
        Ok(times)
    }

    fn set(&self, held: bool) -> Result<(), HoldError> {
        let Some((group, is_v1)) = &self.group else {
            let signal = if held { Signal::STOP } else { Signal::CONT };
            let sent = process::send_to(number(self.pid), signal);
            return sent.map_err(|why| HoldError::Signal { pid: self.pid, why: why.to_string() });
        };
        let (file, words) = if *is_v1 {
            ("freezer.state", ["THAWED", "FROZEN"])
        } else {
            ("cgroup.freeze", ["0", "1"])
        };
        Ok(group.write(file, words[usize::from(held)])?)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.let_go();
    }
}

/// A process whose processor time a control group limits. Dropping it ends the limit.
pub struct Quota {
    /// From the process's own group up to the one with the quota: each is dropped before the one
    /// that it is in.
    groups: Vec<Group>,
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.groups.iter().map(Group::path)).finish()
    }
}

impl Quota {
    /// Limits the process `pid` to `quota` in each `period`, by a group that is `levels` above its
    /// own.
    ///
    /// # Errors
    /// A [`HoldError`].
    pub fn of(
        pid: u32,
        quota: Duration,
        period: Duration,
        levels: usize,
    ) -> Result<Self, HoldError> {
        let (hierarchy, is_v1) = hierarchy_of_cpu()?;
        let mut groups = vec![Group::make(&hierarchy.root(), is_v1)?];
        let us = |time: Duration| (time.as_nanos() / 1000).to_string();
        if is_v1 {
            groups[0].write("cpu.cfs_period_us", &us(period))?;
            groups[0].write("cpu.cfs_quota_us", &us(quota))?;
        } else {
            groups[0].write("cpu.max", &format!("{} {}", us(quota), us(period)))?;
        }
        for _ in 0..levels {
            groups.insert(0, Group::make(groups[0].path(), is_v1)?);
        }
        groups[0].add(number(pid))?;
        Ok(Self { groups })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // In the order of the list, and not all at once: a group with a child is not removed.
        self.groups.drain(..).for_each(drop);
    }
}

/// Returns the hierarchy with quotas, and whether it is of version 1.
fn hierarchy_of_cpu() -> Result<(Hierarchy, bool), HoldError> {
    if let Some(v1) = Hierarchy::v1("cpu") {
        return Ok((v1, true));
    }
    let v2 = Hierarchy::v2().filter(|v2| {
        let enabled = std::fs::read_to_string(v2.root().join("cgroup.subtree_control"));
        enabled.is_ok_and(|enabled| enabled.split_whitespace().any(|one| one == "cpu"))
    });
    v2.map(|v2| (v2, false)).ok_or(HoldError::NoHierarchy("cpu controller of control groups"))
}

/// The kernel's process numbers are below 2^22 (proc(5)).
fn number(pid: u32) -> i32 {
    i32::try_from(pid).unwrap_or(i32::MAX)
}
