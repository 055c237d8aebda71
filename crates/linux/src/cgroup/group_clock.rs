//! The processor time of a group on one CPU, with an alarm when it has used so much more.
//!
//! The kernel counts it with a software clock that runs while a member is on the CPU and expires by
//! a high-resolution timer (`cpu-clock` of perf_event_open(2)). So an alarm costs nothing while the
//! group sleeps, and is not late by a tick.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use punctual_model::time::{Instant, Service};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::param::page_size;
use thiserror::Error;

use super::{CgroupError, Group, Hierarchy};
use crate::mapping::Mapping;
use crate::{clock, host, perf, process};

/// The least use after which the kernel can expire: its timers are at least so far apart.
pub const LEAST_ALARM: Service = Service::from_micros(10);

/// The reason why the processor time of a group cannot be counted.
#[derive(Debug, Error)]
pub enum GroupClockError {
    /// Events are counted for groups of version 2, unless version 1 has the controller.
    #[error(
        "the kernel counts no processor time of control groups version 2 on one CPU \
         (perf_event_open(2): {0}); it needs CONFIG_CGROUP_PERF, no mount of version 1 with the \
         controller perf_event, and root or CAP_PERFMON (CAP_SYS_ADMIN where \
         kernel.perf_event_paranoid is above 2)"
    )]
    NoEvent(io::Error),
    /// Version 2 gives its groups the controller perf_event with the first one that is enabled in its
    /// root.
    #[error(
        "the kernel counts no processor time of control groups version 2 yet, because no controller \
         was ever enabled in their root, as systemd does at boot: echo +pids > {}",
        root.join("cgroup.subtree_control").display()
    )]
    NoController {
        /// The root of version 2.
        root: PathBuf,
    },
    /// PREEMPT_RT hands the wake-up of an alarm to a thread of the lowest real-time priority
    /// (irq_work.c).
    #[error(
        "with PREEMPT_RT the alarm of a software clock waits for the kernel's thread irq_work of \
         priority 1, which the very program keeps from running whose budget is to end"
    )]
    AlarmWaits,
    /// There is no group to count.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The kernel opened the event and did not count.
    #[error("the kernel gave a software clock of a control group, and it did not count: {0}")]
    NoEffect(String),
}

/// The processor time of a group's members on one CPU.
#[derive(Debug)]
pub struct GroupClock {
    event: OwnedFd,
    /// The kernel wakes a poll of the event only if its buffer is mapped.
    _buffer: Mapping,
}

impl GroupClock {
    /// Opens the clock of a group of version 2 on `cpu`. There is no alarm yet.
    ///
    /// # Errors
    /// A [`GroupClockError`].
    pub fn open(group: &Group, cpu: usize) -> Result<Self, GroupClockError> {
        if host::is_preempt_rt() {
            return Err(GroupClockError::AlarmWaits);
        }
        let refused = GroupClockError::NoEvent;
        let directory = File::open(group.path()).map_err(refused)?;
        let of = perf::Of::Group(directory.as_fd(), cpu);
        let event = perf::open(perf::Count::CpuClock, of, i64::MAX as u64);
        let event = event.map_err(|error| match (error.kind(), Hierarchy::v2()) {
            (io::ErrorKind::NotFound, Some(v2)) => {
                GroupClockError::NoController { root: v2.root() }
            }
            _ => refused(error),
        })?;
        // The header, and a page that the kernel overwrites again and again.
        let buffer = Mapping::of(&event, 0, 2 * page_size(), false, MapFlags::empty())
            .map_err(|errno| refused(errno.into()))?;
        perf::enable(&event).map_err(refused)?;
        Ok(Self { event, _buffer: buffer })
    }

    /// Returns the time used since this was opened. Called on that CPU it is complete, because no
    /// member runs there meanwhile. Allocates nothing.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn used(&self) -> io::Result<Service> {
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count)?;
        Ok(Service::from_nanos(u64::from_ne_bytes(count)))
    }

    /// Sets the alarm to when so much more was used, [`LEAST_ALARM`] or more, and again after each
    /// such amount.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn alarm_after(&self, use_of: Service) -> io::Result<()> {
        let most = i64::MAX as u64;
        perf::set_period(&self.event, use_of.max(LEAST_ALARM).as_nanos().min(most))
    }

    /// Sleeps until the alarm, or `until`, or until `other` can be read. Allocates nothing.
    ///
    /// # Errors
    /// Those of ppoll(2), other than EINTR. EPIPE if the kernel ended the clock or `other` is closed:
    /// this would never sleep again.
    pub fn wait(&self, until: Option<Instant>, other: impl AsFd) -> io::Result<()> {
        let other = other.as_fd();
        let mut sources =
            [PollFd::new(&self.event, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        let left =
            until.map(|until| clock::timespec(until.saturating_since(clock::now()).as_nanos()));
        match poll(&mut sources, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_over = |one: &PollFd<'_>| one.revents().intersects(PollFlags::ERR | PollFlags::HUP);
        if sources.iter().any(is_over) { Err(Errno::PIPE.into()) } else { Ok(()) }
    }

    /// Tries it out: whether the time of a child in a group is counted on `cpu`. Takes about a
    /// millisecond.
    ///
    /// # Errors
    /// A [`GroupClockError`].
    pub fn probe(cpu: usize) -> Result<(), GroupClockError> {
        let group = Group::of_children()?;
        let clock = Self::open(&group, cpu)?;
        let no_effect = |error: io::Error| GroupClockError::NoEffect(error.to_string());
        let mut child = Command::new("true");
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        process::join_on_exec(&mut child, &group, cpu, None).map_err(no_effect)?;
        child.status().map_err(no_effect)?;
        match clock.used().map_err(no_effect)? {
            Service::ZERO => Err(GroupClockError::NoEffect("a child used no time".into())),
            _ => Ok(()),
        }
    }
}

impl Group {
    /// Makes a group of version 2 inside this process's own, for processes that it will start.
    ///
    /// # Errors
    /// A [`CgroupError`].
    pub fn of_children() -> Result<Self, CgroupError> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let parent = Hierarchy::v2().and_then(|hierarchy| hierarchy.group_of(me));
        let parent = parent.ok_or(CgroupError::NotMounted {
            feature: "counting the time of a group on one CPU",
            tried: "version 2",
        })?;
        Self::make(&parent, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;
    use punctual_model::time::Duration;

    /// Checks that a child's time is counted, that an alarm comes after the use that was asked for,
    /// and that other use of the CPU does not count.
    #[test]
    fn the_time_of_a_child_is_counted_and_sets_off_the_alarm() {
        let cpu = thread::affinity()[0];
        match GroupClock::probe(cpu) {
            Ok(()) => {}
            Err(refused) => {
                println!("skipped: {refused}");
                return;
            }
        }
        let group = Group::of_children().expect("the probe had one");
        let clock = GroupClock::open(&group, cpu).expect("the probe had one");
        let (stop, writer) = rustix::pipe::pipe().expect("descriptors");
        clock.alarm_after(Service::from_millis(3)).expect("accepted");
        // Nobody is in the group.
        clock.wait(Some(clock::now() + Duration::from_millis(5)), &stop).expect("waits");
        assert_eq!(clock.used().expect("read"), Service::ZERO);
        let mut child = Command::new("sh");
        child.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        process::die_with_parent(&mut child);
        process::join_on_exec(&mut child, &group, cpu, None).expect("prepared");
        let mut child = child.spawn().expect("sh is there");
        clock.wait(None, &stop).expect("the alarm");
        let used = clock.used().expect("read");
        let _ = child.kill();
        let _ = child.wait();
        assert!(used >= Service::from_millis(3), "{used}");
        drop(writer);
        assert!(clock.wait(None, &stop).is_err(), "it would return at once for ever");
    }
}
