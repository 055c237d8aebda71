//! The processes that the broker consists of beside itself, and what each of them does.
//!
//! Each part is this program run again with a role, so that it shares nothing with the broker but
//! one socket. A part is started before the broker gives up its privileges, gives up its own at
//! once, and is never restarted: when one ends the broker ends, the service manager starts
//! everything anew, and the ledger holds the grants.

use crate::link::{Link, LinkError};

pub use crate::link::Part;

impl Part {
    /// Does the part's work until the broker is gone. A program that was started with this role
    /// calls this while it has one thread.
    ///
    /// # Errors
    /// If the link to the broker fails in another way than by its end.
    pub fn run(self) -> Result<(), LinkError> {
        let link = Link::of_parent()?;
        let ended = match self {
            Self::Front => crate::front::run(link),
            Self::Guard => crate::guard::run(link),
            Self::Dispatcher => crate::dispatcher::run(link),
        };
        match ended {
            Err(LinkError::Gone) => Ok(()),
            ended => ended,
        }
    }
}
