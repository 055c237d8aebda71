//! Admitted upcalls on the live scheduler: none is late, none exceeds its bound.

use system_tests::upcalls::holds;

#[test]
fn admitted_upcalls_never_exceed_their_bounds() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..6_000 {
        match holds(seed).unwrap_or_else(|broken| panic!("{broken}")) {
            Some(_) => admitted += 1,
            None => refused += 1,
        }
    }
    assert!(admitted > 3_000 && refused > 500, "{admitted} admitted, {refused} refused");
}
