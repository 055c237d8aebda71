//! The fast sufficient tests, beside the exact answer.

use punctual_analysis::{admit, utilisation};
use punctual_model::{HostProfile, Policy};

use crate::common::{contract, load, plain, response_ticks};
use crate::{known, with_quanta};

#[test]
fn rmdp_01_weak_test_refuses_what_exact_analysis_admits() {
    let system = with_quanta(&[(4, 12, 2), (6, 20, 3), (8, 40, 4)]);
    assert_eq!(utilisation::rmdp_left_side(&load(&system)).to_string(), "106.6667 %");
    let finding = utilisation::rmdp(&load(&system));
    assert!(!finding.admits);
    assert!(finding.why.contains("above 77.9763 %"), "{}", finding.why);
    let finding = utilisation::sha(&load(&system));
    assert!(!finding.admits);
    // 4/12 + 6/20 + 4/20
    let wanted = "first 2 of 3 tasks utilisation with blocking 83.3334 % is above 82.8427 %";
    assert!(finding.why.contains(wanted), "{}", finding.why);
    assert_eq!(response_ticks(&load(&system)), known([8, 18, 32]));
    let grant = admit(&contract(Policy::Rmdp, 1, &system, &[]), &HostProfile::ideal(1));
    assert!(grant.is_ok());
}

#[test]
fn rmdp_02_narrow_range_of_periods() {
    let system = with_quanta(&[(100, 1000, 50), (150, 1100, 75), (200, 1200, 200)]);
    assert_eq!(utilisation::rmdp_left_side(&load(&system)).to_string(), "43.6364 %");
    assert!(utilisation::rmdp(&load(&system)).admits);
    assert!(utilisation::sha(&load(&system)).admits);
    assert_eq!(response_ticks(&load(&system)), known([300, 450, 450]));
}

/// Bini, Buttazzo & Buttazzo: exactly at the bound, with a sum of 5/6, while Liu & Layland's bound
/// is 0.828.
#[test]
fn fp_12_the_hyperbolic_test_admits_up_to_two() {
    let at_the_bound = load(&plain(&[(1, 2), (1, 3)]));
    assert!(!utilisation::liu_layland(&at_the_bound).admits);
    let finding = utilisation::hyperbolic(&at_the_bound);
    assert!(finding.admits && finding.why.contains("2.000000 is within 2"), "{}", finding.why);
    let above = utilisation::hyperbolic(&load(&plain(&[(1, 2), (1_000, 2_999)])));
    assert!(!above.admits && above.why.contains("2.000167 is above 2"), "{}", above.why);
}
