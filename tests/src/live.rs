//! What tests on the live kernel share: whether it allows them, and patience with a host that has
//! other load.

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_model::Duration;

/// The longest that anything may take on a host with other load.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the kernel lets this process run threads in this class; if not, why is printed.
pub fn may(class: Class) -> bool {
    sched::try_out(class).map_err(|refused| println!("skipped: {refused}")).is_ok()
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
