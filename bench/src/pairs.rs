//! Measures two operations in turn, and their ratio.
//!
//! A time alone says more about the machine and its other tenants than about the code; the ratio of
//! two times taken milliseconds apart holds elsewhere, too. Criterion and divan measure one
//! operation after the other, so a drift between the two ends up in the ratio; tango-bench pairs,
//! but two builds of one function. So this module is Punctual's own, and small.

use std::fmt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::clock;

/// Makes [`compare`] also count instructions with valgrind: they are the same on every run, while
/// times on a shared machine are not. Code that reads a clock itself has no count, because valgrind
/// does not have the kernel's clock.
const INSTRUCTIONS: &str = "PUNCTUAL_BENCH_INSTRUCTIONS";

/// Measures only the first operation of the named comparison, this many times: `TIMES WHAT`.
const COUNT: &str = "PUNCTUAL_BENCH_COUNT";

/// Returns the value of [`COUNT`], if instructions of this program are being counted.
fn counted() -> Option<&'static (u32, String)> {
    static COUNTED: OnceLock<Option<(u32, String)>> = OnceLock::new();
    let read = || {
        let told = std::env::var(COUNT).ok()?;
        let (times, what) = told.split_once(' ')?;
        Some((times.parse().ok()?, what.to_string()))
    };
    COUNTED.get_or_init(read).as_ref()
}

/// The last number of operations passed to [`nanos_per_op`].
static OPS: AtomicU64 = AtomicU64::new(1);

/// The result of [`compare`].
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The median time of the first, in nanoseconds an operation.
    pub a: f64,
    /// The median time of the second.
    pub b: f64,
    /// `a / b` of each pair, ascending.
    ratios: Vec<f64>,
}

/// Measures `a` and `b` in `pairs` pairs, prints the result after `what`, and returns it.
///
/// Each call measures once and returns nanoseconds an operation (see [`nanos_per_op`]). The first
/// of each only warms up. The order is A B, B A, A B, …: a steady drift favours neither.
///
/// # Panics
/// Panics if `pairs` is zero.
pub fn compare(
    what: &str,
    pairs: usize,
    mut a: impl FnMut() -> f64,
    mut b: impl FnMut() -> f64,
) -> Comparison {
    assert!(pairs > 0, "a median needs a value");
    if let Some((times, counted)) = counted() {
        if counted == what {
            (0..*times).for_each(|_| _ = a());
            println!("{}", OPS.load(Ordering::Relaxed));
            std::process::exit(0);
        }
        return Comparison { a: f64::NAN, b: f64::NAN, ratios: vec![f64::NAN] };
    }
    a();
    b();
    let (mut all_a, mut all_b) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        if pair % 2 == 0 {
            all_a.push(a());
            all_b.push(b());
        } else {
            all_b.push(b());
            all_a.push(a());
        }
    }
    let mut ratios: Vec<f64> = all_a.iter().zip(&all_b).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let comparison = Comparison { a: median(&all_a), b: median(&all_b), ratios };
    println!("{what}: {comparison}");
    if std::env::var_os(INSTRUCTIONS).is_some() {
        match (instructions(what, 1), instructions(what, 3)) {
            (Some((one, ops)), Some((three, _))) => {
                println!("  A: {:.1} instructions", (three - one) as f64 / 2.0 / ops as f64);
            }
            _ => println!("  A: instructions not counted"),
        }
    }
    comparison
}

/// Returns the instructions of this program until it has measured the first operation of `what`
/// `times` times, and the number of operations each time.
fn instructions(what: &str, times: u32) -> Option<(u64, u64)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .env(COUNT, format!("{times} {what}"))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected : "))?;
    let ops = String::from_utf8_lossy(&output.stdout).lines().last()?.parse().ok()?;
    Some((count.trim().parse().ok()?, ops))
}

/// Returns the processor time on this thread for each of the `ops` operations of `block`. CPU time
/// of other threads does not count.
pub fn nanos_per_op(ops: u64, block: impl FnOnce()) -> f64 {
    OPS.store(ops, Ordering::Relaxed);
    if counted().is_some() {
        block();
        return f64::NAN;
    }
    let start = clock::thread_cpu_time();
    block();
    (clock::thread_cpu_time().as_nanos() - start.as_nanos()) as f64 / ops as f64
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.ratios.len();
        write!(
            f,
            "A {:.1} ns, B {:.1} ns, ratio A/B {:.3} ({:.3}–{:.3}) over {pairs} pairs",
            self.a,
            self.b,
            median(&self.ratios),
            self.ratios[0],
            self.ratios[pairs - 1],
        )
    }
}

/// Returns the middle value, or the mean of the two in the middle, or NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        return f64::NAN;
    }
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_alternates_after_one_call_each_to_warm_up() {
        let calls = std::cell::RefCell::new(String::new());
        let call = |who, cost| {
            calls.borrow_mut().push(who);
            cost
        };
        let found = compare("test", 3, || call('a', 6.0), || call('b', 2.0));
        assert_eq!(calls.into_inner(), "ababbaab");
        assert_eq!(
            found.to_string(),
            "A 6.0 ns, B 2.0 ns, ratio A/B 3.000 (3.000–3.000) over 3 pairs"
        );
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), 3.0);
    }
}
