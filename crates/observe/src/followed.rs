//! The threads of processes and of their descendants, and how they change.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::tree::{Enforcer, Tree};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{first_argument, name};
    use std::fs;
    use std::process::{Command, Stdio};

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
}
