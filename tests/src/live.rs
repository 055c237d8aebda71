//! What tests on the live kernel share: whether it allows them, and patience with a host that has
//! other load.

use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_model::Duration;

/// The longest that anything may take on a host with other load.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Returns whether the kernel lets this process run threads in this class; if not, says why. Waits for bandwidth that
/// threads of other tests had, which is free once they are gone.
pub fn may(class: Class) -> bool {
    let mut tried = Ok(());
    eventually(|| {
        tried = sched::try_out(class);
        !matches!(tried, Err(SchedError::NoBandwidth { .. }))
    });
    tried.map_err(|refused| println!("skipped: {refused}")).is_ok()
}

/// Whether it `holds` within [`PATIENCE`], looked at every millisecond.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = clock::now() + PATIENCE;
    loop {
        if holds() {
            return true;
        }
        if clock::now() > until {
            return false;
        }
        clock::sleep(Duration::from_millis(1));
    }
}
