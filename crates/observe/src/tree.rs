//! The threads of processes and of all their descendants, from /proc (proc(5)).

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use punctual_model::Service;

/// The most processes examined at a time, so that a fork bomb does not take all time.
const MOST: usize = 4096;

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
pub(crate) fn first_argument(process: u32) -> Option<String> {
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
    use super::*;

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
