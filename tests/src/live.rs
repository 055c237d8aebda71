//! Code that tests on the live kernel share: checks whether the kernel allows them, and patience
//! with a host that has other load.

use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_model::Duration;

/// The longest that any step may take on a host with other load.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Returns whether the kernel lets this process run threads in this class, and prints the reason if
/// not. Waits for bandwidth held by threads of other tests, which is free once they are gone.
pub fn may(class: Class) -> bool {
    let mut tried = Ok(());
    eventually(|| {
        tried = sched::try_out(class);
        !matches!(tried, Err(SchedError::NoBandwidth { .. }))
    });
    tried.map_err(|refused| println!("skipped: {refused}")).is_ok()
}

/// Polls `holds` every millisecond. Returns whether it became true within [`PATIENCE`].
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
