//! Whole calls through the bank, driven by a virtual clock: no threads, no waiting, no chance.

use std::sync::Arc;

use punctual_model::{Duration, Handler, Instant};
use punctual_modem::modem::Carrier;
use punctual_modem::{Bank, BankConfig, BankError, BankStats, CardStats, PERIOD};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns an incompressible file, as in the paper's transfers (Rialto/NT, §4.4).
fn file(len: usize) -> Arc<[u8]> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(99).fill_bytes(&mut bytes);
    bytes.into()
}

const LEN: usize = 3_000;

/// Jobs that suffice for the handshake and [`LEN`] bytes: 24 s of line time.
const JOBS: u64 = 1_920;

fn bank(lines: u32, seed: u64) -> Bank {
    Bank::new(BankConfig::new(lines, file(LEN), seed, START)).expect("a bank")
}

const START: Instant = Instant::from_nanos(3_141_592_653);

fn release(job: u64) -> Instant {
    START + PERIOD * job
}

/// Runs one whole job at `now`, in one iteration that takes no time.
fn job(bank: &mut Bank, now: Instant) {
    let lines = bank.lines();
    assert_eq!(bank.iterate(now, lines), lines);
    bank.commit(now);
}

/// Runs one job at each release, but none for `stall` after the 800th, as if the driver was kept
/// from running; it runs again at the end of the stall. At 10 s the transfer is well under way.
fn call_with_stall(seed: u64, stall: Duration) -> (Bank, BankStats) {
    let mut bank = bank(1, seed);
    let stalled_from = release(800);
    for release in (1..=JOBS).map(release) {
        let stalled = release > stalled_from && release < stalled_from + stall;
        if !stalled {
            job(&mut bank, release);
        }
    }
    let stats = bank.stats(release(JOBS));
    (bank, stats)
}

#[test]
fn a_file_arrives_intact_on_a_clean_call_and_again_on_the_same_seed() {
    for seed in 1..=3 {
        let (bank, stats) = call_with_stall(seed, Duration::ZERO);
        assert_eq!(stats.file_line.carrier, Carrier::Connected, "seed {seed}");
        assert_eq!(stats.file_line.bytes_sent, LEN, "seed {seed}");
        assert_eq!(stats.file_line.bytes_delivered, LEN, "seed {seed}");
        assert_eq!(stats.file_line.bytes_intact, LEN, "seed {seed}");
        assert_eq!(stats.file_line.bad_frames, 0, "seed {seed}");
        assert_eq!(bank.file_received(), &*file(LEN));
        assert_eq!(stats.cards, CardStats { most_pending: 100, ..CardStats::default() });
        let (again, same) = call_with_stall(seed, Duration::ZERO);
        assert_eq!(stats, same, "seed {seed}");
        assert_eq!(bank.file_received(), again.file_received());
    }
}

#[test]
fn a_stall_of_50_ms_loses_nothing() {
    let (_, stats) = call_with_stall(1, Duration::from_millis(50));
    assert_eq!(stats.cards, CardStats { most_pending: 400, ..CardStats::default() });
    assert_eq!(stats.file_line.bytes_intact, LEN);
}

/// The effect of one loss depends on the modem's timing recovery: here three calls lose from a few
/// frames to all later ones.
#[test]
fn one_stall_of_100_ms_loses_a_ring_of_samples_and_breaks_the_transfer() {
    let lost = CardStats { samples_lost: 512, overruns: 1, stale_samples: 512, most_pending: 800 };
    for seed in 1..=3 {
        let (bank, stats) = call_with_stall(seed, Duration::from_millis(100));
        assert_eq!(stats.cards, lost, "seed {seed}");
        let line = stats.file_line;
        assert_eq!(line.bytes_sent, LEN, "seed {seed}");
        assert!(line.bytes_intact > 1_000 && line.bytes_intact < LEN, "seed {seed}: {line:?}");
        assert_eq!(line.carrier, Carrier::Connected, "the modem itself never notices");
        assert!(!line.delivering && stats.lines_delivering == 0, "seed {seed}");
        // The same failure, byte for byte, on each run.
        let (again, same) = call_with_stall(seed, Duration::from_millis(100));
        assert_eq!(stats, same, "seed {seed}");
        assert_eq!(bank.file_received(), again.file_received());
    }
}

#[test]
fn a_driver_that_comes_too_late_each_time_delivers_next_to_nothing() {
    let mut bank = bank(1, 1);
    for k in 1..=JOBS / 6 {
        job(&mut bank, release(6 * k));
    }
    let stats = bank.stats(release(JOBS));
    // 75 ms are 600 samples: each visit finds the count wrapped and reads 88 of them.
    assert_eq!(stats.cards.overruns, JOBS / 6);
    assert_eq!(stats.cards.samples_lost, 512 * (JOBS / 6));
    assert_eq!(stats.file_line.bytes_intact, 0);
}

#[test]
fn a_line_of_26_db_makes_no_errors_and_one_of_4_db_is_of_no_use() {
    let intact = |snr_db| {
        let mut config = BankConfig::new(1, file(LEN), 1, START);
        config.quality.snr_db = snr_db;
        let mut bank = Bank::new(config).expect("a bank");
        (1..=JOBS).for_each(|k| job(&mut bank, release(k)));
        bank.stats(release(JOBS)).file_line.bytes_intact
    };
    assert_eq!(intact(26.0), LEN);
    assert!(intact(4.0) < LEN / 2);
}

#[test]
fn a_card_whose_clock_runs_fast_or_slow_delivers_too() {
    for ppm in [-200, 200] {
        let config = BankConfig { ppm, ..BankConfig::new(1, file(LEN), 1, START) };
        let mut bank = Bank::new(config).expect("a bank");
        (1..=JOBS).for_each(|k| job(&mut bank, release(k)));
        assert_eq!(bank.stats(release(JOBS)).file_line.bytes_intact, LEN, "{ppm} ppm");
    }
}

#[test]
fn every_line_of_a_bank_is_a_call_of_its_own() {
    let mut bank = bank(5, 7);
    for k in 1..=JOBS {
        job(&mut bank, release(k));
    }
    let stats = bank.stats(release(JOBS));
    assert_eq!(stats.file_line.bytes_intact, LEN);
    assert_eq!(stats.lines_delivering, 5);
    for line in 1..5 {
        let line = bank.line_stats(line, release(JOBS)).expect("a line");
        assert!(line.good_frames > 40 && line.bad_frames == 0, "{line:?}");
        assert!(line.far_good_frames > 40, "the far end hears us too: {line:?}");
        assert_eq!(line.bytes_sent, 0);
    }
    assert_eq!(bank.line_stats(5, release(JOBS)), None);
}

#[test]
fn the_bytes_received_do_not_depend_on_the_size_of_iterations() {
    let mut whole = bank(5, 7);
    let mut pieces = bank(5, 7);
    for k in 1..=JOBS {
        let now = release(k);
        job(&mut whole, now);
        let served: Vec<u32> = std::iter::from_fn(|| {
            let served = pieces.iterate(now, 2);
            pieces.commit(now);
            Some(served).filter(|&served| served > 0)
        })
        .collect();
        assert_eq!(served, [2, 2, 1], "and zero ends the job");
    }
    assert_eq!(whole.stats(release(JOBS)), pieces.stats(release(JOBS)));
}

#[test]
fn service_may_jitter_within_the_ring() {
    let mut bank = bank(1, 2);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for k in 1..=JOBS {
        let late = Duration::from_nanos(rng.next_u64() % 12_000_000);
        let took = Duration::from_nanos(rng.next_u64() % 400_000);
        assert_eq!(bank.iterate(release(k) + late, 1), 1);
        bank.commit(release(k) + late + took);
    }
    let stats = bank.stats(release(JOBS + 1));
    assert_eq!(stats.file_line.bytes_intact, LEN);
    assert_eq!((stats.cards.samples_lost, stats.cards.stale_samples), (0, 0));
}

#[test]
fn a_job_cut_short_is_continued_where_it_stopped() {
    let mut bank = bank(5, 1);
    assert_eq!(bank.iterate(release(1), 3), 3);
    bank.commit(release(1));
    // The next job begins with line 3; line 0 has waited for two periods when it is reached.
    assert_eq!(bank.iterate(release(2), 5), 2, "never past the last line");
    bank.commit(release(2));
    assert_eq!(bank.iterate(release(3), 5), 5);
    bank.commit(release(3));
    let most = |line| bank.line_stats(line, release(3)).expect("a line").card.most_pending;
    assert_eq!([0, 1, 2, 3, 4].map(most), [200, 200, 200, 200, 200]);
    assert_eq!(bank.iterate(release(3), 5), 0, "nothing more to do at this instant");
}

#[test]
fn an_answer_committed_late_is_heard_stale() {
    let mut bank = bank(1, 1);
    assert_eq!(bank.iterate(release(1), 1), 1);
    // They play from sample 512 on, at 64 ms; at 70 ms the first 48 of 100 are too late.
    bank.commit(START + Duration::from_millis(70));
    let stats = bank.stats(START + Duration::from_millis(70));
    assert_eq!(stats.cards.stale_samples, 48);
    // A second commit writes nothing.
    bank.commit(START + Duration::from_millis(70));
    assert_eq!(bank.stats(START + Duration::from_millis(70)), stats);
    assert_eq!(stats.cards.samples_lost, 0);
}

#[test]
fn nothing_moves_before_the_start() {
    let mut bank = bank(2, 1);
    assert_eq!(bank.iterate(Instant::ZERO, 2), 0);
    bank.commit(Instant::ZERO);
    assert_eq!(bank.stats(Instant::ZERO).cards, CardStats::default());
}

#[test]
fn a_bank_that_cannot_be_is_refused_in_a_sentence() {
    let refused = |lines, file: Arc<[u8]>| {
        Bank::new(BankConfig::new(lines, file, 1, START)).err().expect("refused")
    };
    assert_eq!(refused(0, file(1)), BankError::NoLines);
    assert_eq!(refused(1, file(0)), BankError::EmptyFile);
    assert_eq!(refused(0, file(1)).to_string(), "the bank has no lines; it needs at least 1");
}

#[test]
fn a_bank_can_move_into_a_thread() {
    let mut bank = bank(2, 1);
    let bank = std::thread::spawn(move || {
        job(&mut bank, release(1));
        bank
    });
    assert_eq!(bank.join().expect("no panic").lines(), 2);
}
