//! Counts how many random sets each test of RMDP admits, and how much of the processor.

use punctual_analysis::fixed_priority::all_in_time;
use punctual_analysis::{CpuLoad, Steps, utilisation};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::sets::{Shape, load};
use crate::table::{Cell, Table, part};

type Test = fn(&CpuLoad) -> bool;

/// As printed, per task, exact: the weakest first.
const TESTS: [Test; 3] = [
    |load| utilisation::rmdp(load).admits,
    |load| utilisation::sha(load).admits,
    |load| all_in_time(load, &mut Steps::default()),
];

/// Returns the acceptance at utilisations from 0.4 to 1, uniformly, in classes of 0.05.
pub(crate) fn acceptance(sets: u64) -> Table {
    let mut rng = ChaCha8Rng::seed_from_u64(2001);
    let mut classes = [(0, [0u64; 3]); 12];
    for _ in 0..sets {
        let utilisation: f64 = rng.random_range(0.4..1.0);
        let load = load(&Shape::draw(&mut rng).at(utilisation));
        let class = &mut classes[(((utilisation - 0.4) / 0.05) as usize).min(11)];
        class.0 += 1;
        for (admits, count) in TESTS.iter().zip(&mut class.1) {
            *count += u64::from(admits(&load));
        }
    }
    let title = format!("Admitted of {sets} random sets of 2 to 12 upcalls, by utilisation");
    let mut table = Table::new(
        "acceptance",
        title,
        &["utilisation", "sets", "rmdp", "sha", "exact", "rmdp part", "sha part", "exact part"],
    );
    let mut row = |name: &str, of: u64, admitted: [u64; 3]| {
        let counts = admitted.map(Cell::from);
        let parts = admitted.map(|count| part(count, of));
        table.row([Cell::from(name), of.into()].into_iter().chain(counts).chain(parts));
    };
    for (at, (of, admitted)) in classes.into_iter().enumerate() {
        let low = 0.4 + 0.05 * at as f64;
        row(&format!("{low:.2} to {:.2}", low + 0.05), of, admitted);
    }
    let all = classes
        .iter()
        .fold([0; 3], |sum, (_, admitted)| [0, 1, 2].map(|test| sum[test] + admitted[test]));
    row("all", sets, all);
    table
}

/// Returns the utilisation up to which a set may grow, all its work in proportion, until a test
/// refuses it.
pub(crate) fn breakdown(sets: u64) -> Table {
    let title = format!("Mean breakdown utilisation, {sets} sets each");
    let mut table = Table::new("breakdown", title, &["upcalls", "rmdp", "sha", "exact"]);
    for n in [2, 4, 8, 12, 24, 96] {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
        let mut sums = [0.0; 3];
        for _ in 0..sets {
            let shape = Shape::draw_of(&mut rng, n);
            for (admits, sum) in TESTS.iter().zip(&mut sums) {
                *sum += up_to(&shape, *admits);
            }
        }
        let means = sums.map(|sum| Cell::from(sum / sets as f64));
        table.row([Cell::from(u64::from(n))].into_iter().chain(means));
    }
    table
}

/// Searches in thousandths, by bisection: a set that a test admits is admitted with less work too.
fn up_to(shape: &Shape, admits: Test) -> f64 {
    let (mut low, mut high) = (0u32, 1001u32);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if admits(&load(&shape.at(f64::from(middle) / 1000.0))) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::from(low) / 1000.0
}
