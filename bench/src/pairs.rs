//! Two things measured in turn, and the ratio of the two.
//!
//! A time alone says more about the machine and its other tenants than about the code; the ratio of
//! two times taken milliseconds apart says something that holds elsewhere. Criterion and divan
//! measure one thing after the other, so a drift between the two ends up in the ratio; tango-bench
//! pairs, but two builds of one function. So this is our own, and small.

use std::fmt;

use punctual_linux::clock;

/// What [`compare`] found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The median time of the first, in nanoseconds an operation.
    pub a: f64,
    /// The median time of the second.
    pub b: f64,
    /// `a / b` of each pair, ascending.
    ratios: Vec<f64>,
}

/// Measures `a` and `b` in `pairs` pairs, prints the result after `what`, and gives it.
///
/// Each call measures once and gives nanoseconds an operation (see [`nanos_per_op`]). The first of
/// each only warms up. The order is A B, B A, A B, …: a steady drift favours neither.
///
/// # Panics
/// If `pairs` is zero.
pub fn compare(
    what: &str,
    pairs: usize,
    mut a: impl FnMut() -> f64,
    mut b: impl FnMut() -> f64,
) -> Comparison {
    assert!(pairs > 0, "a median needs a value");
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
    comparison
}

/// How much processor time `block`, which does `ops` operations, takes for each on this thread: what
/// others do with the CPU meanwhile does not count.
pub fn nanos_per_op(ops: u64, block: impl FnOnce()) -> f64 {
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

/// The middle one, or the mean of the two in the middle; not a number if there are none.
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
