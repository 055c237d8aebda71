//! The system calls that each part of the broker may make (seccomp(2)).
//!
//! Every other call fails with EPERM, as it does for want of privilege: no part can start a
//! program, trace or signal other processes, load anything into the kernel, mount, or change its
//! user. A call that a later C library makes instead of a listed one fails too, so each list has
//! the calls of old and of new libraries.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use thiserror::Error;

/// The part to which a list of calls applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Decides, and carries channels.
    Broker,
    /// Handles everything that clients made ([`crate::front`]).
    Front,
    /// Watches use, and takes classes back ([`crate::guard`]).
    Guard,
    /// Holds whole programs ([`crate::dispatcher`]).
    Dispatcher,
}

/// The reason why no filter is in force.
#[derive(Debug, Error)]
#[error("the system calls of the broker cannot be limited (seccomp(2)): {0}")]
pub struct SeccompError(String);

/// Memory, threads, time, and existing files: the calls of any program.
const COMMON: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pidfd_open,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls of this architecture that others have only under newer names.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Calls of this architecture for folders.
#[cfg(target_arch = "x86_64")]
const OLDER_FOLDERS: &[i64] = &[libc::SYS_mkdir, libc::SYS_rmdir];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_FOLDERS: &[i64] = &[];

/// For accepting clients, and for sealing the memory of their channels (fcntl(2)).
const FRONT: &[i64] = &[libc::SYS_accept4, libc::SYS_connect];

/// For the scheduling classes of other processes.
const GUARD: &[i64] = &[libc::SYS_getpriority, libc::SYS_sched_getattr, libc::SYS_sched_setattr];

/// For threads of other processes, their control groups, and the names of CPUs.
const DISPATCHER: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_getpriority,
    libc::SYS_listen,
    libc::SYS_mkdirat,
    libc::SYS_perf_event_open,
    libc::SYS_pipe2,
    libc::SYS_pwrite64,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setscheduler,
    libc::SYS_unlinkat,
    libc::SYS_socketpair,
];

/// For threads and limits of other processes, the ledger, and channels.
const BROKER: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_capget,
    libc::SYS_connect,
    libc::SYS_fchmod,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getpeername,
    libc::SYS_getpriority,
    libc::SYS_getrusage,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_memfd_create,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pipe2,
    libc::SYS_prlimit64,
    libc::SYS_pwrite64,
    libc::SYS_recvmmsg,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setscheduler,
    libc::SYS_sendmmsg,
    libc::SYS_setpriority,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_unlinkat,
    libc::SYS_vmsplice,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Limits the system calls of the calling thread, and of the threads it makes, for good. It can no
/// longer gain privilege by execve(2).
///
/// # Errors
/// If the kernel has no filters, or this architecture is unknown.
pub fn confine(role: Role) -> Result<(), SeccompError> {
    let failed = |why: &dyn std::fmt::Display| SeccompError(why.to_string());
    let program = program(role).map_err(|why| failed(&why))?;
    seccompiler::apply_filter(&program).map_err(|why| failed(&why))
}

fn program(role: Role) -> Result<BpfProgram, seccompiler::BackendError> {
    let own = match role {
        Role::Broker => BROKER,
        Role::Front => FRONT,
        Role::Guard => GUARD,
        Role::Dispatcher => DISPATCHER,
    };
    let folders = if role == Role::Dispatcher { OLDER_FOLDERS } else { &[] };
    let free = COMMON.iter().chain(OLDER).chain(folders).chain(own);
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        free.map(|call| (*call, Vec::new())).collect();
    let special = match role {
        // For looking up names (getpwnam_r(3)), for the names of CPUs, and for nothing that leaves
        // the host.
        Role::Front | Role::Dispatcher => Some((libc::SYS_socket, &[libc::AF_UNIX][..])),
        // For the table that it shares with the program in an interface's driver: look up, change,
        // remove.
        Role::Broker => Some((libc::SYS_bpf, &[1, 2, 3][..])),
        Role::Guard => None,
    };
    if let Some((call, first)) = special {
        rules.insert(call, first.iter().map(|value| first_is(*value)).collect::<Result<_, _>>()?);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let (refused, granted) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    SeccompFilter::new(rules, refused, granted, arch)?.try_into()
}

fn first_is(value: i32) -> Result<SeccompRule, seccompiler::BackendError> {
    let value = u64::from(value.unsigned_abs());
    let first = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
    SeccompRule::new(vec![first])
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    /// Runs the tries in a thread of their own, because a filter stays for ever.
    fn confined<T: Send + 'static>(role: Role, tries: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            confine(role).expect("filters are there");
            tries()
        });
        thread.join().expect("no panic")
    }

    #[test]
    fn no_part_starts_programs_signals_others_or_mounts() {
        for role in [Role::Broker, Role::Front, Role::Guard, Role::Dispatcher] {
            let (started, signalled, changed) = confined(role, || {
                let started = std::process::Command::new("true").spawn();
                let signalled = kill_process(getpid(), Signal::CONT);
                (started.map(|_| ()), signalled, rustix::process::chdir("/"))
            });
            assert!(started.is_err(), "{role:?}");
            assert_eq!((signalled, changed), (Err(Errno::PERM), Err(Errno::PERM)), "{role:?}");
        }
    }

    #[test]
    fn the_guard_sets_classes_and_opens_no_sockets() {
        use punctual_linux::sched::{Class, set};
        let tries = || {
            let family = |family| socket(family, SocketType::STREAM, None).map(|_| ());
            let class = set(punctual_linux::thread::current(), Class::Other { nice: 1 });
            (class.is_ok(), family(AddressFamily::INET), family(AddressFamily::UNIX))
        };
        assert_eq!(confined(Role::Guard, tries), (true, Err(Errno::PERM), Err(Errno::PERM)));
    }

    #[test]
    fn the_front_speaks_with_nobody_outside_of_the_host() {
        let open = || {
            let family = |family| socket(family, SocketType::STREAM, None).map(|_| ());
            (family(AddressFamily::INET), family(AddressFamily::UNIX))
        };
        assert_eq!(confined(Role::Front, open), (Err(Errno::PERM), Ok(())));
        assert_eq!(confined(Role::Broker, open), (Ok(()), Ok(())));
    }
}
