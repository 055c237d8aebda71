//! Work that is admitted together meets its deadlines together: many systems of
//! [`system_tests::together`].

use system_tests::together::{Kept, KeptStreams, holds, holds_wherever_it_sends, streams_hold};

/// Returns the number of systems; `JOINT_SYSTEMS` draws more of them.
fn systems() -> u64 {
    std::env::var("JOINT_SYSTEMS").ok().and_then(|count| count.parse().ok()).unwrap_or(30_000)
}

/// Returns the result of each admitted system. The seed in the message replays a failure.
fn kept_of<K: Send>(seeds: u64, holds: fn(u64) -> Result<Option<K>, String>) -> Vec<K> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |first: u64| {
        let outcomes = (first..seeds).step_by(threads as usize).map(holds);
        outcomes.filter_map(Result::transpose).collect::<Result<Vec<K>, String>>()
    };
    std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let shares = shares.into_iter().map(|share| share.join().expect("no panic"));
        shares.flat_map(|share| share.unwrap_or_else(|broken| panic!("{broken}"))).collect()
    })
}

#[test]
fn work_admitted_together_is_in_time_together() {
    let seeds = systems();
    let kept: Vec<Kept> = kept_of(seeds, holds);
    let all = |of: fn(&Kept) -> &Vec<f64>| -> Vec<f64> {
        kept.iter().flat_map(|kept| of(kept).iter().copied()).collect()
    };
    for (what, seen) in [("tasks", all(|k| &k.tasks)), ("channels", all(|k| &k.channels))] {
        let (worst, sum) = seen.iter().fold((0.0f64, 0.0), |(w, s), r| (w.max(*r), s + r));
        println!("{} {what}: worst {worst:.4}, mean {:.3}", seen.len(), sum / seen.len() as f64);
        assert!(worst > 0.9, "the runs are hard enough to say something: {worst}");
    }
    println!("{} of {seeds} admitted", kept.len());
    assert!(kept.len() as u64 * 8 > seeds, "{} of {seeds} admitted", kept.len());
}

/// On two CPUs the sending thread runs on either.
#[test]
fn on_two_cpus_tasks_are_in_time_wherever_the_channels_run() {
    let seeds = systems() / 4;
    let kept: Vec<Kept> = kept_of(seeds, holds_wherever_it_sends);
    let worst =
        kept.iter().flat_map(|kept| &kept.tasks).fold(0.0f64, |worst, seen| worst.max(*seen));
    println!("{} of {seeds} admitted, worst {worst:.4}", kept.len());
    assert!(kept.len() as u64 * 12 > seeds && worst > 0.8, "{} of {seeds}", kept.len());
}

/// Upcalls among the tasks process frames and hand them over to be sent: none is late, nor beyond
/// its proven bound.
#[test]
fn no_frame_of_an_admitted_stream_is_late() {
    let seeds = systems() / 5;
    let kept: Vec<KeptStreams> = kept_of(seeds, streams_hold);
    let ratios: Vec<f64> = kept.iter().flat_map(|kept| kept.streams.iter().copied()).collect();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let frames: u64 = kept.iter().map(|kept| kept.frames).sum();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("{frames} frames, {} streams: worst {worst:.4}, mean {mean:.3}", ratios.len());
    println!("{} of {seeds} admitted", kept.len());
    assert!(worst > 0.8, "the runs are hard enough to say something: {worst}");
    assert!(kept.len() as u64 * 8 > seeds, "{} of {seeds} admitted", kept.len());
}

/// A reservation interrupts the sending thread, whose change back costs more than the reservation's
/// own switches: if only the latter were charged, a task would exceed its bound.
#[test]
fn changes_back_to_an_interrupted_thread_are_charged() {
    let kept = holds(4_200).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(kept.is_some(), "admitted");
}
