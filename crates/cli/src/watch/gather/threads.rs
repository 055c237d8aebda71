//! The threads of a process and of its descendants, and their use.

use std::collections::BTreeMap;

use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service};

use super::account::Account;
use crate::watch::observed::tree::{self, Tree};
use crate::watch::picture::{Key, Row};

/// The shortest window over which use is measured.
const WINDOW: Duration = Duration::from_millis(900);

/// The recent use of each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    of: BTreeMap<u32, Use>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    since: Instant,
    used: Service,
    ppm: Option<u64>,
}

impl Uses {
    /// Returns a row for each existing thread.
    pub(super) fn rows(
        &mut self,
        tree: &Tree,
        accounts: &BTreeMap<u32, Account>,
    ) -> Vec<(u32, Row)> {
        let now = clock::now();
        self.of.retain(|thread, _| tree.threads.iter().any(|(_, one)| one == thread));
        let rows = tree.threads.iter().map(|&(process, thread)| {
            let name = tree::name(thread).unwrap_or_else(|| thread.to_string());
            let what = format!("thread {thread} of process {process}");
            let mut row = Row::new(Key::Thread(thread), "thread", name, what);
            row.used_ppm = self.of_thread(process, thread, now);
            if let Some(account) = accounts.get(&thread) {
                account.fill(&mut row);
            }
            (thread, row)
        });
        rows.collect()
    }

    /// Returns the use in parts per million of a CPU, or `None` before the first window is over.
    fn of_thread(&mut self, process: u32, thread: u32, now: Instant) -> Option<u64> {
        let used = tree::used(process, thread)?;
        let known = self.of.entry(thread).or_insert(Use { since: now, used, ppm: None });
        let length = now.saturating_since(known.since);
        if length >= WINDOW {
            let more = u128::from(used.saturating_sub(known.used).as_nanos()) * 1_000_000;
            let ppm = u64::try_from(more / u128::from(length.as_nanos())).ok();
            *known = Use { since: now, used, ppm };
        }
        known.ppm
    }
}
