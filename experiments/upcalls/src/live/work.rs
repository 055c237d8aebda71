//! Work of a fixed amount, with a working set: the same for each kind of scheduling.

use std::hint::black_box;

use punctual_linux::clock;
use punctual_model::Service;

/// The words of a cache line.
const LINE: usize = 8;

/// The memory that an upcall passes over in each job.
#[derive(Debug)]
pub(crate) struct Work {
    words: Vec<u64>,
    at: usize,
}

impl Work {
    /// Makes work with this many bytes.
    pub(crate) fn new(footprint: usize) -> Self {
        let words = vec![1; (footprint / size_of::<u64>()).max(LINE)];
        Self { words, at: 0 }
    }

    /// Passes over this many cache lines, cyclically.
    pub(crate) fn go_over(&mut self, lines: u64) {
        for _ in 0..lines {
            let word = &mut self.words[self.at];
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.at = (self.at + LINE) % self.words.len();
        }
        black_box(&self.words);
    }

    /// Measures lines a millisecond of processor time, without other data in the cache: the median
    /// of eleven attempts.
    pub(crate) fn lines_per_milli(footprint: usize) -> u64 {
        const LINES: u64 = 1_000_000;
        let mut work = Self::new(footprint);
        work.go_over(LINES);
        let mut tries: Vec<Service> = (0..11)
            .map(|_| {
                let before = clock::thread_cpu_time();
                work.go_over(LINES);
                clock::thread_cpu_time() - before
            })
            .collect();
        tries.sort_unstable();
        LINES * 1_000_000 / tries[tries.len() / 2].as_nanos().max(1)
    }
}
