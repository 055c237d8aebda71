//! The threads of a process and of what it started, and what they use.

use std::collections::BTreeMap;

use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service};

use super::account::Account;
use crate::watch::observed::tree::{self, Tree};
use crate::watch::picture::{Key, Row};

/// Use is told over so long at least.
const WINDOW: Duration = Duration::from_millis(900);

/// What each thread has used lately.
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
    /// A row for each thread that is there.
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
                account.tell(&mut row);
            }
            (thread, row)
        });
        rows.collect()
    }

    /// In parts per million of a CPU; none until it was watched for a while.
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
