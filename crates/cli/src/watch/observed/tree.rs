//! The threads of a process and of all that it starts, as /proc has them (proc(5)).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use punctual_model::Service;

/// Processes that are looked at in one go: a bomb of forks is not followed for ever.
const MOST: usize = 4096;

/// What is there at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Process and thread, of all that is work.
    pub(crate) threads: Vec<(u32, u32)>,
    /// Threads of the program that enforces budgets.
    pub(crate) enforcers: Vec<u32>,
}

impl Tree {
    /// `root` and what it started. Processes that run `enforcer` are not the work.
    pub(crate) fn of(root: u32, enforcer: Option<&Path>) -> Self {
        let mut tree = Self::default();
        let (mut seen, mut next) = (BTreeSet::new(), vec![root]);
        while let Some(process) = next.pop() {
            if seen.len() >= MOST || !seen.insert(process) || is_dead(process) {
                continue;
            }
            let program = fs::read_link(format!("/proc/{process}/exe")).ok();
            let enforces = enforcer.is_some() && program.as_deref() == enforcer;
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

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// It has ended and nobody has asked how: its folder is still there.
fn is_dead(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in parentheses, and may have some itself.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The name of a thread.
pub(crate) fn name(thread: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{thread}/comm")).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

/// The processor time of a thread, by the scheduler's own account.
pub(crate) fn used(process: u32, thread: u32) -> Option<Service> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Service::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_threads_are_found_and_have_run() {
        let us = std::process::id();
        let tree = Tree::of(us, None);
        assert!(tree.threads.contains(&(us, us)), "{tree:?}");
        assert!(used(us, us).is_some_and(|used| !used.is_zero()));
        let this = std::env::current_exe().expect("ours");
        let tree = Tree::of(us, Some(&this));
        assert!(tree.enforcers.contains(&us) && !tree.threads.contains(&(us, us)), "{tree:?}");
    }

    #[test]
    fn of_nobody_there_is_nothing() {
        assert_eq!(Tree::of(u32::MAX, None), Tree::default());
        assert_eq!((name(u32::MAX), used(u32::MAX, u32::MAX)), (None, None));
    }
}
