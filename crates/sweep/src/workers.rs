//! Answers independent questions on all CPUs.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

/// A pool of threads and its progress bar. The bar is silent unless it is on a terminal.
pub struct Workers {
    threads: usize,
    bar: ProgressBar,
}

impl Workers {
    /// Uses this many threads, at least one.
    pub fn new(threads: usize) -> Self {
        let style = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len}")
            .expect("the template is well formed");
        Self { threads, bar: ProgressBar::new(0).with_style(style) }
    }

    /// Returns `answer` of each item, in the order of the items, whichever thread answers which.
    ///
    /// Items are handed out one by one, because some take a thousand times longer than others.
    pub fn map<T: Sync, A: Send>(
        &self,
        what: &'static str,
        items: &[T],
        answer: impl Fn(&T) -> A + Sync,
    ) -> Vec<A> {
        self.bar.reset();
        self.bar.set_message(what);
        self.bar.set_length(items.len() as u64);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut answers = Vec::new();
            // Relaxed suffices: the counter orders no other memory.
            while let Some((at, item)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                items.get(at).map(|item| (at, item))
            } {
                answers.push((at, answer(item)));
                self.bar.inc(1);
            }
            answers
        };
        let mut answers: Vec<(usize, A)> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads.min(items.len())).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .flat_map(|answers| answers.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Removes the progress bar from the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1_000).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [1, 2, 7, 2_000] {
            assert_eq!(Workers::new(threads).map("squares", &items, |n| n * n), squares);
        }
        assert!(Workers::new(3).map("none", &[], |n: &u64| *n).is_empty());
    }
}
