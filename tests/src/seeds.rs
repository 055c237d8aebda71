//! Checks many drawn systems, on all processors.

/// Returns for how many seeds below `seeds` the check returns true, using all processors.
pub fn on_all_threads(seeds: u64, check: impl Fn(u64) -> bool + Sync) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let check = &check;
    std::thread::scope(|scope| {
        let share = |first: usize| {
            let seeds = (first as u64..seeds).step_by(threads);
            scope.spawn(move || seeds.filter(|&seed| check(seed)).count())
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        shares.into_iter().map(|share| share.join().expect("no promise broken")).sum()
    })
}
