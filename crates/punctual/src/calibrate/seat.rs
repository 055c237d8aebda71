//! The thread that sends and receives while that is measured.

use std::thread::{Builder, scope};

use punctual_linux::measure::MeasureError;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;

use super::burst::Why;

/// Runs `body` on a thread of its own, of this class, on this CPU.
pub(super) fn on_seat<T: Send>(
    class: Class,
    cpu: usize,
    body: impl FnOnce() -> Result<T, Why> + Send,
) -> Result<T, Why> {
    scope(|scope| {
        let thread = Builder::new().name("punctual-carry".to_owned()).spawn_scoped(scope, || {
            // The class first: an ordinary thread would have to wait for the CPU that it goes to.
            sched::set(thread::current(), class).map_err(|why| why.to_string())?;
            thread::pin_to(cpu).map_err(|why| why.to_string())?;
            body()
        });
        let thread = thread.map_err(|why| MeasureError::NoThread(why).to_string())?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
