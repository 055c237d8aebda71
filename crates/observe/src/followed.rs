//! The threads of processes and of all their descendants, from /proc (proc(5)), and how they
//! change.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use punctual_model::Service;

/// The most processes examined at a time, so that a fork bomb does not take all time.
const MOST: usize = 4096;

/// Processes whose threads are looked up repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    roots: Vec<u32>,
    threads: BTreeSet<u32>,
    own: Option<Enforcer>,
    enforcers: BTreeSet<u32>,
}

/// The changes since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) came: Vec<u32>,
    pub(crate) went: Vec<u32>,
    pub(crate) enforcers: Vec<u32>,
}

impl Followed {
    /// Follows no process.
    pub(crate) fn new() -> Self {
        Self { roots: Vec::new(), threads: BTreeSet::new(), own: None, enforcers: BTreeSet::new() }
    }

    /// Declares that threads of this program enforce budgets if its first argument is one of these.
    pub(crate) fn enforced_by(&mut self, program: PathBuf, commands: &'static [&'static str]) {
        self.own = Some((program, commands));
    }

    /// Follows this process and its descendants, too.
    pub(crate) fn add(&mut self, process: u32) {
        self.roots.push(process);
    }

    /// Looks up the threads again, and returns the changes.
    pub(crate) fn look(&mut self) -> Changes {
        let mut changes = Changes::default();
        let tree = Tree::of(&self.roots, self.own.as_ref());
        let threads: BTreeSet<u32> = tree.threads.into_iter().map(|(_, thread)| thread).collect();
        let new = tree.enforcers.into_iter().filter(|&thread| self.enforcers.insert(thread));
        changes.enforcers.extend(new);
        changes.came = threads.difference(&self.threads).copied().collect();
        changes.went = self.threads.difference(&threads).copied().collect();
        self.threads = threads;
        changes
    }

    /// Returns true if any followed process is alive.
    pub(crate) fn is_alive(&self) -> bool {
        !self.threads.is_empty()
    }
}

/// A program whose threads enforce budgets if its first argument is one of these: they are not the
/// work.
pub type Enforcer = (PathBuf, &'static [&'static str]);

/// The threads that exist at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The process and thread ids of the work.
    pub threads: Vec<(u32, u32)>,
    /// The threads of the program that enforces budgets.
    pub enforcers: Vec<u32>,
}

impl Tree {
    /// Finds these processes and their descendants.
    pub fn of(roots: &[u32], enforcer: Option<&Enforcer>) -> Self {
        let mut tree = Self::default();
        let (mut seen, mut next) = (BTreeSet::new(), roots.to_vec());
        while let Some(process) = next.pop() {
            if seen.len() >= MOST || !seen.insert(process) || is_dead(process) {
                continue;
            }
            let enforces = enforcer.is_some_and(|(program, commands)| {
                fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|exe| exe == *program)
                    && first_argument(process).is_some_and(|word| commands.contains(&&*word))
            });
            for thread in threads(process) {
                let children =
                    fs::read_to_string(format!("/proc/{process}/task/{thread}/children"));
                let children = children.unwrap_or_default();
                next.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
                if enforces {
                    tree.enforcers.push(thread);
                } else {
                    tree.threads.push((process, thread));
                }
            }
        }
        tree.threads.sort_unstable();
        tree
    }
}

/// Returns the first argument of a process's program.
fn first_argument(process: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let word = line.split(|&byte| byte == 0).nth(1)?;
    String::from_utf8(word.to_vec()).ok()
}

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns whether the process is a zombie, which keeps its folder until its parent has waited for
/// it.
fn is_dead(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before the state is in parentheses, and may contain parentheses itself.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Returns the name of a thread.
pub fn name(thread: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{thread}/comm")).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

/// Returns the processor time of a thread, as the scheduler accounts for it.
pub fn used(process: u32, thread: u32) -> Option<Service> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Service::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::followed::{first_argument, name};

    /// The same program is the work or an enforcer, depending on its first argument.
    #[test]
    fn an_enforcer_is_not_the_work() {
        let mut sleep = Command::new("sleep").arg("100").spawn().expect("sleep");
        // The arguments appear a little after the program.
        while first_argument(sleep.id()).as_deref() != Some("100") {
            std::thread::yield_now();
        }
        let exe = fs::read_link(format!("/proc/{}/exe", sleep.id())).expect("it lives");
        let look = |commands| {
            let mut followed = Followed::new();
            followed.enforced_by(exe.clone(), commands);
            followed.add(sleep.id());
            let changes = followed.look();
            (changes.came, changes.enforcers)
        };
        let (work, enforces) = (look(&["run", "serve"]), look(&["run", "100"]));
        let (killed, _) = (sleep.kill(), sleep.wait());
        killed.expect("killed");
        assert_eq!(work, (vec![sleep.id()], vec![]));
        assert_eq!(enforces, (vec![], vec![sleep.id()]));
    }

    #[test]
    fn children_are_found_and_their_end_is() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 100 & read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh");
        let mut followed = Followed::new();
        followed.add(shell.id());
        let mut came = BTreeSet::new();
        for _ in 0..2_000 {
            came.extend(followed.look().came);
            if came.iter().any(|&tid| name(tid).is_some_and(|name| name == "sleep")) {
                break;
            }
            punctual_linux::clock::sleep(punctual_model::Duration::from_millis(5));
        }
        assert!(came.contains(&shell.id()) && came.len() >= 2, "{came:?}");
        assert!(followed.is_alive());
        // Not reaped yet: an ended process counts as gone although its directory is still there.
        drop(shell.stdin.take());
        let mut went = BTreeSet::new();
        for _ in 0..2_000 {
            went.extend(followed.look().went);
            if !followed.is_alive() {
                break;
            }
            punctual_linux::clock::sleep(punctual_model::Duration::from_millis(5));
        }
        assert!(went.is_superset(&came), "{came:?} {went:?}");
        shell.wait().expect("ended");
    }

    #[test]
    fn our_own_threads_are_found_and_have_run() {
        let us = std::process::id();
        let tree = Tree::of(&[us], None);
        assert!(tree.threads.contains(&(us, us)), "{tree:?}");
        assert!(used(us, us).is_some_and(|used| !used.is_zero()));
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_threads() {
        assert_eq!(Tree::of(&[u32::MAX], None), Tree::default());
        assert_eq!((name(u32::MAX), used(u32::MAX, u32::MAX)), (None, None));
    }
}
