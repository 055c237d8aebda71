//! Finds the threads of a process group in /proc.

use std::fs;
use std::process::Child;

use punctual_linux::process::Signal;
use punctual_linux::sched;
use punctual_linux::thread::Tid;
use rustix::process::{Pid, kill_process_group};

/// Returns the threads of a process group that have not ended. A thread that has ended but was not
/// waited for keeps its class, and is not counted.
pub(super) fn threads_of(group: u32) -> Vec<i32> {
    let ids = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        entries.filter_map(id).collect::<Vec<_>>()
    };
    let of_process = |pid| {
        let threads = ids(&format!("/proc/{pid}/task")).into_iter();
        threads.filter(move |thread| is_of(pid, *thread, group))
    };
    ids("/proc").into_iter().flat_map(of_process).collect()
}

fn is_of(pid: i32, thread: i32, group: u32) -> bool {
    let path = format!("/proc/{pid}/task/{thread}/stat");
    let stat = fs::read_to_string(path).unwrap_or_default();
    // The fields after the name in parentheses: state, parent, group (proc(5)).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_whitespace().take(3).collect();
    matches!(fields[..], [state, _, of] if state != "Z" && state != "X" && of == group.to_string())
}

/// Returns the threads that run in the real-time class of this name.
pub(super) fn of_class(threads: Vec<i32>, policy: &str) -> Vec<i32> {
    let is = |id: &i32| {
        let class = Tid::from_raw(*id).and_then(|id| sched::get(id).ok());
        class.is_some_and(|class| class.policy_name() == policy)
    };
    threads.into_iter().filter(is).collect()
}

/// Sends a signal to the process group that `leader` has founded. The leader has not been waited
/// for yet, so its id has not been reused.
pub(super) fn signal(leader: &Child, signal: Signal) {
    let _ = Pid::from_raw(leader.id() as i32).map(|group| kill_process_group(group, signal));
}
