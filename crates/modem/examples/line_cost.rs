//! Measures the cost of one line's service, back to back on a warm cache: the number to size a bank
//! with.
//!
//! `cargo run --release -p punctual-modem --example line_cost`

#![allow(clippy::disallowed_methods, reason = "a stopwatch; this floor sees no clock of ours")]

use std::sync::Arc;
use std::time::Instant as Wall;

use punctual_model::{Handler, Instant};
use punctual_modem::{Bank, BankConfig, PERIOD};

fn main() {
    let file: Arc<[u8]> = (0..100_000u32).map(|k| (k % 251) as u8).collect();
    println!("lines  ns/service  worst job (us)  % of a CPU at {PERIOD}  delivering");
    for lines in [1u32, 64, 256] {
        let config = BankConfig::new(lines, Arc::clone(&file), 1, Instant::ZERO);
        let mut bank = Bank::new(config).expect("a bank");
        let mut now = Instant::ZERO;
        // Eight seconds of line time to get every call connected; then measure.
        let jobs = if lines == 1 { 20_000 } else { 400 };
        let (mut spent, mut worst) = (0, 0);
        for job in 0..640 + jobs {
            now += PERIOD;
            let begin = Wall::now();
            assert_eq!(bank.iterate(now, lines), lines);
            bank.commit(now);
            let took = begin.elapsed().as_nanos();
            if job >= 640 {
                spent += took;
                worst = worst.max(took);
            }
        }
        let service = spent / (jobs as u128 * u128::from(lines));
        let share = spent as f64 / (jobs as f64 * PERIOD.as_nanos() as f64) * 100.0;
        let delivering = bank.stats(now).lines_delivering;
        println!("{lines:5}  {service:10}  {:14}  {share:24.2}  {delivering}", worst / 1000);
    }
}
